"""The options of a core point: recompute and swap, schedule and overlap, dispatcher, ZeRO stage.

A free axis takes a small catalogue for the model and the back end; a given axis takes what is given, as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autodeploy.strategy.axes import Axes, among, recompute_choice
from autodeploy.strategy.backends import Backend
from autodeploy.strategy.layout import Placing, layouts_for, parse_layout
from cost_models.inputs import ModelSpec, Workload
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.strategies import Layout, recompute_mask

SWAP_FRAC = 1.0  # all of the attention activations, as swap-attention does; the study tries smaller shares
LAYOUTS = 2  # default and best balanced alternate, that a free search tries
UNFUSED = ("unfused", "fused_softmax")


@dataclass(frozen=True, slots=True)
class Relief:
    """What trades time for memory."""

    modules: tuple[str, ...] = ()
    layers: int = 0
    swap_frac: float = 0.0
    offload_frac: float = 0.0

    @property
    def mask(self) -> int:
        return recompute_mask(self.modules)

    @property
    def none(self) -> bool:
        return not self.modules and not self.swap_frac and not self.offload_frac


@dataclass(frozen=True, slots=True)
class Run:
    """How a (PP, VPP) pair runs: its schedule, whether expert communication is overlapped, its layout."""

    schedule: str
    ep_overlap: bool
    layout: Layout


def selective_sets(model: ModelSpec, workload: Workload) -> list[tuple[str, ...]]:
    """Module sets worth trying, from cheap to thorough. Core attention only where attention is not fused (case 12)."""
    kinds = model.kinds
    moe = any(kind.feed_forward and kind.feed_forward.is_moe for kind in kinds)
    mla = any(kind.attention and kind.attention.kind == "mla" for kind in kinds)
    first = ("mla_up_proj",) if mla else ()
    if moe:
        sets: list[tuple[str, ...]] = [("layernorm", "moe_act"), (*first, "layernorm", "moe")]
        if mla:
            sets.insert(1, (*first, "layernorm", "moe_act"))
    else:
        sets = [(*first, "layernorm"), (*first, "layernorm", "mlp")]
    if workload.stack.attention_kernel in UNFUSED:
        sets = [("core_attn",), *(("core_attn", *modules) for modules in sets)]
    return sets


def reliefs(model: ModelSpec, workload: Workload, backend: Backend, axes: Axes, stage_layers: int) -> list[Relief]:
    """A ladder from no relief to the most. Free: every recompute alone, then swap and offload beside a few of them."""
    sets = [modules for modules in selective_sets(model, workload) if _launchable(modules, backend)]
    free: list[tuple[tuple[str, ...], int]] = [((), 0), *((modules, 0) for modules in sets)]
    if stage_layers >= 2 and backend.partial_full_recompute:
        free.append((("full",), stage_layers // 2))
    free.append((("full",), 0))
    recomputes = free if axes.recompute is None else _chosen(axes.recompute, sets)
    if axes.swap is not None or axes.offload is not None:
        pairs = [(swap, offload) for swap in axes.swap or (0.0,) for offload in axes.offload or (0.0,)]
        return [Relief(modules, layers, *pair) for modules, layers in recomputes for pair in pairs]
    ladder = [Relief(modules, layers) for modules, layers in recomputes]
    if backend.swaps_activations:
        ladder += [Relief(m, n, SWAP_FRAC) for m, n in recomputes[: len(sets)] if "full" not in m]
    if backend.offloads_optimizer:
        ladder += [Relief(m, n, 0.0, 1.0) for m, n in (recomputes[0], recomputes[-1])]
    return list(dict.fromkeys(ladder))


def _launchable(modules: tuple[str, ...], backend: Backend) -> bool:
    return backend.name != "torchtitan" or set(modules) <= {"layernorm", "moe_act"}


def _chosen(texts: tuple[str, ...], sets: list[tuple[str, ...]]) -> list[tuple[tuple[str, ...], int]]:
    found: list[tuple[tuple[str, ...], int]] = []
    for text in texts:
        choice = recompute_choice(text)
        found += [choice] if choice is not None else [(modules, 0) for modules in sets]
    return list(dict.fromkeys(found))


def runs(model: ModelSpec, backend: Backend, axes: Axes, pp: int, vpp: int) -> list[Run]:
    """Every way to run PP x VPP stages: schedule, overlap, layout."""
    found = []
    for schedule in schedules(backend, axes, pp, vpp):
        for overlap in overlaps(model, backend, axes, schedule, pp):
            placing = Placing(SCHEDULE_TABLE[schedule].v_shaped, overlap)
            found += [Run(schedule, overlap, layout) for layout in layouts(model, backend, axes, (pp, vpp), placing)]
    return found


def schedules(backend: Backend, axes: Axes, pp: int, vpp: int) -> list[str]:
    """Schedules that the chunks of a rank allow."""
    names = backend.search_schedules if axes.schedule is None else axes.schedule
    if pp == 1:
        return ["none"] if vpp == 1 else []
    return [name for name in names if name != "none" and SCHEDULE_TABLE[name].chunks.allow(np.array(vpp))]


def overlaps(model: ModelSpec, backend: Backend, axes: Axes, schedule: str, pp: int) -> list[bool]:
    moe = any(kind.feed_forward and kind.feed_forward.is_moe for kind in model.kinds)
    wanted = (False, True) if axes.ep_overlap is None else axes.ep_overlap
    facts = SCHEDULE_TABLE[schedule]
    if facts.needs_overlap:
        return [True] if True in wanted else []
    can = moe and backend.overlaps_ep and (pp == 1 or facts.runs_overlapped)
    return [overlap for overlap in dict.fromkeys(wanted) if can or not overlap]


def layouts(model: ModelSpec, backend: Backend, axes: Axes, stages: tuple[int, int], placing: Placing) -> list[Layout]:
    """``stages``: PP and VPP. Empty where the back end has none for this schedule and overlap."""
    pp, vpp = stages
    own = layouts_for(model, pp, vpp, backend.name, placing)
    if axes.layout is None:
        return own[: 1 if backend.name == "any" else LAYOUTS]
    return [layout for text in axes.layout for layout in ([parse_layout(text, model, pp, vpp)] if text else own[:1])]


def dispatchers(model: ModelSpec, backend: Backend, axes: Axes) -> list[str]:
    """All-gather is left to those who ask for it: it sends every token to every rank of the group. Where expert
    communication is to be serial, dispatchers that come with an overlap are left out."""
    if axes.dispatcher is not None:
        return list(axes.dispatcher)
    if not any(kind.feed_forward and kind.feed_forward.is_moe for kind in model.kinds):
        return ["alltoall"]
    serial = axes.ep_overlap == (False,)
    left_out = ("allgather", *backend.overlapping_dispatchers) if serial else ("allgather",)
    return [name for name in backend.dispatchers if name not in left_out]


def zero_stages(backend: Backend, axes: Axes, pp: int) -> list[int]:
    launchable = backend.zero_stages_pipelined if pp > 1 else backend.zero_stages
    if axes.zero is not None:
        return among(axes.zero, launchable)
    extra = (3,) if pp == 1 else ()
    return [stage for stage in launchable if stage in (*backend.search_zero, *extra)]
