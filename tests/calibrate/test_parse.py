"""Prints, logs and tables as programs write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autodeploy.calibrate.measurements import AttentionTable, CollectiveTable, GemmTable, IterationLog, MoeTable
from autodeploy.calibrate.parse_logs import parse_log
from autodeploy.calibrate.read import parse, read_file, read_measurements
from autodeploy.errors import InputError

NCCL = """\
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
#
# Using devices
#  Rank  0 Group  0 Pid  11 on    node-a device  0 [0x18] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  12 on    node-a device  1 [0x2a] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid  13 on    node-b device  0 [0x18] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid  14 on    node-b device  1 [0x2a] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    50.00   20.97   31.46      0    49.00   21.40   32.10      0
     2097152        524288     float     sum      -1    70.00   29.96   44.94      0    69.00   30.39   45.59      0
     4194304       1048576     float     sum      -1    95.50   43.92   65.88    N/A    94.00   44.62   66.93    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 47.4
"""

HCCL = """\
the minbytes is 8192, maxbytes is 2147483648, iters is 20, warmup_iters is 5
mpirun -n 8 ./bin/all_gather_test -b 8K -e 2G -f 2 -p 8
data_size(Bytes):  | aveg_time(us): | alg_bandwidth(GB/s): | check_result:
8192               | 53.95          | 0.15185              | success
2147483648         | 14600.10       | 147.08720            | success
"""

MEGATRON = """\
using world size: 16, data-parallel size: 2, context-parallel size: 1, tensor-model-parallel size: 4
------------------------ arguments ------------------------
  context_parallel_size ........................... 1
  global_batch_size ............................... 64
  hidden_size ..................................... 4096
  tensor_model_parallel_size ...................... 4
  virtual_pipeline_model_parallel_size ............ None
-------------------- end of arguments ---------------------
 [2026-01-02 03:04:05] iteration        1/     500 | consumed samples:  64 | elapsed time per iteration (ms): 21012.3 | throughput per GPU (TFLOP/s/GPU): 90.1 | learning rate: 3.0E-07 | global batch size:    64 | lm loss: 1.1E+01 |
 [2026-01-02 03:04:08] iteration        2/     500 | consumed samples: 128 | elapsed time per iteration (ms): 3010.0 | throughput per GPU (TFLOP/s/GPU): 390.1 | global batch size:    64 |
