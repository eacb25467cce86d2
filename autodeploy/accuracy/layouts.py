"""Pipeline layouts as the sources describe them -> decoder layers per virtual stage -> ``Layout``.

Axes: S = pp * vpp virtual stages in the order that a micro-batch visits them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

import numpy as np

from autodeploy.errors import InputError
from autodeploy.strategy.split import Split
from cost_models.inputs import ModelSpec
from cost_models.strategies import Layout

# -------------------------------------------------------------------------------- splits that no source spells out


def even_split(layers: int, stages: int) -> Split:
    """Equal stages; what does not divide goes one by one to the front."""
    base, rest = divmod(layers, stages)
    return Split(tuple(base + (stage < rest) for stage in range(stages)))


def slotted_split(layers: int, stages: int) -> Split:
    """Embedding and loss count as one layer each (Megatron's account-for-embedding / -for-loss-in-pipeline-split)."""
    per_stage, rest = divmod(layers + 2, stages)
    if rest:
        raise InputError("pipeline_layout", f"{layers} layers + 2 slots", f"a multiple of {stages} virtual stages")
    if stages == 1:
        return Split((layers,))
    return Split((per_stage - 1, *[per_stage] * (stages - 2), per_stage - 1))


def ceiling_split(layers: int, stages: int) -> Split:
    """Equal stages rounded up, the last (with MTP and loss) takes what is left.

    Source: Megatron-Bridge, DeepSeek-V3 and Kimi-K2 recipes: 61 layers over 16 virtual stages are 15 x 4 + 1.
    """
    base = -(-layers // stages)
    last = layers - base * (stages - 1)
    if last < 0:
        return even_split(layers, stages)
    return Split((*[base] * (stages - 1), last))


def default_split(layers: int, stages: int, *, front_heavy: bool = False) -> tuple[Split, str]:
    """The split of a run that states none, and what was assumed ("" where it divides)."""
    if layers % stages == 0:
        return even_split(layers, stages), ""
    if front_heavy:
        return even_split(layers, stages), f"{layers} layers over {stages} stages: the first stages take one more"
    if (layers + 2) % stages == 0:
        return slotted_split(layers, stages), "embedding and loss each take one layer slot"
    return ceiling_split(layers, stages), f"{layers} layers over {stages} stages: rounded up, the last takes the rest"


# ------------------------------------------------------------------------------------------- the sources' own words


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"-?\d+", text)]


def _listed(text: str, layers: int, stages: int) -> Split:
    return Split(tuple(_numbers(text)))


def _slots(text: str, layers: int, stages: int) -> Split:
    return slotted_split(layers, stages)


def _one_fewer_at_ends(text: str, layers: int, stages: int) -> Split:
    return slotted_split(layers, stages)


def _no_op(text: str, layers: int, stages: int) -> Split:
    """Empty slots among ``n`` equal ones: "no-op slots 61,62,63 of 64"."""
    *empty, slots = _numbers(text)
    per_stage, rest = divmod(slots, stages)
    if rest:
        raise InputError("pipeline_layout", text, f"slots that divide over {stages} virtual stages")
    return Split(
        tuple(
            sum(slot not in empty for slot in range(stage * per_stage, (stage + 1) * per_stage))
            for stage in range(stages)
        )
    )


def _offset(text: str, layers: int, stages: int) -> Split:
    """Offsets around an equal split, chunk by chunk: MindFormers' ``offset``."""
    nested = json.loads(text[text.index("[") : text.rindex("]") + 1])
    flat = [number for row in nested for number in (row if isinstance(row, list) else [row])]
    stated = re.search(r"around (\d+) layers", text)
    base = int(stated.group(1)) if stated else layers // stages
    return Split(tuple(base + offset for offset in flat))


def _per_stage(text: str, layers: int, stages: int) -> Split:
    return Split((_numbers(text)[0],) * stages)


def _embedding_slot(text: str, layers: int, stages: int) -> Split:
    """ "first and last stage 16 layers, others 17"."""
    ends, middle = _numbers(text)[:2]
    return Split((ends, *[middle] * (stages - 2), ends))


def _last_differs(text: str, layers: int, stages: int) -> Split:
    """ "7 layers x 11 stages, last stage 1"."""
    base, count, last = _numbers(text)[:3]
    return Split((*[base] * count, last))


