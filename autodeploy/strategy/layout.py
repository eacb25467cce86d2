"""Which layers sit on which virtual stage: the default of each back end, a few alternates, and layouts from text.

Axes: S = pp * vpp virtual stages, K layer kinds. A layout text is one of
``even``, ``account-for-embedding``, ``account-for-loss``, ``account-for-embedding-and-loss`` (Megatron's flags),
``noop:61,62,63`` (MindSpeed's --noop-layers), ``17,20,22,21`` (MindSpeed's --num-layer-list), ``fqn:8,9,8,7``
(torchtitan: layers of each stage) and Megatron's grammar (layout_text.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from autodeploy.errors import InputError
from autodeploy.strategy.layout_text import StageText, parse_layout_text, print_layout_text
from autodeploy.strategy.split import Split
from autodeploy.strategy.splits import Ends, Splits, Stages, balance, balanced_splits
from cost_models.inputs import ModelSpec
from cost_models.records import record
from cost_models.strategies import F64, Layout

ALTERNATES = 2
FILLED = (
    "mindspeed-filled"  # MindSpeed's overlap under VPP: no-op slots in the last stage only, or a layout of full stages
)
SPREAD_FROM = 3  # more no-op slots than this and than a stage holds are spread, not appended


@record(kw_only=False)
class Placing:
    """What of a schedule bears on the split: odd chunks placed in reverse; expert communication overlapped."""

    v_shaped: bool = False
    ep_overlap: bool = False


IN_ORDER = Placing()


def layouts_for(model: ModelSpec, pp: int, vpp: int, backend: str, placing: Placing = IN_ORDER) -> list[Layout]:
    """The back end's default layout first, then up to two that the rough weights say are better balanced.

    Empty where the model has too few layers for pp * vpp virtual stages.
    """
    return list(_layouts(model, pp, vpp, _filling(backend, vpp, placing), placing.v_shaped))


def _filling(backend: str, vpp: int, placing: Placing) -> str:
    filled = backend == "mindspeed" and placing.ep_overlap and not placing.v_shaped and vpp > 1
    return FILLED if filled else backend


@lru_cache(maxsize=8192)
def _layouts(model: ModelSpec, pp: int, vpp: int, backend: str, v_shaped: bool) -> tuple[Layout, ...]:
    first = _first(model, pp, vpp, backend, v_shaped)
    if first is None:
        return ()
    default, layout = first
    splits = [default]
    if pp > 1:
        best = balance(model, Stages(pp, vpp, v_shaped), default)
        for split, its_balance in _candidates(model, pp, vpp, backend, v_shaped):
            if len(splits) > ALTERNATES or not _clearly_less(its_balance, best):
                break
            if all(split.layers != kept.layers or split.mtp != kept.mtp for kept in splits):
                splits.append(_named(model, pp, vpp, backend, split))
    return layout, *(_layout(model, pp, vpp, split, split.text) for split in splits[1:])


@lru_cache(maxsize=8192)
def _first(model: ModelSpec, pp: int, vpp: int, backend: str, v_shaped: bool) -> tuple[Split, Layout] | None:
    """The default alone: alternatives are for a search."""
    default = _default(model, pp, vpp, backend, v_shaped)
    return None if default is None else (default, _layout(model, pp, vpp, default, ""))


def first_layout(model: ModelSpec, pp: int, vpp: int, backend: str, placing: Placing = IN_ORDER) -> Layout | None:
    """The back end's default; None where there are too few layers."""
    found = _first(model, pp, vpp, _filling(backend, vpp, placing), placing.v_shaped)
    return None if found is None else found[1]


def default_layout(model: ModelSpec, pp: int, vpp: int, backend: str, placing: Placing = IN_ORDER) -> Layout:
    found = first_layout(model, pp, vpp, backend, placing)
    if found is None:
        raise InputError(
            "strategy.pp", pp, f"such that PP x VPP = {pp * vpp} stages hold {model.num_layers} layers on {backend}",
            "lower PP or VPP",
        )  # fmt: skip
    return found


