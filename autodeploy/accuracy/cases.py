"""Run -> RunCase: the model, machine, workload and strategy to price, with every default that was assumed.

A row that leaves a key open gets several strategies; the fastest that fits is what its authors would have run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from autodeploy.accuracy.layouts import default_split, layout_of, parse_split
from autodeploy.accuracy.loader import Run, RunSet
from autodeploy.accuracy.programs import stack_of
from autodeploy.accuracy.recompute import FULL, NONE, Recompute, parse_recompute
from autodeploy.accuracy.settling import Settler
from autodeploy.accuracy.shapes import Shapes
from autodeploy.accuracy.stack import chosen_imbalance, precision_of, program_of
from autodeploy.errors import InputError
from cost_models.case import Case
from cost_models.errors import ConfigError
from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.schedules import find_schedule
from cost_models.strategies import DISPATCHER_CODE, SCHEDULE_CODE, Layout, StrategyBatch

MICRO_BATCHES_TRIED = (1, 2, 4, 8)
# Layers that do not divide over the stages go to the first ones: torch's pipelining and FSDP programs, and Aleph Alpha's.
FRONT_HEAVY = ("scaling-2023", "torchtitan-2024", "torchtitan-2025", "nemo-automodel")
# Memory of these rows is Megatron's printed maximum, which it reports once, after the first step (MindSpeed-LLM).
READ_AFTER_FIRST_STEP = ("ascend",)
VPP_TRIED = 12  # most chunks per rank tried where a row leaves VPP open


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One strategy, scalar; field names are those of ``StrategyBatch``."""

    tp: int
    pp: int
    vpp: int
    cp: int
    ep: int
    etp: int
    dp: int
    micro_batch: int
    zero_stage: int
    sequence_parallel: bool
    recompute: int
    recompute_layers: int
    schedule: int
    dispatcher: int
    ep_overlap: bool
    offload_frac: float
    swap_frac: float
    layout: Layout
    micro_batch_group: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCase:
    """What to price for one run. ``points``: one strategy, or one for each choice that the row leaves open.

    ``memory_ranks``: the pipeline ranks whose memory was measured (empty: the fullest).
    """

    run: Run
    model: ModelSpec
    hardware: HardwareProfile
    workload: Workload
    points: tuple[Point, ...]
    assumed: tuple[str, ...] = ()
    memory_ranks: tuple[int, ...] = ()

    @property
    def case(self) -> Case:
        return Case(model=self.model, hardware=self.hardware, workload=self.workload)

    @property
    def batch(self) -> StrategyBatch:
        return batch_of(self.points)


@dataclass(slots=True)
class Cases:
    """The cases of a run set, and why the other rows were skipped (id -> reason)."""

    cases: list[RunCase] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


def build_cases(run_set: RunSet, runs: Iterable[Run] | None = None) -> Cases:
    """Every run as a case, or the reason why it is none."""
    shapes, settler, result = Shapes(run_set.models), Settler(), Cases()
    layouts: dict[tuple, tuple[Layout, str]] = {}
    for run in run_set.runs if runs is None else runs:
        if run.id in run_set.refused:
            result.skipped[run.id] = run_set.refused[run.id]
            continue
        try:
            result.cases.append(build_case(run, shapes, layouts, settler))
        except ConfigError as error:
            result.skipped[run.id] = str(error)
    return result


def build_case(run: Run, shapes: Shapes, layouts: dict[tuple, tuple[Layout, str]], settler: Settler) -> RunCase:
    """InputError where the row does not say enough."""
    assumed: list[str] = []
    model, hardware = shapes.model(run), shapes.machine(run)
    axes = _axes(run, assumed)
    program = program_of(run)
    sizes = (_need(run, "seq_length"), _need(run, "global_batch"), precision_of(run)[0])
    settled = settler.settle(program, model, hardware, sizes, chosen_imbalance(run, program.chosen))
    model, hardware, load = settled.model, settled.hardware, settled.workload
    if run.group in READ_AFTER_FIRST_STEP:
        load = replace(load, peak_of_first_step=True)
    points = _points(run, model, axes, assumed, layouts)
    return RunCase(
        run=run,
        model=model,
        hardware=hardware,
        workload=load,
        points=points,
        assumed=tuple(dict.fromkeys(assumed)),
        memory_ranks=_memory_ranks(run, axes),
    )