"""  # noqa: E501


def test_nccl_print() -> None:
    (table,) = parse(NCCL, "run.txt")
    assert isinstance(table, CollectiveTable)
    assert (table.op, table.nodes, table.ranks.tolist()) == ("all_reduce", 2, [4.0, 4.0, 4.0])
    np.testing.assert_allclose(table.seconds, [50e-6, 70e-6, 95.5e-6])
    assert table.message_bytes[0] == 1048576


def test_rccl_print_without_rank_lines_takes_ranks_from_the_ratio() -> None:
    text = "\n".join(line for line in NCCL.splitlines() if "Rank" not in line)
    (table,) = parse(text, "rccl.txt")
    assert (table.op, table.ranks[0], table.nodes) == ("all_reduce", 4.0, 1)


def test_the_operation_comes_from_the_name_where_the_print_is_silent() -> None:
    text = NCCL.replace(" sum ", " none ").replace("31.46", "15.73").replace("44.94", "22.47").replace("65.88", "32.94")
    assert parse(text, "alltoall_perf_h100.txt")[0].op == "all_to_all"  # type: ignore[union-attr]
    assert parse(f"# op: all_gather\n{text}", "x.txt")[0].op == "all_gather"  # type: ignore[union-attr]
    with pytest.raises(InputError, match="# op: all_gather"):
        parse(text, "x.txt")


def test_hccl_print() -> None:
    (table,) = parse(HCCL, "a2.log")
    assert isinstance(table, CollectiveTable)
    assert (table.op, table.ranks[0], table.nodes) == ("all_gather", 8.0, 1)
    np.testing.assert_allclose(table.seconds, [53.95e-6, 14600.10e-6])
    with pytest.raises(InputError, match="# ranks: 8"):
        parse(HCCL.replace("mpirun -n 8 ./bin/all_gather_test -b 8K -e 2G -f 2 -p 8", "# op: all_gather"), "a2.log")


def test_megatron_and_mindspeed_logs() -> None:
    log = parse(MEGATRON, "train.log")[0]
    assert isinstance(log, IterationLog) and log.program == "megatron"
    np.testing.assert_allclose(log.seconds, [21.0123, 3.01])
    assert log.arguments["hidden_size"] == "4096" and log.arguments["global_batch_size"] == "64"
    lines = [f" iteration {i:>8}/ 20 | elapsed time per iteration (ms): {1000 + i:.1f} | x" for i in range(1, 21)]
    long = parse_log("import mindspeed.megatron_adaptor\n" + "\n".join(lines), "npu.log")
    assert long.program == "mindspeed" and long.seconds.size == 17  # three warm-up steps left out
    assert long.median_s == pytest.approx(1.012)


def test_csv_tables() -> None:
    gemm = parse("dtype,m,n,k,latency_us\nbf16,1024,1024,1024,9\nfp8,1024,1024,1024,6\n", "g.csv")
    assert [(table.dtype, table.m[0]) for table in gemm if isinstance(table, GemmTable)] == [
        ("bf16", 1024),
        ("fp8", 1024),
    ]
    (attention,) = parse("kernel_source,head_dim,batch_size,isl,num_heads,latency_us\nfa3,128,1,4096,32,200\n", "a.csv")
    assert isinstance(attention, AttentionTable) and attention.kernel == "flash3"
    head = (
        "moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,distribution,latency_us\n"
    )
    (moe,) = parse(
        f"{head}bfloat16,1024,2048,512,8,64,1,1,balanced,99\nbfloat16,1024,2048,512,8,64,1,8,balanced,9\n", "m.csv"
    )
    assert isinstance(moe, MoeTable) and moe.tokens_per_expert.tolist() == [128.0]


BAD = {
    "letters": ("dtype,m,n,k,latency_us\nbf16,a,1,1,1\n", "row 2"),
    "negative": ("dtype,m,n,k,latency_us\nbf16,1,1,1,1\nbf16,1,1,1,-4\n", "row 3"),
    "nan": ("dtype,m,n,k,latency_us\nbf16,1,1,1,nan\n", "number > 0"),
    "unknown dtype": ("dtype,m,n,k,latency_us\nint3,1,1,1,1\n", "one of bf16"),
    "unknown columns": ("a,b\n1,2\n", "columns of one of"),
    "no rows": ("dtype,m,n,k,latency_us\n", "at least one row"),
    "prose": ("dear reader\n", "nccl-tests"),
    "cut nccl": (NCCL.split("     1048576")[0], "result rows"),
    "cut hccl": (HCCL.split("8192     ")[0], "result rows"),
    "log without lines": ("elapsed time per iteration (ms): \n", "iteration lines"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_measurements(case: str) -> None:
    text, said = BAD[case]
    with pytest.raises(InputError) as caught:
        parse(text, "file.txt")
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_binary_and_absent_files(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_bytes(b"\x00\xff\xfe")
    with pytest.raises(InputError, match="binary"):
        read_file(tmp_path / "b.csv")
    with pytest.raises(InputError, match="readable"):
        read_measurements([tmp_path / "none.csv"])


@pytest.mark.shared
def test_every_shared_print_is_read(shared: Path) -> None:
    expected = {
        "a100_1x8_azure_allreduce": (8, 1), "b200_4x8_p6_efa_allreduce": (32, 4), "gb200_20rack_1440gpu_allreduce": (1440, 1),
        "gb200_2rack_allreduce": (128, 1), "gb200_nvl72_72gpu_allreduce": (72, 1), "h100_12x8_coreweave_ib_allreduce": (96, 12),
        "h100_2x8_gcp_a3mega_allreduce": (16, 2), "mi300x_2x8_ainic_allreduce": (16, 2), "h20_1x8_alltoall": (8, 1),
    }  # fmt: skip
    for name, (ranks, nodes) in expected.items():
        (table,) = read_file(shared / "collectives" / f"{name}.txt")
        assert isinstance(table, CollectiveTable)
        assert (int(table.ranks[0]), table.nodes) == (ranks, nodes), name
