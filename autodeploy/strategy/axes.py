"""The axes that a user fixes, narrows or leaves free, and the text of ranges: ``1,2,4`` and ``1..8``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from autodeploy.errors import InputError
from autodeploy.strategy.notation import parse_strategy
from cost_models.strategies import DISPATCHERS, RECOMPUTE_MODULES, SCHEDULES


@dataclass(frozen=True, slots=True)
class Between:
    """Every valid value from ``low`` to ``high``."""

    low: int
    high: int


Counts = tuple[int, ...] | Between | None  # None: free
Relief = tuple[tuple[str, ...], int]  # modules, and layers of each stage with full recompute (0: all)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What each axis may take; None leaves it free."""

    tp: Counts = None
    pp: Counts = None
    vpp: Counts = None
    cp: Counts = None
    ep: Counts = None
    etp: Counts = None
    dp: Counts = None
    micro_batch: Counts = None
    micro_batch_group: Counts = None
    zero: Counts = None
    recompute: tuple[str, ...] | None = None  # none | full | full(4) | selective | selective(...) | a module
    schedule: tuple[str, ...] | None = None
    dispatcher: tuple[str, ...] | None = None
    ep_overlap: tuple[bool, ...] | None = None
    sequence_parallel: tuple[bool, ...] | None = None
    offload: tuple[float, ...] | None = None
    swap: tuple[float, ...] | None = None
    layout: tuple[str, ...] | None = None  # texts; "" is the default

    @staticmethod
    def of(values: Mapping[str, object]) -> Axes:
        """From what a command line or a sweep file gives: text, a value, or a sequence of them, by axis name."""
        known = {f.name for f in fields(Axes)}
        read: dict[str, object] = {}
        for name, value in values.items():
            field = ALIASES.get(name, name)
            if field not in known:
                raise InputError("axis", name, f"one of {', '.join(sorted(known))}")
            read[field] = None if value is None else _read(field, value)
        return Axes(**read)  # type: ignore[arg-type]


ALIASES = {
    "mbs": "micro_batch", "micro-batch": "micro_batch", "group": "micro_batch_group", "zero_stage": "zero",
    "offload_frac": "offload", "swap_frac": "swap", "recompute_modules": "recompute",
}  # fmt: skip
_FLAG = {"true": True, "on": True, "1": True, "yes": True, "false": False, "off": False, "0": False, "no": False}
_NAMES = {"schedule": SCHEDULES, "dispatcher": DISPATCHERS}


def parse_range(text: str, field: str = "range") -> tuple[int, ...] | Between:
    """``1,2,4``: these. ``1..8``: the valid ones in between. ``8``: this."""
    low, dots, high = text.strip().partition("..")
    least = 0 if field == "zero" else 1
    allowed = f"whole numbers >= {least} such as 4, 1,2,4 or 1..8"
    parts = [low.strip(), high.strip()] if dots else [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) >= least for part in parts):
        raise InputError(f"--{field}", text, allowed)
    numbers = [int(part) for part in parts]
    if not dots:
        return tuple(dict.fromkeys(numbers))
    if numbers[0] > numbers[1]:
        raise InputError(f"--{field}", text, allowed, f"write {numbers[1]}..{numbers[0]}")
    return Between(numbers[0], numbers[1])


def among(given: Counts, candidates: Iterable[int]) -> list[int]:
    """Values that an axis takes: all candidates if free, those in the range, or exactly the ones named."""
    if given is None:
        return sorted(set(candidates))
    if isinstance(given, Between):
        return sorted({value for value in candidates if given.low <= value <= given.high})
    return sorted(set(given))


def _read(field: str, value: object) -> object:
    items: Sequence[object] = value if isinstance(value, (list, tuple)) else (value,)
    if field in ("recompute", "schedule", "dispatcher", "layout"):
        return _texts(field, items)
    if field in ("ep_overlap", "sequence_parallel"):
        return tuple(_flag(field, item) for item in items)
    if field in ("offload", "swap"):
        return tuple(_share(field, part) for item in items for part in str(item).split(","))
    if len(items) == 1 and isinstance(items[0], Between):
        return items[0]
    return parse_range(",".join(str(item) for item in items), field)


def _texts(field: str, items: Sequence[object]) -> tuple[str, ...]:
    if field == "layout":
        return tuple(str(item) for item in items)
    texts = tuple(part for item in items for part in split_outside(str(item)))
    for text in texts:
        if field in _NAMES and text not in _NAMES[field]:
            raise InputError(f"--{field}", text, f"among {', '.join(_NAMES[field])}")
        if field == "recompute":
            recompute_choice(text)
    return texts


def recompute_choice(text: str) -> Relief | None:
    """Modules and layers that a recompute text names; None for ``selective``, which leaves the modules free."""
    if text == "selective":
        return None
    if text == "none":
        return (), 0
    named = f"selective({text})" if text in RECOMPUTE_MODULES and text != "full" else text
    if not named.startswith(("full", "selective(")):
        allowed = f"none, full, full(4), selective, selective(...) or one of {', '.join(RECOMPUTE_MODULES[:-1])}"
        raise InputError("--recompute", text, allowed)
    strategy = parse_strategy(named)
    return strategy.recompute, strategy.recompute_layers


def split_outside(text: str) -> list[str]:
    """Parts between the commas that stand outside parentheses."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text + ","):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [part for part in parts if part]


def _flag(field: str, item: object) -> bool:
    text = str(item).lower()
    if text not in _FLAG:
        raise InputError(f"--{field}", item, "true or false")
    return _FLAG[text]


def _share(field: str, item: object) -> float:
    try:
        share = float(str(item))
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise InputError(f"--{field}", item, "a share in 0..1, such as 0.5")
    return share