def _embedding_alone(text: str, layers: int, stages: int) -> Split:
    """One layer per chunk; the first chunk holds only the embedding, the last only the head."""
    return Split((0, *[1] * (stages - 2), 0))


def _even(text: str, layers: int, stages: int) -> Split:
    """ "even", "uniform split", "evenly divided": equal stages, what does not divide one by one to the front."""
    return even_split(layers, stages)


PROSE: tuple[tuple[str, Callable[[str, int, int], Split]], ...] = (
    (r"(?i)^(an? )?(even(ly)?|uniform(ly)?|equal(ly)?)\b(?!.*(uneven|except|but))", _even),
    (r"(?i)^(layers )?(split |divided |distributed )(evenly|equally|uniformly)\b", _even),
    (r"(?i)^(the same|same) (number|count) of layers (on|per|in) (each|every|all) stages?\b", _even),
    (r"^no-op slots", _no_op),
    (r"^layers per stage ", _listed),
    (r"^\d+( \d+)+$", _listed),
    (r"^offset \[", _offset),
    (r"^embedding slot: first and last stage", _embedding_slot),
    (r"^embedding and loss each take one layer slot", _slots),
    (r"^1 layer per chunk; first chunk of the first stage only the embedding", _embedding_alone),
    (r"^\d+ layers per stage; embedding also on the first", _per_stage),
    (r"^\d+ layers x \d+ stages, last stage", _last_differs),
    (r"^\d+ layers per stage, first and last one fewer", _one_fewer_at_ends),
    (r"^first and last stage one layer fewer", _one_fewer_at_ends),
)
MEGATRON = re.compile(r"^[Etm L|*()\d]+L$")


def parse_split(text: str, layers: int, stages: int) -> Split:
    """The split that ``text`` describes; it must place every layer on one of the stages."""
    if MEGATRON.match(text):
        split = megatron_split(text)
    else:
        read = next((read for pattern, read in PROSE if re.search(pattern, text)), None)
        if read is None:
            raise InputError("pipeline_layout", text, "a Megatron layout string or a form that the shipped runs use")
        split = read(text, layers, stages)
    _check(split, text, layers, stages)
    return split


def megatron_split(text: str) -> Split:
    """Megatron's ``--pipeline-model-parallel-layout``: "Et*4|(t*4|)*14tmL".

    E embedding, t decoder layer, m MTP, L loss, | ends a virtual stage; x*n repeats a letter, (...)*n a group.
    """
    flat = re.sub(r"\(([^)]*)\)\*(\d+)", lambda m: m.group(1) * int(m.group(2)), text.replace(" ", ""))
    flat = re.sub(r"([EtmL])\*(\d+)", lambda m: m.group(1) * int(m.group(2)), flat)
    stages = flat.split("|")
    where = {letter: next((i for i, stage in enumerate(stages) if letter in stage), -1) for letter in "EmL"}
    layers = tuple(stage.count("t") for stage in stages)
    return Split(layers, mtp=where["m"], embedding=where["E"], head=where["L"])


def _check(split: Split, text: str, layers: int, stages: int) -> None:
    if len(split.layers) != stages:
        raise InputError("pipeline_layout", text, f"{stages} virtual stages, not {len(split.layers)}")
    if sum(split.layers) != layers or min(split.layers) < 0:
        raise InputError("pipeline_layout", text, f"{layers} layers in all, not {sum(split.layers)}")


# ----------------------------------------------------------------------------------------------------- to counts


def layout_of(split: Split, model: ModelSpec, pp: int, vpp: int) -> Layout:
    """Counts [S, K + 3] of ``split``: the model's layers in order, then embedding, MTP, head."""
    _check(split, str(split.layers), model.num_layers, pp * vpp)
    counts = np.zeros((pp * vpp, len(model.kinds) + 3))
    sequence: Sequence[int] = model.layer_sequence()
    start = 0
    for stage, held in enumerate(split.layers):
        for kind in sequence[start : start + held]:
            counts[stage, kind] += 1
        start += held
    counts[split.embedding, -3] += 1
    counts[split.mtp if model.mtp_modules else -1, -2] += model.mtp_modules
    counts[split.head, -1] += 1
    return Layout(pp=pp, vpp=vpp, counts=counts)
