"""What a run recomputes: its recompute columns -> a bit mask and a number of layers per virtual stage."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autodeploy.accuracy.loader import Run
from cost_models.strategies import RECOMPUTE_MODULES, recompute_mask

# torchtitan's selective policy saves attention and every second matrix product (torchtitan, activation checkpoint
# "op"): of a Llama layer's products k, o and w3 run again, 0.365 of their FLOPs. No module mask says so; full recompute
# of that share of the layers spends the same time.
TORCHTITAN_SELECTIVE_FRAC = 0.365

WORDS: dict[str, tuple[str, ...]] = {
    "recompute_activation_function=True": ("moe_act",),
    "recompute_norm=True": ("layernorm",),
    "rmsnorm": ("layernorm",),
    "swiglu": ("moe_act",),
}


@dataclass(frozen=True, slots=True)
class Recompute:
    """``layers``: of each virtual stage under full recompute; 0: all of them."""

    mask: int
    layers: int = 0
    assumed: str = ""


NONE, FULL = Recompute(0), Recompute(recompute_mask(("full",)))


def parse_recompute(run: Run, layers_per_stage: int) -> Recompute | None:
    """The recompute setting of a run; None where it is not stated."""
    modules = run.recompute_modules or ""
    extra = ("mla_up_proj",) if run.extra.get("recompute_mla_up_proj") else ()
    if run.recompute is None:
        return None
    if run.recompute == "none":
        return NONE
    if run.recompute == "full":
        return _full(modules, layers_per_stage)
    if (
        run.recompute == "select"
    ):  # MindFormers: the activation (and, with comm, the norms) of the listed layers per stage
        listed = ("moe_act", "layernorm") if "comm" in modules else ("moe_act",)
        return Recompute(recompute_mask(listed), 0, "select_recompute of some layers taken for all of them")
    if modules.startswith("maxtext"):
        return Recompute(FULL.mask, 0, "XLA's remat policy taken as full recompute")
    if run.recompute == "selective" and not modules:
        return _selective(run, layers_per_stage)
    names = tuple(name for word in modules.split() for name in WORDS.get(word, (word,)) if name in RECOMPUTE_MODULES)
    if "fine-grained" in run.recompute:
        names = ("mla_up_proj", "layernorm", "moe")
    return Recompute(recompute_mask((*names, *extra)))


def _full(modules: str, layers_per_stage: int) -> Recompute:
    block = re.search(r"method=block num_layers=(\d+)", modules)
    if block:
        return Recompute(FULL.mask, min(int(block.group(1)), layers_per_stage))
    listed = re.search(r"full recompute layers per stage \[([\d,]+)\]", modules)
    if listed:
        most = max(int(number) for number in listed.group(1).split(","))
        return Recompute(FULL.mask, most, f"full recompute of {most} layers on every stage, the most of any")
    if "method=uniform" in modules and "num_layers=1" not in modules:
        return Recompute(FULL.mask, 0, "full recompute in chunks of several layers taken as layer by layer")
    return FULL


def _selective(run: Run, layers_per_stage: int) -> Recompute:
    if run.fsdp:
        layers = max(round(TORCHTITAN_SELECTIVE_FRAC * layers_per_stage), 1)
        return Recompute(
            FULL.mask, layers, "op-wise selective recompute taken as full recompute of 0.365 of the layers"
        )
    return Recompute(recompute_mask(("core_attn",)))
