"""The grammar of Megatron's ``--pipeline-model-parallel-layout``: parser and printer.

``E`` embedding, ``t`` decoder layer, ``m`` MTP module, ``L`` loss (head); ``|`` ends a virtual stage, ``x*n`` and
``(...)*n`` repeat, commas mean nothing. Virtual stage s is chunk s // pp on rank s % pp.
Source: Megatron-LM, megatron/core/transformer/pipeline_parallel_layer_layout.py, ``parse_str_to_list`` and
``validate_layer_layout``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from autodeploy.errors import InputError
from cost_models.records import record

FIELD = "--pipeline-model-parallel-layout"
LIMIT = 4096  # virtual stages; guards against (t|)*999999999

_GROUP = r"\(([^()]+)\)\*(\d+)"
_ITEM = r"([EtmL|])\*(\d+)"


@record(kw_only=False)
class StageText:
    """What one virtual stage holds."""

    layers: int = 0
    embedding: int = 0
    mtp: int = 0
    loss: int = 0


def parse_layout_text(text: str) -> tuple[StageText, ...]:
    """Virtual stages in order of execution. Checks the grammar, not the model."""
    flat = "".join(text.split()).replace(",", "")
    for pattern in (_GROUP, _ITEM):
        flat = re.sub(pattern, lambda found: found.group(1) * _times(text, found.group(2)), flat)
    wrong = sorted(set(flat) - set("EtmL|"))
    if wrong or not flat:
        allowed = "made of E, t, m, L, | and repeats such as t*3 or (tt|)*29"
        raise InputError(FIELD, text, allowed, f"drop {' '.join(wrong)}" if wrong else "")
    order = flat.replace("|", "")
    if order != "".join(sorted(order, key="EtmL".index)):
        raise InputError(FIELD, text, "in the order E, decoder layers, m, L")
    if order.count("E") != 1 or not flat.startswith("E"):
        raise InputError(FIELD, text, "with one E, on the first stage")
    if order.count("L") != 1 or not flat.endswith("L"):
        raise InputError(FIELD, text, "with one L, on the last stage")
    stages = flat.split("|")
    if sum("m" in stage for stage in stages) > 1:
        raise InputError(FIELD, text, "with all MTP modules (m) in one stage")
    return tuple(StageText(stage.count("t"), stage.count("E"), stage.count("m"), stage.count("L")) for stage in stages)


def print_layout_text(stages: Sequence[StageText]) -> str:
    """The shortest usual spelling: ``Et*3|(tt|)*29m|L``. Reads back as the same stages."""
    runs = [(text, len(list(run))) for text, run in groupby(_stage_text(stage) for stage in stages)]
    last = runs.pop()
    body = "".join(f"({text}|)*{count}" if count > 2 and text else f"{text}|" * count for text, count in runs)
    return body + f"{last[0]}|" * (last[1] - 1) + last[0]


def _stage_text(stage: StageText) -> str:
    parts = (("E", stage.embedding), ("t", stage.layers), ("m", stage.mtp), ("L", stage.loss))
    return "".join(letter * count if count <= 2 else f"{letter}*{count}" for letter, count in parts)


def _times(text: str, count: str) -> int:
    if len(count) > 4 or int(count) > LIMIT:
        raise InputError(FIELD, text, f"with at most {LIMIT} repeats")
    return int(count)
