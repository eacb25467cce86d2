"""Published measurements as calibration tables: SimuMax, SimAI, the FlashAttention-3 paper, Ascend constants.

Used by fit_profiles.py. Every function names its source.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from autodeploy.calibrate.measurements import AttentionTable, CollectiveTable, GemmTable, GroupedGemmTable

STAGES = {"fwd": "forward", "bwd_grad_act": "dgrad", "bwd_grad_w": "wgrad"}
LAYOUTS = {"TN": "forward", "NN": "dgrad", "NT": "wgrad"}


class SimuMax:
    """SimuMax 4dcaae5: efficiency of the operators of one layer, measured in Megatron-LM with Transformer Engine.

    Attention efficiencies there count dense FLOPs; ours are causal, half of that.
    """

    def __init__(self, file: Path, system: str) -> None:
        with file.open(encoding="utf-8") as handle:
            self._rows = [row for row in csv.DictReader(handle) if row["system"] == system]
        self.system = system

    def _shapes(self, op: str) -> list[tuple[dict[str, str], float, float]]:
        return [
            (dict(part.strip().split("=") for part in row["shape"].split(",")), float(row["efficiency"]),
             float(row["peak_tflops"]) * 1e12)
            for row in self._rows if row["op"] == op
        ]  # fmt: skip

    def gemm(self, layout: str) -> GemmTable:
        """One layout of the ``matmul`` rows; ``wgrad`` is the one that accumulates in fp32."""
        rows = [
            (shape, efficiency, peak) for shape, efficiency, peak in self._shapes("matmul")
            if LAYOUTS[shape["layout"]] == layout and (layout != "wgrad" or shape["out_dtype"] == "fp32")
        ]  # fmt: skip
        m, n, k = (np.array([float(shape[axis]) for shape, _, _ in rows]) for axis in "mnk")
        seconds = 2 * m * n * k / np.array([efficiency * peak for _, efficiency, peak in rows])
        return GemmTable(
            dtype="bf16", m=m, n=n, k=k, seconds=seconds, source=f"SimuMax {self.system} matmul", layout=layout
        )

    def grouped(self, layout: str) -> GroupedGemmTable:
        """One stage of the ``group_matmul`` rows."""
        rows = [item for item in self._shapes("group_matmul") if STAGES[item[0]["stage"]] == layout]
        groups, m, n, k = (np.array([float(shape[axis]) for shape, _, _ in rows]) for axis in ("ng", "M", "N", "K"))
        seconds = 2 * groups * m * n * k / np.array([efficiency * peak for _, efficiency, peak in rows])
        return GroupedGemmTable(
            dtype="bf16", groups=groups, m=m, n=n, k=k, seconds=seconds,
            source=f"SimuMax {self.system} group_matmul", layout=layout,
        )  # fmt: skip

    def attention(self, backward: bool) -> AttentionTable:
        """The ``sdp_fwd`` or ``sdp_bwd`` rows: head dim 128 with GQA, and MLA 192/128."""
        rows = self._shapes("sdp_bwd" if backward else "sdp_fwd")
        names = ("batch", "seq_len", "head_num", "qk_head_dim", "v_head_dim")
        batch, seq, heads, dim, v_dim = (np.array([float(shape[name]) for shape, _, _ in rows]) for name in names)
        causal = batch * heads * seq**2 * (dim + v_dim) * (2.5 if backward else 1.0)
        seconds = causal / np.array([efficiency / 2 * peak for _, efficiency, peak in rows])
        return AttentionTable(
            kernel="cudnn", head_dim=dim, v_head_dim=v_dim, batch=batch, seq=seq, heads=heads, seconds=seconds,
            source=f"SimuMax {self.system} {'sdp_bwd' if backward else 'sdp_fwd'}", backward=backward,
        )  # fmt: skip


FA3_SEQ = np.array([512.0, 1024, 2048, 4096, 8192, 16384])
FA3_FORWARD = np.array([467.0, 565, 625, 638, 646, 648])  # hd128, full mask, TFLOP/s
FA3_FORWARD_CAUSAL = np.array([292.0, 423, 521, 579, 602, 616])
BACKWARD_FULL_MASK = {
    "flash3": np.array([316.0, 424, 501, 542, 559, 561]),
    "cudnn": np.array([305.0, 408, 465, 499, 518, 516]),
}
FLASH2_FORWARD_CAUSAL = {512.0: 191.0, 16384.0: 335.0}
FLASH2_BACKWARD_FULL_MASK = {512.0: 214.0, 16384.0: 322.0}


def h100_backward(kernel: str) -> AttentionTable:
    """Backward rates of the FlashAttention-3 paper (H100 SXM, head dim 128, 16k tokens of 16 heads).

    The paper shows the full mask; the causal rate is taken as that times causal/full of the same paper's forward.
    """
    return _rates(kernel, FA3_SEQ, BACKWARD_FULL_MASK[kernel] * FA3_FORWARD_CAUSAL / FA3_FORWARD, backward=True)


def h100_flash2(backward: bool) -> AttentionTable:
    """FlashAttention-2 on H100, from the FlashAttention-3 paper: the ends of its lines."""
    ends = FLASH2_BACKWARD_FULL_MASK if backward else FLASH2_FORWARD_CAUSAL
    seq, rate = np.array(list(ends)), np.array(list(ends.values()))
    if backward:
        rate = rate * np.interp(seq, FA3_SEQ, FA3_FORWARD_CAUSAL / FA3_FORWARD)
    return _rates("flash2", seq, rate, backward)


def _rates(kernel: str, seq: np.ndarray, tflop_per_s: np.ndarray, backward: bool) -> AttentionTable:
    ones = np.ones_like(seq)
    batch, heads, dim = 16384 / seq, 16 * ones, 128 * ones
    seconds = batch * heads * seq**2 * 2 * dim * (2.5 if backward else 1.0) / (tflop_per_s * 1e12)
    return AttentionTable(
        kernel=kernel, head_dim=dim, v_head_dim=dim, batch=batch, seq=seq, heads=heads, seconds=seconds,
        source="FlashAttention-3 paper, figures for H100", backward=backward,
    )  # fmt: skip


def simai_all_reduce(file: Path, nic_gb_per_s: float, nodes: tuple[int, ...]) -> list[CollectiveTable]:
    """SimAI cef83f9 ratio tables: bus bandwidth over that of a node's 8 NICs, by message and nodes."""
    lines = file.read_text(encoding="utf-8").split("## nic_ratio.csv")[1].split("##")[0].strip().splitlines()
    columns = [int(name.split("Node")[0]) if name.split("Node")[0].isdigit() else 0 for name in lines[0].split(",")]
    tables = []
    for count in nodes:
        index, ranks = columns.index(count), 8.0 * count
        rows = [line.split(",") for line in lines[1:]]
        message = np.array([float(row[0]) for row in rows])
        bus = np.array([float(row[index]) for row in rows]) * 8 * nic_gb_per_s * 1e9
        seconds = 2 * (ranks - 1) / ranks * message / bus
        tables.append(
            CollectiveTable(
                op="all_reduce", ranks=np.full_like(message, ranks), nodes=count, message_bytes=message,
                seconds=seconds, source=f"SimAI nic_ratio, {count} nodes",
            )
        )  # fmt: skip
    return tables


