"""One strategy in full, and its notation: ``TP8/PP16/VPP2/EP32/MBS2/selective(mla_up_proj,layernorm,moe)``.

What is omitted means: ETP1, CP1, MBS1, ZeRO-1 (on torchtitan ZeRO-3, with PP ZeRO-2), sequence parallel when TP > 1,
no recompute, 1F1B or interleaved by VPP (none at PP1), flat all-to-all, DP from the card count, the back end's default
layout. Defaults are omitted in print and everything else is printed, so that ``parse_strategy(str(s)) == s``.
"""

from __future__ import annotations

import re

from autodeploy.errors import InputError
from autodeploy.strategy.axis_table import COUNTS, DEFAULT_OF, SHARES, TOKEN_OF
from autodeploy.strategy.backends import backend_named
from cost_models.records import record
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.strategies import DISPATCHERS, RECOMPUTE_MODULES, SCHEDULES

REMEDY = "write TP8/PP16/VPP2/EP32 and add CP2, ETP2, DP48, MBS2, G20, ZeRO3, noSP, full, selective(...), a schedule"


@record
class Strategy:
    """One strategy. ``sequence_parallel``, ``schedule`` and ``ep_overlap`` left open become the default when built."""

    tp: int = 1
    pp: int = 1
    vpp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    dp: int = 0  # 0: from the card count
    micro_batch: int = 1
    micro_batch_group: int = 0  # micro-batches that a chunk runs in a row; 0: PP
    zero_stage: int = 1
    sequence_parallel: bool | None = None
    recompute: tuple[str, ...] = ()
    recompute_layers: int = 0  # of each virtual stage, with full recompute; 0: all
    schedule: str = ""
    dispatcher: str = "alltoall"
    ep_overlap: bool | None = None
    offload_frac: float = 0.0
    swap_frac: float = 0.0
    layout: str = ""  # "": the back end's default

    def __post_init__(self) -> None:
        for name in (*COUNTS, "recompute_layers"):
            _whole(name, getattr(self, name), int(DEFAULT_OF[name] == 1 and name != "zero_stage"))
        if self.zero_stage not in (0, 1, 2, 3):
            raise InputError("strategy.zero_stage", self.zero_stage, "0, 1, 2 or 3")
        for name in SHARES:
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(f"strategy.{name}", getattr(self, name), "a share in 0..1")
        self._resolve()
        if self.schedule not in SCHEDULES:
            raise InputError("strategy.schedule", self.schedule, f"one of {', '.join(SCHEDULES)}")
        if self.dispatcher not in DISPATCHERS:
            raise InputError("strategy.dispatcher", self.dispatcher, f"one of {', '.join(DISPATCHERS)}")
        self._check_recompute()
        _check_balanced(self.layout)

    def _resolve(self) -> None:
        """Fill in what depends on other fields, and give each value one spelling."""
        if self.sequence_parallel is None:
            object.__setattr__(self, "sequence_parallel", self.tp > 1)
        if not self.schedule:
            object.__setattr__(self, "schedule", default_schedule(self.pp, self.vpp))
        if self.ep_overlap is None:
            object.__setattr__(self, "ep_overlap", _is_overlap(self.schedule))
        if self.micro_batch_group == self.pp:
            object.__setattr__(self, "micro_batch_group", 0)
        ordered = tuple(name for name in RECOMPUTE_MODULES if name in self.recompute)
        if set(ordered) == set(self.recompute):
            object.__setattr__(self, "recompute", ordered)
        for name in SHARES:
            object.__setattr__(self, name, float(getattr(self, name)) + 0.0)  # -0.0 becomes 0.0

    def _check_recompute(self) -> None:
        for module in self.recompute:
            if module not in RECOMPUTE_MODULES:
                raise InputError("strategy.recompute", module, f"among {', '.join(RECOMPUTE_MODULES)}")
        if "full" in self.recompute and len(self.recompute) > 1:
            raise InputError("strategy.recompute", self.recompute, "full alone or modules alone", "full covers all")
        if self.recompute_layers and self.recompute != ("full",):
            raise InputError("strategy.recompute_layers", self.recompute_layers, "0 unless recompute is full")

    @property
    def label(self) -> str:
        return f"TP{self.tp}/PP{self.pp}/VPP{self.vpp}/EP{self.ep}"

    @property
    def recompute_kind(self) -> str:
        """``none``, ``selective`` or ``full``."""
        return "none" if not self.recompute else "full" if "full" in self.recompute else "selective"

    def __str__(self) -> str:
        return "/".join([self.label, *departures(self)])


def default_schedule(pp: int, vpp: int) -> str:
    """What runs when nothing is said."""
    return "none" if pp == 1 else "interleaved" if vpp > 1 else "1f1b"


def _is_overlap(schedule: str) -> bool:
    """The schedule is itself the overlap of expert communication; unknown names are told of elsewhere."""
    return schedule in SCHEDULE_TABLE and SCHEDULE_TABLE[schedule].needs_overlap


