"""Megatron's ``--pipeline-model-parallel-layout`` string: parse and print.

A layout is one string of symbols per virtual stage, in stage order: E embedding, t decoder layer, m MTP module,
L loss (head). ``|`` ends a stage, ``,`` is decoration, ``x*n`` repeats a symbol, ``(...)*n`` repeats a group
that may hold ``|``. Source: Megatron-LM, megatron/core/transformer/pipeline_parallel_layer_layout.py.
"""

from __future__ import annotations

import re
from itertools import groupby

from autodeploy.errors import InputError

FIELD = "pipeline-model-parallel-layout"
_GROUP = re.compile(r"\(([^()]+)\)\*(\d+)")
_SYMBOL = re.compile(r"([EtmL|])\*(\d+)")
MAX_SYMBOLS = 100_000  # a typing error in a repeat count should not fill the memory


def parse_layout(text: str) -> tuple[str, ...]:
    """Symbols of each virtual stage, [S]. Groups are unrolled first, then symbols, as Megatron does."""
    unrolled = _unroll(_unroll(text.replace(",", ""), _GROUP, text), _SYMBOL, text)
    wrong = re.search(r"[^EtmL|]", unrolled)
    if wrong:
        known = "E, t, m, L, |, a comma, x*n or (...)*n without nesting"
        raise InputError(FIELD, text, known, f"{wrong.group()!r} is none of these")
    return tuple(unrolled.split("|"))


def _unroll(text: str, pattern: re.Pattern[str], shown: str) -> str:
    size = sum(len(m.group(1)) * int(m.group(2)) for m in pattern.finditer(text))
    if size > MAX_SYMBOLS:
        raise InputError(FIELD, shown, f"at most {MAX_SYMBOLS} symbols")
    return pattern.sub(lambda m: m.group(1) * int(m.group(2)), text)


def format_layout(stages: tuple[str, ...]) -> str:
    """The short form, such as ``Et*3|(tt|)*29,m|L``; ``parse_layout`` gives the stages back."""
    runs = [(stage, len(list(group))) for stage, group in groupby(stages[:-1])]
    text = ""
    for stage, count in runs:
        part = f"({_short(stage)}|)*{count}" if count > 1 else f"{_short(stage)}|"
        text += f",{part}" if text.endswith(tuple("0123456789")) else part
    return text + ("," if text.endswith(tuple("0123456789")) else "") + _short(stages[-1])


def _short(stage: str) -> str:
    """``tttE`` as ``t*3E``; two of a kind stay ``tt``."""
    runs = [(symbol, len(list(group))) for symbol, group in groupby(stage)]
    return "".join(symbol * count if count < 3 else f"{symbol}*{count}" for symbol, count in runs)
