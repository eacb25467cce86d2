"""Operators of a layer -> seconds, those of a kind together: at few core points it is the number of arrays that costs.

Axes: U core points, G operators of a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from cost_models.adapters import with_adapter
from cost_models.communication import all_to_all_s, dispatch_s, ring_s
from cost_models.compute import Price, matmul_dtype, price_attention, price_gemm, price_grouped, price_memory_bound
from cost_models.dims import Core
from cost_models.inputs import HardwareProfile, Workload
from cost_models.operators import Collective, FusedAttention, Gemm, GroupedGemm, MemoryBound
from cost_models.records import record
from cost_models.strategies import F64

Compute = Gemm | GroupedGemm | FusedAttention | MemoryBound
MOST_ELEMENTS = 1 << 16  # of an array of operators priced together: beyond, the cache is worth more than fewer calls
ZERO = np.zeros(1)


def price_computes(
    ops: Sequence[Compute], hardware: HardwareProfile, workload: Workload, size: int
) -> dict[int, Price]:
    """The price of each operator, arrays [U] of ``size``, by the operator's ``id``: one that stands twice is priced once."""
    distinct = {id(op): op for op in ops}
    found: dict[int, Price] = {}
    step = max(1, MOST_ELEMENTS // size)
    for alike in _alike(list(distinct.values()), workload):
        for start in range(0, len(alike), step):
            part = alike[start : start + step]
            found |= zip(map(id, part), _price_alike(part, hardware, workload, size), strict=True)
    if workload.lora_rank:
        alone: Callable[[Gemm | GroupedGemm], Price] = lambda op: _price_alike([op], hardware, workload, size)[0]  # noqa: E731
        found = {key: with_adapter(distinct[key], price, workload.lora_rank, alone) for key, price in found.items()}
    return found


def _alike(ops: Sequence[Compute], workload: Workload) -> Iterable[list[Compute]]:
    """The operators by what one call prices."""
    groups: dict[tuple[object, ...], list[Compute]] = {}
    for i, op in enumerate(ops):
        key: tuple[object, ...] = (type(op),)
        if isinstance(op, Gemm):
            key = (Gemm, op.weight, _wide(op))
        elif isinstance(op, FusedAttention) or (isinstance(op, GroupedGemm) and not workload.stack.grouped_gemm):
            key = (i,)
        groups.setdefault(key, []).append(op)
    return groups.values()


def _wide(op: Gemm | GroupedGemm) -> bool:
    """The head and the router stay in 16 bit under every fp8 recipe."""
    return op.family == "head" or op.name == "router"


def _price_alike(ops: Sequence[Compute], hardware: HardwareProfile, workload: Workload, size: int) -> list[Price]:
    first, device = ops[0], hardware.device
    if isinstance(first, FusedAttention):
        return [price_attention(first, device, workload.stack.attention_kernel)]
    if isinstance(first, MemoryBound):
        scalars = ("forward_kernels", "backward_kernels", "efficiency_frac")
        columns: dict[str, Any] = {name: np.array([[getattr(op, name)] for op in ops]) for name in scalars}
        price = price_memory_bound(
            replace(first, **columns, **_joined(ops, ("forward_bytes", "backward_bytes"), size)), device
        )
        return [
            Price(price.forward_s[g], price.backward_input_s[g], ZERO, op.forward_kernels, op.backward_kernels)  # type: ignore[union-attr]
            for g, op in enumerate(ops)
        ]
    precision = workload.precision if workload.precision in ("bf16", "fp16") or not _wide(first) else "bf16"
    dtype = matmul_dtype(precision, device)
    if isinstance(first, GroupedGemm):
        several = replace(first, **_joined(ops, ("rows", "groups", "cols", "depth"), size))
        price = price_grouped(several, device, dtype, workload.grad_bytes, workload.stack.grouped_gemm)
    else:
        joined = replace(first, **_joined(ops, ("rows", "cols", "depth", "batch"), size))
        price = price_gemm(joined, device, dtype, workload.grad_bytes)
    return [Price(*(_row(getattr(price, name), g) for name in PRICE)) for g in range(len(ops))]


PRICE = tuple(each.name for each in fields(Price))


def _row(value: F64 | float, g: int) -> Any:
    return value[g] if isinstance(value, np.ndarray) else value


def _joined(ops: Sequence[Compute], names: Sequence[str], size: int) -> dict[str, Any]:
    """Fields of all operators as arrays [G, U]."""
    arrays = {name: np.empty((len(ops), size)) for name in names}
    for name, array in arrays.items():
        for g, op in enumerate(ops):
            array[g] = getattr(op, name)
    return arrays


@record(kw_only=False, eq=False)
class Travel:
    """Seconds [U] of a collective forward and backward, as if nothing hid them; ``intra``, ``inter``: how long the forward
    half of a dispatch occupies the lanes inside and between nodes."""

    forward_s: F64
    backward_s: F64
    intra_s: F64
    inter_s: F64


def price_collectives(
    ops: Sequence[Collective], hardware: HardwareProfile, workload: Workload, core: Core
) -> dict[int, Travel]:
    """The price of each collective by its ``id``. Halves that run the same operation over the same group share its terms."""
    distinct = {id(op): op for op in ops}
    halves = [(op, kind, size) for op in distinct.values() for kind, size in _halves(op)]
    groups: dict[tuple[str, str, int], list[int]] = {}
    for h, (op, kind, size) in enumerate(halves):
        if np.any(size):  # nothing to send costs nothing
            groups.setdefault((kind, op.group, id(op.feed_forward)), []).append(h)
    seconds = np.zeros((3, len(halves), core.size))
    for (kind, _, _), places in groups.items():
        sizes = np.stack([np.broadcast_to(halves[h][2], core.size) for h in places])
        seconds[:, places] = _collective_s(halves[places[0]][0], kind, sizes, hardware, workload, core)
    total, intra, inter = seconds
    return {key: Travel(total[2 * i], total[2 * i + 1], intra[2 * i], inter[2 * i]) for i, key in enumerate(distinct)}


def _halves(op: Collective) -> tuple[tuple[str, F64], tuple[str, F64]]:
    return (op.op, op.forward_bytes), (op.backward_op or op.op, op.backward_bytes)


def _collective_s(
    op: Collective, kind: str, sizes: F64, hardware: HardwareProfile, workload: Workload, core: Core
) -> F64:
    """Seconds [3, G, U]: in all, and of the lanes inside and between nodes (dispatch only)."""
    one = np.ones(core.size)
    size, stride = {
        "tp": (core.tp, one), "cp": (core.cp, core.tp), "etp": (core.etp, one), "ep": (core.ep, core.etp),
    }[op.group]  # fmt: skip
    if kind == "dispatch":
        assert op.feed_forward is not None
        return np.stack(dispatch_s(sizes, size, stride, core.dispatcher, op.feed_forward, hardware, workload.stack))
    total = (all_to_all_s if kind == "all_to_all" else _ring(kind))(sizes, size, stride, hardware)
    return np.stack([total, np.zeros_like(total), np.zeros_like(total)])


def _ring(kind: str) -> Callable[[F64, F64, F64, HardwareProfile], F64]:
    return lambda sizes, size, stride, hardware: ring_s(kind, sizes, size, stride, hardware)