def departures(strategy: Strategy) -> list[str]:
    """Tokens of everything that differs from the defaults, in printing order."""
    s = strategy
    tokens = [
        f"{TOKEN_OF[column]}{getattr(s, column)}"
        for column in ("cp", "etp", "dp", "micro_batch", "micro_batch_group", "zero_stage")
        if getattr(s, column) != DEFAULT_OF[column]
    ]
    if s.sequence_parallel != (s.tp > 1):
        tokens.append("SP" if s.sequence_parallel else "noSP")
    if s.recompute_kind == "full":
        tokens.append(f"full({s.recompute_layers})" if s.recompute_layers else "full")
    elif s.recompute:
        tokens.append(f"selective({','.join(s.recompute)})")
    if s.schedule != default_schedule(s.pp, s.vpp):
        tokens.append(s.schedule)
    if s.dispatcher != "alltoall":
        tokens.append(s.dispatcher)
    if s.ep_overlap != _is_overlap(s.schedule):
        tokens.append("ep-overlap" if s.ep_overlap else "no-ep-overlap")
    tokens += [f"{TOKEN_OF[column]}{_number(getattr(s, column))}" for column in SHARES if getattr(s, column)]
    if s.layout:
        tokens.append(f"layout({s.layout})")
    return tokens


# -------------------------------------------------------------------------------------------------- parsing

_COUNTS = {TOKEN_OF[column].lower(): column for column in COUNTS} | {"zero-": "zero_stage"}
_SHARES = {TOKEN_OF[column]: column for column in SHARES}
_FLAGS = {
    "selective": ("recompute", ("core_attn",)),  # Megatron's --recompute-granularity selective without modules
    "sp": ("sequence_parallel", True), "nosp": ("sequence_parallel", False), "full": ("recompute", ("full",)),
    "ep-overlap": ("ep_overlap", True), "no-ep-overlap": ("ep_overlap", False), "none": ("schedule", "none"),
}  # fmt: skip
# By the names of the libraries: both send a token once to each node that holds one of its experts.
DISPATCHER_NAMES = {"deepep": "hierarchical-dedup", "hybridep": "hierarchical-dedup"}
_COUNT = r"([a-z]+-?)(\d{1,9})"  # more digits than cards or sequences could have overflow further on
_SHARE = r"(offload|swap)(\d*\.?\d+(?:e[+-]?\d+)?)"
_CALL = r"(selective|full|layout)\((.*)\)"


def parse_strategy(text: str, backend: str = "megatron") -> Strategy:
    """The strategy that ``text`` writes. Tokens come in any order and case, each once.

    The ZeRO stage that ``text`` leaves out is the one that ``backend`` runs by default.
    """
    values: dict[str, object] = {}
    for token in _split(text):
        for field, value in _read(token, text).items():
            if field in values:
                raise InputError("strategy", text, f"one token for {field}", f"drop one of them: {token} comes second")
            values[field] = value
    unsaid = backend_named(backend).zero_unsaid(int(str(values.get("pp", 1))))
    return Strategy(**{"zero_stage": unsaid, **values})  # type: ignore[arg-type]


def _read(token: str, text: str) -> dict[str, object]:
    lower = token.lower()
    if "(" in token and (call := re.fullmatch(_CALL, token, re.DOTALL) or re.fullmatch(_CALL, lower, re.DOTALL)):
        return _read_call(call.group(1), call.group(2), text)
    if lower in _FLAGS:
        field, value = _FLAGS[lower]
        return {field: value}
    if lower in SCHEDULES:
        return {"schedule": lower}
    if lower in DISPATCHERS or lower in DISPATCHER_NAMES:
        return {"dispatcher": DISPATCHER_NAMES.get(lower, lower)}
    if lower.startswith(tuple(_SHARES)) and (share := re.fullmatch(_SHARE, lower)):
        return {_SHARES[share.group(1)]: float(share.group(2))}
    if (count := re.fullmatch(_COUNT, lower)) and count.group(1) in _COUNTS:
        return {_COUNTS[count.group(1)]: int(count.group(2))}
    raise InputError("strategy", token, "a token of the notation", _near(lower) or REMEDY)


def _near(token: str) -> str:
    """What was probably meant; "" where nothing is near."""
    import difflib

    words = (*SCHEDULES, *DISPATCHERS, *DISPATCHER_NAMES, *_FLAGS)
    near = [word for word in words if word.startswith(token)] or difflib.get_close_matches(
        token, words, n=1, cutoff=0.6
    )
    return f"did you mean {near[0]}?" if token and near else ""


def _read_call(name: str, inside: str, text: str) -> dict[str, object]:
    if name == "layout":
        return {"layout": inside.strip()}
    if name == "full":
        if not re.fullmatch(r"\s*\d{1,9}\s*", inside) or int(inside) == 0:
            raise InputError("strategy", text, "full, or full(LAYERS) with a whole number > 0")
        return {"recompute": ("full",), "recompute_layers": int(inside)}
    modules = tuple(part.strip().lower() for part in inside.split(",") if part.strip())
    if not modules or "full" in modules:
        raise InputError("strategy", text, f"selective(...) with some of {', '.join(RECOMPUTE_MODULES[:-1])}")
    return {"recompute": modules}


def _split(text: str) -> list[str]:
    """Tokens between the slashes that stand outside parentheses."""
    _check_balanced(text)
    tokens, depth, start = [], 0, 0
    for i, char in enumerate(text + "/"):
        depth += (char == "(") - (char == ")")
        if char == "/" and depth == 0:
            tokens.append(text[start:i].strip())
            start = i + 1
    if not all(tokens):
        raise InputError("strategy", text, "tokens separated by single slashes", REMEDY)
    return tokens


def _check_balanced(text: str) -> None:
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            break
    if depth:
        raise InputError("strategy", text, "text with balanced parentheses")


def _number(value: float) -> str:
    """Shortest text that reads back as the same float."""
    text = repr(value)
    return text[:-2] if text.endswith(".0") else text


def _whole(name: str, value: int, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise InputError(f"strategy.{name}", value, f"a whole number >= {low}")
