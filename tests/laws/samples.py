"""Random valid strategies of small cases: what the laws of the price are tried on."""

from __future__ import annotations

import random
from functools import cache

import numpy as np

from autodeploy.hardware import load_hardware
from autodeploy.models import load_model
from autodeploy.search.candidates import compact_layouts
from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.notation import parse_strategy
from autodeploy.strategy.rules import check
from cost_models.case import Case
from cost_models.errors import ConfigError
from cost_models.inputs import Workload
from cost_models.strategies import StrategyBatch

# model, profile, cards, global batch, sequence length
CASES = {
    "mixtral-8x7b": ("h100-sxm", 64, 256, 4096),
    "deepseek-v2-lite": ("atlas-800t-a2", 64, 256, 4096),
    "llama-3-8b": ("h100-sxm", 32, 128, 8192),
    "gpt-oss-20b": ("mi300x", 32, 128, 4096),
}
WAYS = (
    "", "", "", "gpipe", "zb-h1", "zb-1p", "zb-2p", "zb-v", "zb-v-half", "dualpipe", "dualpipev", "adaptive-pipe",
    "adaptive-pipe",
)  # fmt: skip
RECOMPUTES = (
    "", "", "full", "full(1)", "selective(layernorm,moe)", "selective(moe_act)", "selective(moe)", "selective(mlp)",
    "selective(core_attn)", "selective(mla_up_proj,layernorm)",
)  # fmt: skip

DEFAULTS = {"VPP1", "CP1", "EP1", "ETP1", "MBS1", "ZeRO1", ""}


@cache
def case(name: str) -> Case:
    profile, _, batch, sequence = CASES[name]
    hardware = load_hardware(profile)
    workload = Workload(
        seq_length=sequence,
        global_batch=batch,
        expert_imbalance=max(hardware.expert_imbalance, 1.0),
        imbalance_by_ep=True,
        stack=hardware.stack,
    )
    return Case(model=load_model(name), hardware=hardware, workload=workload)


def core_of(rng: random.Random, moe: bool) -> list[str]:
    """TP to ETP and the schedule: what strategies must share to be replayed as one batch."""
    way = rng.choice(WAYS)
    vpp = 2 if way in ("zb-v", "zb-v-half", "dualpipev") or rng.random() < 0.3 else 1
    parts = [f"TP{rng.choice((1, 1, 2, 4, 8))}", f"PP{rng.choice((1, 2, 4, 4, 8))}", f"VPP{vpp}"]
    parts += [f"CP{rng.choice((1, 1, 1, 2))}"]
    parts += [f"EP{rng.choice((1, 2, 4, 8))}", f"ETP{rng.choice((1, 1, 2))}"] if moe else []
    overlaps = moe and way not in ("adaptive-pipe",) and rng.random() < 0.4
    return [*parts, f"MBS{rng.choice((1, 1, 2))}", way, "ep-overlap" if overlaps else ""]


def options_of(rng: random.Random, moe: bool) -> list[str]:
    parts = [f"ZeRO{rng.choice((1, 1, 1, 2, 3))}", rng.choice(RECOMPUTES)]
    parts += [rng.choice(("", "", "hierarchical-dedup", "hierarchical-allgather", "allgather"))] if moe else []
    return [*parts, rng.choice(("", "", "", "offload0.5", "swap0.5"))]


@cache
def strategies(
    name: str, count: int, seed: int, backend: str = "any", per_core: int = 5
) -> list[tuple[str, StrategyBatch]]:
    """``count`` different valid strategies of a case, each as text and as a batch of one; some ``per_core`` share a core."""
    given = case(name)
    model, hardware, workload = given.model, given.hardware, given.workload
    moe = any(kind.feed_forward is not None and kind.feed_forward.is_moe for kind in model.kinds)
    devices, rng = CASES[name][1], random.Random(f"{name} {seed}")
    found: dict[str, StrategyBatch] = {}
    for _ in range(100 * count):
        core = core_of(rng, moe)
        for _ in range(per_core):
            parts = core + options_of(rng, moe)
            text = "/".join(part for part in parts if part not in DEFAULTS)
            try:
                batch = strategy_to_batch(parse_strategy(text), model, devices, backend)
            except ConfigError:
                continue
            sequences = int(batch.micro_batch[0] * batch.dp[0])
            broken = check(model, hardware, workload, batch, backend, devices=devices)[0]
            if not broken and workload.global_batch % sequences == 0:
                found[text] = batch
            if len(found) == count:
                return list(found.items())
    return list(found.items())


def together(batches: list[StrategyBatch]) -> StrategyBatch:
    """One batch; equal layouts are one, as in a search."""
    return compact_layouts(StrategyBatch.concatenate(batches))


def apart(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Relative difference, 0 where both are nan."""
    both = np.isnan(left) & np.isnan(right)
    return np.where(both, 0.0, np.abs(left - right) / np.maximum(np.abs(right), 1e-30))