# MindSpeed core/memory/compress/utils.py: GB/s of the whole result, by ranks (the file multiplies by 1024**3; read as
# 1e9, as hccl_test prints: with GiB the NIC's share of the 64-rank all-to-all would exceed its 25 GB/s line).
A2_ALL_GATHER = {2: 36.0, 4: 73.0, 8: 147.0}
A2_ALL_TO_ALL = {2: 37.0, 4: 69.0, 8: 119.0}
A2_ALL_TO_ALL_NODES = {16: 40.1, 32: 30.2, 64: 27.0}
A3_ALL_GATHER = {2: 350.0, 4: 324.9, 8: 298.8, 16: 283.6}
A3_ALL_TO_ALL = {4: 229.4, 8: 173.9, 16: 154.0, 32: 143.9, 64: 137.3}
ASCEND_CUBES = {1024: 141.6, 2048: 271.1, 4096: 327.4, 8192: 296.7, 12288: 291.4, 16384: 319.2}


def ascend_cubes() -> GemmTable:
    """bf16 GEMM N x N x N on an A3 die, TFLOP/s: TerraceMoE-simulator, sim/compute.py."""
    size = np.array(list(ASCEND_CUBES), dtype=float)
    seconds = 2 * size**3 / (np.array(list(ASCEND_CUBES.values())) * 1e12)
    return GemmTable(
        dtype="bf16", m=size, n=size, k=size, seconds=seconds, source="TerraceMoE-simulator sim/compute.py, cubes"
    )
