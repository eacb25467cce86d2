"""CSV tables of measured operators, recognised by their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from autodeploy import files
from autodeploy.calibrate.measurements import (
    AttentionTable,
    CollectiveTable,
    GemmTable,
    GroupedGemmTable,
    MoeTable,
    Table,
)
from autodeploy.errors import InputError

Row = dict[str, str]

GEMM_DTYPES = {
    "bf16": "bf16", "bfloat16": "bf16", "half": "bf16", "fp16": "bf16", "float16": "bf16", "fp8": "fp8",
    "fp8_pertensor": "fp8", "fp8_pertoken": "fp8", "fp8_block": "fp8_block", "fp8_block128": "fp8_block",
    "mxfp8": "mxfp8", "nvfp4": "nvfp4",
}  # fmt: skip
"""dtype names of the tables -> curve keys; 16-bit formats share one curve."""

ATTENTION_KERNELS = {
    "fa3": "flash3", "vllm_flash_attn_fa3": "flash3", "flash3": "flash3",
    "flash_attention": "flash2", "vllm_flash_attn": "flash2", "fa2": "flash2", "flash2": "flash2",
    "flash1": "flash1", "triton": "triton", "cudnn": "cudnn", "npu_flash": "npu_flash",
    "torch_flow": "cudnn", "trtllm_mha": "cudnn",
}  # fmt: skip
"""Kernels of the tables -> curve keys. TensorRT-LLM's fused kernels stand for NVIDIA's own, cuDNN's among them."""

COLLECTIVES = {
    "all_reduce": "all_reduce", "allreduce": "all_reduce", "all_gather": "all_gather", "allgather": "all_gather",
    "reduce_scatter": "reduce_scatter", "reducescatter": "reduce_scatter", "alltoall": "all_to_all",
    "all_to_all": "all_to_all", "alltoallv": "all_to_all", "sendrecv": "p2p", "p2p": "p2p",
}  # fmt: skip


LAYOUTS = {
    "forward": "forward", "tn": "forward", "dgrad": "dgrad", "nn": "dgrad", "wgrad": "wgrad", "nt": "wgrad",
}  # fmt: skip


def parse_csv(text: str, source: str) -> list[Table]:
    """The tables of one CSV file. Columns decide what it is; they are those of the examples in docs/calibrate.md."""
    read = files.csv_rows(text, source)
    columns = set(read[0]) if read else {name.strip() for name in text.split("\n", 1)[0].split(",")}
    rows = [row for row in read if any(row.values())]
    for needed, build in _BUILDERS:
        if needed <= columns:
            if not rows:
                raise InputError(source, "no rows", "a CSV table with at least one row")
            return build(rows, source)
    kinds = "; ".join(",".join(sorted(needed)) for needed, _ in _BUILDERS)
    raise InputError(source, ",".join(sorted(columns))[:80], f"a CSV with the columns of one of: {kinds}")


def column(rows: Iterable[Row], name: str, source: str) -> np.ndarray:
    """One numeric column; values must be finite and > 0."""
    values = []
    for number, row in enumerate(rows, start=2):
        try:
            value = float(row[name])
        except (TypeError, ValueError):
            value = float("nan")
        if not (value > 0 and np.isfinite(value)):
            raise InputError(f"{source}: {name}", row[name], "a number > 0", f"see row {number}")
        values.append(value)
    return np.array(values)


def _groups(rows: list[Row], key: Callable[[Row], tuple]) -> dict[tuple, list[Row]]:
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _lookup(names: dict[str, str], value: str, field: str, source: str) -> str:
    key = (value or "").strip().lower()
    if key not in names:
        raise InputError(f"{source}: {field}", value, f"one of {', '.join(names)}")
    return names[key]


def _gemm(rows: list[Row], source: str) -> list[Table]:
    tables: list[Table] = []

    def key(row: Row) -> tuple:
        return row["dtype"], row.get("source", ""), row.get("includes_act_quant", "0"), row.get("layout", "forward")

    for (dtype, origin, quantized, layout), part in _groups(rows, key).items():
        tables.append(
            GemmTable(
                dtype=_lookup(GEMM_DTYPES, dtype, "dtype", source),
                quantized=quantized == "1",
                layout=_lookup(LAYOUTS, layout, "layout", source),
                seconds=column(part, "latency_us", source) * 1e-6,
                source=f"{source} {dtype} {origin}".strip(),
                **{name: column(part, name, source) for name in ("m", "n", "k")},
            )
        )
    return tables