def _need(run: Run, name: str) -> int:
    value = getattr(run, name)
    if value is None:
        raise InputError(name, None, "stated by the source", "the row cannot be predicted without it")
    return value


def _axes(run: Run, assumed: list[str]) -> dict[str, int]:
    """tp, pp, cp, ep, etp, dp; what is left out of a stated mapping is 1."""
    devices, tp, pp = _need(run, "num_devices"), _need(run, "tp"), _need(run, "pp")
    axes = {"tp": tp, "pp": pp}
    for name in ("cp", "ep", "etp"):
        value = getattr(run, name)
        if value is None and not (name == "etp" and run.kind == "dense"):
            assumed.append(f"{name} 1")
        axes[name] = value or 1
    if run.kind == "dense":
        axes.update(ep=1, etp=1)
    if run.extra.get(
        "moe_tp_extend_ep"
    ):  # MindSpeed: the published EP counts groups of TP cards, each with whole experts
        axes.update(ep=axes["ep"] * tp, etp=1)
    cards = tp * pp * axes["cp"]
    if devices % cards:
        raise InputError("num_devices", devices, f"a multiple of tp x pp x cp = {cards}")
    if devices % (axes["ep"] * axes["etp"] * pp):
        raise InputError("num_devices", devices, f"a multiple of ep x etp x pp = {axes['ep'] * axes['etp'] * pp}")
    axes["dp"] = devices // cards
    return axes


# ------------------------------------------------------------------------------------------------ open choices


def _points(
    run: Run, model: ModelSpec, axes: dict[str, int], assumed: list[str], layouts: dict[tuple, tuple[Layout, str]]
) -> tuple[Point, ...]:
    micro_batches = _micro_batches(run, axes["dp"], assumed)
    points = []
    for vpp in _vpps(run, model, axes["pp"], assumed):
        layout, note = _layout(run, model, axes["pp"], vpp, layouts)
        if note:
            assumed.append(note)
        for recompute in _recomputes(run, int(np.ceil(layout.layers_per_stage.max())), assumed):
            fixed = _fixed(run, model, axes, vpp, layout, recompute, assumed)
            points += [replace(fixed, micro_batch=micro_batch) for micro_batch in micro_batches]
    return tuple(points)


def _micro_batches(run: Run, dp: int, assumed: list[str]) -> list[int]:
    batch = _need(run, "global_batch")
    if run.micro_batch is not None:
        if batch % (run.micro_batch * dp):
            raise InputError("global_batch", batch, f"a multiple of micro_batch x dp = {run.micro_batch * dp}")
        return [run.micro_batch]
    tried = [size for size in MICRO_BATCHES_TRIED if batch % (size * dp) == 0]
    if not tried:
        raise InputError("global_batch", batch, f"a multiple of dp = {dp}")
    assumed.append(f"micro-batch not stated: the fastest of {tried} that fits")
    return tried


def _vpps(run: Run, model: ModelSpec, pp: int, assumed: list[str]) -> list[int]:
    if run.vpp is not None:
        return [run.vpp]
    if pp == 1 or run.schedule == "1f1b":
        return [1]
    tried = [v for v in range(1, VPP_TRIED + 1) if model.num_layers % (pp * v) == 0]
    if run.schedule == "interleaved":
        tried = [v for v in tried if v > 1]
    assumed.append(f"vpp not stated: the fastest of {tried or [1]} that fits")
    return tried or [1]


def _recomputes(run: Run, layers_per_stage: int, assumed: list[str]) -> list[Recompute]:
    stated = parse_recompute(run, layers_per_stage)
    if stated is None:
        assumed.append("recompute not stated: the faster of none and full that fits")
        return [NONE, FULL]
    if stated.assumed:
        assumed.append(stated.assumed)
    if run.extra.get("document_mask"):
        assumed.append("the document mask, whose lengths are not stated, taken as causal")
    return [stated]


def _layout(
    run: Run, model: ModelSpec, pp: int, vpp: int, layouts: dict[tuple, tuple[Layout, str]]
) -> tuple[Layout, str]:
    front_heavy = stack_of(run) in FRONT_HEAVY
    key = (id(model), pp, vpp, run.pipeline_layout, front_heavy)
    if key not in layouts:
        note = ""
        if run.pipeline_layout and pp > 1:
            split = parse_split(run.pipeline_layout, model.num_layers, pp * vpp)
        else:
            split, note = default_split(model.num_layers, pp * vpp, front_heavy=front_heavy)
        layouts[key] = layout_of(split, model, pp, vpp), note
    return layouts[key]