def parse_layout(text: str, model: ModelSpec, pp: int, vpp: int) -> Layout:
    """The layout that ``text`` writes, checked against the model and the number of stages."""
    stages, total = pp * vpp, model.num_layers
    if text == "even":
        _require(total % stages == 0, text, f"used where {total} layers divide by PP x VPP = {stages}")
        split = Split((total // stages,) * stages, stages - 1, text)
    elif text.startswith("account-for-"):
        split = _account(total, stages, text)
    elif text.startswith("noop:"):
        split = _from_noops(total, stages, text)
    elif set(text) <= set("0123456789, ") or text.startswith("fqn:"):
        split = Split(tuple(_numbers(text.removeprefix("fqn:"), text)), stages - 1, text)
    else:
        split = _from_grammar(text, model, pp, vpp)
    held = len(split.layers)
    _require(held == stages, text, f"one entry for each of PP x VPP = {stages} stages, not {held}")
    _require(sum(split.layers) == total, text, f"a layout that sums to {total} layers, not {sum(split.layers)}")
    return _layout(model, pp, vpp, split, text)


# ------------------------------------------------------------------------------------------------- defaults


def _default(model: ModelSpec, pp: int, vpp: int, backend: str, v_shaped: bool) -> Split | None:
    total, stages = model.num_layers, pp * vpp
    if backend == "torchtitan":
        return _torchtitan(total, stages)
    if total % stages == 0:
        return Split((total // stages,) * stages, stages - 1, "")
    if backend == "mindspeed":
        return _noop(model, pp, vpp, v_shaped)
    if backend == FILLED:
        return _filled(model, pp, vpp)
    for text in ("account-for-embedding-and-loss", "account-for-loss"):
        if stages > 1 and (total + text.count("embedding") + 1) % stages == 0:
            return _account(total, stages, text)
    return _best(model, pp, vpp, backend, v_shaped)


def _account(total: int, stages: int, text: str) -> Split:
    """Megatron's --account-for-{embedding,loss}-in-pipeline-split: each takes the slot of one layer."""
    embedding, loss = int("embedding" in text), int("loss" in text)
    slots = total + embedding + loss
    known = text in ("account-for-embedding", "account-for-loss", "account-for-embedding-and-loss")
    _require(known, text, "account-for-embedding, account-for-loss or account-for-embedding-and-loss")
    _require(slots % stages == 0, text, f"used where {slots} slots divide by PP x VPP = {stages}")
    layers = [slots // stages] * stages
    layers[0] -= embedding
    layers[-1] -= loss
    return Split(tuple(layers), stages - 1, text)


def _noop(model: ModelSpec, pp: int, vpp: int, v_shaped: bool) -> Split | None:
    """MindSpeed pads to whole slots: no-op layers at the end while they are few (61 + 3), else spread."""
    total, stages = model.num_layers, pp * vpp
    slots = -(-total // stages)
    missing = slots * stages - total
    if stages > total + SPREAD_FROM:
        return None
    if missing <= max(slots, SPREAD_FROM):
        layers = [min(slots, max(0, total - s * slots)) for s in range(stages)]
        return Split(tuple(layers), stages - 1, _noop_text(layers, slots))
    return _best(model, pp, vpp, "mindspeed", v_shaped)


def _filled(model: ModelSpec, pp: int, vpp: int) -> Split | None:
    """Under MindSpeed's fb-overlap with VPP no-op slots may stand in the last virtual stage alone, and no stage may be
    empty: a few no-op slots at the end where they leave a layer there, else a layout in Megatron's grammar.

    Source: MindSpeed, features_manager/moe/fb_overlap.py, post_validate_args and
    _validate_pipeline_model_parallel_layout_for_fb_overlap.
    """
    total, stages = model.num_layers, pp * vpp
    slots = -(-total // stages)
    if slots * stages - total < slots:
        return _noop(model, pp, vpp, False)
    return _best(model, pp, vpp, FILLED, False)


def _noop_text(layers: Sequence[int], slots: int) -> str:
    """No-op slots are the last ones of a stage; --num-layers is slots * S."""
    noops = [s * slots + j for s, count in enumerate(layers) for j in range(count, slots)]
    return "noop:" + ",".join(map(str, noops)) if noops else "even"


def _torchtitan(total: int, stages: int) -> Split | None:
    """Embedding and output weigh one layer each; the remainder goes to the first stages.

    Source: torchtitan, generate_llm_fqn_per_model_part (input_weight = output_weight = 1).
    """
    if stages == 1:
        return Split((total,), 0, "")
    base, extra = divmod(total + 2, stages)
    if base < 1:
        return None
    layers = [base + (s < extra) for s in range(stages)]
    layers[0] -= 1
    layers[-1] -= 1
    return Split(tuple(layers), stages - 1, "")


# ----------------------------------------------------------------------------------------------- candidates


def _candidates(model: ModelSpec, pp: int, vpp: int, backend: str, v_shaped: bool) -> Splits:
    """Best balanced first. MTP alone where the back end can write it."""
    stages = Stages(pp, vpp, v_shaped)
    slots, mindspeed = -(-model.num_layers // len(stages)), backend == "mindspeed"
    ends = Ends(
        least=int(backend == FILLED),  # decoder layers that every stage holds; MTP stands behind them all: not alone
        most=slots if mindspeed else slots + 1,  # MindSpeed: beyond the slots there is no room
        empty=mindspeed,
        alone=model.mtp_modules > 0 and backend not in ("mindspeed", FILLED, "torchtitan") and not v_shaped and pp > 2,
    )
    return balanced_splits(model, stages, ends)


def _named(model: ModelSpec, pp: int, vpp: int, backend: str, split: Split) -> Split:
    """With the text that an exporter prints."""
    slots = -(-model.num_layers // (pp * vpp))
    return replace(split, text=_text(split.layers, split.mtp, backend, slots, model.mtp_modules))


def _best(model: ModelSpec, pp: int, vpp: int, backend: str, v_shaped: bool) -> Split | None:
    """The best balanced candidate in which no stage holds more than its even share, rounded up."""
    found = _candidates(model, pp, vpp, backend, v_shaped)
    even = np.flatnonzero(found.layers.max(axis=1) <= -(-model.num_layers // (pp * vpp)))
    return _named(model, pp, vpp, backend, found.split(even[0])) if len(even) else None


def rank_of(stage: int, pp: int, v_shaped: bool) -> int:
    """Rank that holds a virtual stage: chunk s // pp on rank s % pp; V-shaped schedules place odd chunks in reverse."""
    chunk, place = divmod(stage, pp)
    return pp - 1 - place if v_shaped and chunk % 2 else place


def _clearly_less(candidate: tuple[float, float], default: tuple[float, float]) -> bool:
    """Better by half a percent in the rank sum, or as good there and better in the largest stage."""
    if candidate[0] < 0.995 * default[0]:
        return True
    return candidate[0] <= default[0] and candidate[1] < 0.995 * default[1]


# ------------------------------------------------------------------------------------------------ text, counts


def _text(layers: Sequence[int], mtp_stage: int, backend: str, slots: int, mtp: int) -> str:
    if backend == "mindspeed":
        return _noop_text(layers, slots)
    if backend == "torchtitan":
        return "fqn:" + ",".join(map(str, layers))
    last = len(layers) - 1
    return print_layout_text(
        [StageText(count, int(s == 0), mtp if s == mtp_stage else 0, int(s == last)) for s, count in enumerate(layers)]
    )


def _layout(model: ModelSpec, pp: int, vpp: int, split: Split, key: str) -> Layout:
    return Layout(pp=pp, vpp=vpp, counts=_counts(model, split), text=split.text, key=key)


def _counts(model: ModelSpec, split: Split) -> F64:
    """[S, K + 3]: layers of each kind, then embedding, MTP modules, head."""
    upto, kinds = _kinds_upto(model), len(model.kinds)
    counts = np.zeros((len(split.layers), kinds + 3))
    counts[:, :kinds] = np.diff(upto[np.cumsum([0, *split.layers])], axis=0)
    counts[0, kinds] = 1.0
    counts[split.mtp, kinds + 1] = model.mtp_modules
    counts[-1, kinds + 2] = 1.0
    return counts


@lru_cache(maxsize=64)
def _kinds_upto(model: ModelSpec) -> F64:
    """Layers of each kind among the first n, [L + 1, K]."""
    upto = np.zeros((model.num_layers + 1, len(model.kinds)))
    upto[np.arange(1, model.num_layers + 1), np.array(model.layer_sequence())] = 1.0
    return upto.cumsum(axis=0)


def _from_noops(total: int, stages: int, text: str) -> Split:
    noops = _numbers(text.removeprefix("noop:"), text)
    slots, rest = divmod(total + len(noops), stages)
    allowed = f"no-op slots that make {total} layers a multiple of PP x VPP = {stages}"
    _require(rest == 0 and len(set(noops)) == len(noops), text, allowed)
    _require(max(noops, default=0) < slots * stages, text, f"slot numbers below {slots * stages}")
    empty = np.bincount(np.array(noops, dtype=np.int64) // slots, minlength=stages)
    return Split(tuple(int(slots - count) for count in empty), stages - 1, text)


def _from_grammar(text: str, model: ModelSpec, pp: int, vpp: int) -> Split:
    """Megatron's validate_layer_layout: MTP in the last virtual stage of its rank, not on rank 0 (unless PP is 1)."""
    stages = parse_layout_text(text)
    mtp = [s for s, stage in enumerate(stages) if stage.mtp]
    held = sum(stage.mtp for stage in stages)
    _require(held == model.mtp_modules, text, f"a layout with {model.mtp_modules} MTP modules (m), not {held}")
    if mtp and pp > 1 and len(stages) == pp * vpp:
        fits = mtp[0] // pp == vpp - 1 and mtp[0] % pp > 0
        _require(fits, text, "a layout with MTP in the last virtual stage of its rank, and not on rank 0")
    return Split(tuple(stage.layers for stage in stages), mtp[0] if mtp else len(stages) - 1, text)


def _numbers(text: str, whole: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    _require(all(part.isdecimal() for part in parts), whole, "whole numbers separated by commas")
    return [int(part) for part in parts]


def _require(condition: bool, text: str, allowed: str) -> None:
    if not condition:
        raise InputError("strategy.layout", text, allowed)