def _grouped(rows: list[Row], source: str) -> list[Table]:
    tables: list[Table] = []
    for (dtype, layout), part in _groups(rows, lambda row: (row["dtype"], row.get("layout", "forward"))).items():
        tables.append(
            GroupedGemmTable(
                dtype=_lookup(GEMM_DTYPES, dtype, "dtype", source),
                layout=_lookup(LAYOUTS, layout, "layout", source),
                seconds=column(part, "latency_us", source) * 1e-6,
                source=f"{source} {dtype}",
                **{name: column(part, name, source) for name in ("groups", "m", "n", "k")},
            )
        )
    return tables


def _moe(rows: list[Row], source: str) -> list[Table]:
    """Balanced rows with all experts on one card: the skewed and split ones measure routing as well."""
    rows = [
        row for row in rows
        if row.get("distribution", "balanced") == "balanced" and row["moe_tp_size"] == "1" and row["moe_ep_size"] == "1"
    ]  # fmt: skip
    tables: list[Table] = []
    for (dtype, kernel, framework), part in _groups(
        rows, lambda row: (row["moe_dtype"], row.get("kernel_source", ""), row.get("framework", ""))
    ).items():
        tables.append(
            MoeTable(
                dtype=_lookup(GEMM_DTYPES, dtype, "moe_dtype", source),
                tokens=column(part, "num_tokens", source),
                hidden=column(part, "hidden_size", source),
                width=column(part, "inter_size", source),
                top_k=column(part, "topk", source),
                experts=column(part, "num_experts", source),
                seconds=column(part, "latency_us", source) * 1e-6,
                source=f"{source} {framework} {kernel}".strip(),
            )
        )
    return tables


def _attention(rows: list[Row], source: str) -> list[Table]:
    tables: list[Table] = []
    known = [row for row in rows if row["kernel_source"] in ATTENTION_KERNELS]
    if not known:
        _lookup(ATTENTION_KERNELS, rows[0]["kernel_source"], "kernel_source", source)

    def key(row: Row) -> tuple:
        return row["kernel_source"], row.get("framework", ""), row.get("direction", "forward")

    for (kernel, framework, direction), part in _groups(known, key).items():
        head_dim = column(part, "head_dim", source)
        tables.append(
            AttentionTable(
                kernel=ATTENTION_KERNELS[kernel],
                head_dim=head_dim,
                v_head_dim=column(part, "v_head_dim", source) if part[0].get("v_head_dim") else head_dim,
                batch=column(part, "batch_size", source),
                seq=column(part, "isl", source),
                heads=column(part, "num_heads", source),
                seconds=column(part, "latency_us", source) * 1e-6,
                source=f"{source} {framework} {kernel}".strip(),
                backward=direction == "backward",
            )
        )
    return tables


def _collectives(rows: list[Row], source: str) -> list[Table]:
    tables: list[Table] = []
    wanted = [row for row in rows if row.get("dtype", "half") != "int8"]
    for (op, version), part in _groups(wanted, lambda row: (row["op"], row.get("nccl_version", ""))).items():
        tables.append(
            CollectiveTable(
                op=_lookup(COLLECTIVES, op, "op", source),
                ranks=column(part, "ngpu", source),
                nodes=1,
                message_bytes=column(part, "bytes", source),
                seconds=column(part, "time_us", source) * 1e-6,
                source=f"{source} {version}".strip(),
            )
        )
    return tables


_BUILDERS: tuple[tuple[set[str], Callable[[list[Row], str], list[Table]]], ...] = (
    ({"moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "latency_us"}, _moe),
    ({"kernel_source", "head_dim", "batch_size", "isl", "num_heads", "latency_us"}, _attention),
    ({"dtype", "groups", "m", "n", "k", "latency_us"}, _grouped),
    ({"dtype", "m", "n", "k", "latency_us"}, _gemm),
    ({"op", "ngpu", "bytes", "time_us"}, _collectives),
)