def _schedule(run: Run, pp: int, vpp: int) -> str:
    if pp == 1:
        return "none"
    if run.schedule in (None, "none", "interleaved", "1f1b"):
        return "interleaved" if vpp > 1 else "1f1b"
    return find_schedule(run.schedule).name


def _fixed(
    run: Run, model: ModelSpec, axes: dict[str, int], vpp: int, layout: Layout, recompute: Recompute, assumed: list[str]
) -> Point:
    schedule = _schedule(run, axes["pp"], vpp)
    sequence_parallel = run.sequence_parallel
    if sequence_parallel is None:
        sequence_parallel = axes["tp"] > 1
        if axes["tp"] > 1:
            assumed.append("sequence parallel on")
    offload, swap = _host_shares(run, model, assumed)
    return Point(
        **axes,
        vpp=vpp,
        micro_batch=1,
        zero_stage=_zero_stage(run, assumed),
        schedule=SCHEDULE_CODE[schedule],
        sequence_parallel=bool(sequence_parallel) and axes["tp"] > 1,
        recompute=recompute.mask,
        recompute_layers=recompute.layers,
        dispatcher=DISPATCHER_CODE[_dispatcher(run, axes["ep"], assumed)],
        ep_overlap=bool(run.ep_overlap),
        offload_frac=offload,
        swap_frac=swap,
        layout=layout,
    )


def _zero_stage(run: Run, assumed: list[str]) -> int:
    if run.extra.get("sharding_strategy") == "SHARD_GRAD_OP" or run.extra.get("reshard_after_forward") is False:
        return 2
    if run.zero_stage is None:
        assumed.append("zero stage 1")
        return 1
    return run.zero_stage


def _dispatcher(run: Run, ep: int, assumed: list[str]) -> str:
    """DeepEP and HybridEP send a token once to each node that holds one of its experts."""
    text = run.moe_dispatcher or ""
    if "deepep" in text.lower() or text == "hybridep":
        return "hierarchical-dedup"
    if any("hierarchical EP" in str(flag) for flag in run.extra.get("flags", ())):
        return "hierarchical-allgather"
    if text.startswith("allgather"):
        return "allgather"
    if not text and ep > 1:
        assumed.append("dispatcher all-to-all")
    return "alltoall"


def _host_shares(run: Run, model: ModelSpec, assumed: list[str]) -> tuple[float, float]:
    """Shares of the optimizer state and of the saved activations that live on the host."""
    flags = run.extra.get("flags", ())
    offload = 1.0 if run.extra.get("optimizer_offload") or "swap-optimizer" in flags else 0.0
    layers = run.extra.get("activation_offload_layers", 0)
    if "swap-attention" in flags or run.extra.get("activation_offload") or run.extra.get("moe_paged_stash"):
        assumed.append("the stated activation swap covers no known share: none")
    return offload, min(layers / model.num_layers, 1.0)


def _memory_ranks(run: Run, axes: dict[str, int]) -> tuple[int, ...]:
    """Pipeline ranks of the cards whose memory the source lists (pipeline is the outermost dimension)."""
    listed = run.extra.get("memory_mib_by_rank")
    if not listed:
        return ()
    cards_per_stage = axes["tp"] * axes["cp"] * axes["dp"]
    return tuple(sorted({int(card) // cards_per_stage for card in listed}))


# ------------------------------------------------------------------------------------------------------- batches

_FLOATS, _BOOLS = ("offload_frac", "swap_frac"), ("sequence_parallel", "ep_overlap")


def batch_of(points: Iterable[Point]) -> StrategyBatch:
    """One batch; equal layouts are shared."""
    points = list(points)
    layouts: dict[int, int] = {}
    table: list[Layout] = []
    for point in points:
        if id(point.layout) not in layouts:
            layouts[id(point.layout)] = len(table)
            table.append(point.layout)
    arrays: dict[str, Any] = {}
    for each in fields(Point):
        if each.name != "layout":
            kind = np.float64 if each.name in _FLOATS else np.bool_ if each.name in _BOOLS else np.int64
            arrays[each.name] = np.array([getattr(point, each.name) for point in points], dtype=kind)
    arrays["layout"] = np.array([layouts[id(point.layout)] for point in points], dtype=np.int64)
    return StrategyBatch(**arrays, layouts=tuple(table))
