#!/usr/bin/env python3
"""Figures of ``balance data`` and ``balance layers`` on generated, real and published inputs.

Run from anywhere: ``python scripts/bench_data_layers.py [--speed]``. Real lengths are read from
``../shared/traces`` where it is there. Rates of D: FLOP of a DeepSeek-V3-size model, 6 x 37.6e9 a token and
3 x 61 x 128 x (192 + 128) a squared token (causal). Item costs of P: ``tests/balance/layers/flop_items.py``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "balance" / "layers")]

from flop_items import MODELS  # noqa: E402

from autodeploy.balance.data import BatchShape, SampleCost, measure_imbalance, rearrange  # noqa: E402
from autodeploy.balance.data.lengths import split_overlong  # noqa: E402
from autodeploy.balance.layers import balance_layers  # noqa: E402

TRACE = ROOT.parent / "shared" / "traces" / "document_lengths.npz"
COST = SampleCost(alpha_s_per_token=6 * 37.6e9, beta_s_per_token2=3 * 61 * 128 * (192 + 128))
LOG_NORMAL = {8192: (600, 1.3), 131072: (4000, 1.5)}  # median tokens, sigma of the logarithm
PIPELINES = [
    ("pangu-ultra-moe-718b", 16, 2),
    ("deepseek-v3", 16, 1),
    ("deepseek-v3", 16, 2),
    ("deepseek-v3", 8, 4),
    ("llama-3.1-405b", 16, 1),
    ("llama-3.1-405b", 16, 2),
    ("llama-3.1-405b", 16, 8),
    ("llama-3.1-405b", 8, 4),
    ("qwen3-235b-a22b", 8, 2),
    ("qwen3-235b-a22b", 8, 4),
    ("qwen3-235b-a22b", 16, 3),
    ("qwen3-235b-a22b", 4, 3),
]


def log_normal(sequence_length: int, count: int, rng: np.random.Generator) -> np.ndarray:
    median, sigma = LOG_NORMAL[sequence_length]
    drawn = np.exp(rng.normal(np.log(median), sigma, count))
    return np.clip(drawn.astype(np.int64), 1, sequence_length)


def real(sequence_length: int, rng: np.random.Generator) -> np.ndarray:
    lengths = np.load(TRACE)["lengths"].astype(np.int64)
    rng.shuffle(lengths)
    return split_overlong(lengths, sequence_length)[0]


def data_table() -> None:
    print("D: 48 ranks, expert groups over 4; step of the groups / mean, rank sum / mean, step / max(mean, costliest)")
    print("packed: first-fit decreasing; alone: one document a micro-batch; free: documents may share a micro-batch")
    print(
        f"{'lengths':10} {'seq':>7} {'how':>7} {'a rank':>6} {'before':>8} {'after':>8} {'rank sum':>8} {'of bound':>8}"
    )
    for name in ("log-normal", "real") if TRACE.exists() else ("log-normal",):
        for sequence_length in LOG_NORMAL:
            rng = np.random.default_rng(0)
            lengths = log_normal(sequence_length, 400_000, rng) if name == "log-normal" else real(sequence_length, rng)
            for how in ("packed", "alone", "free"):
                for per_rank in (1, 2, 4, 8, 16, 32):
                    data_row(name, lengths, sequence_length, how, per_rank)


def data_row(name: str, lengths: np.ndarray, sequence_length: int, how: str, per_rank: int) -> None:
    shape = BatchShape(ranks=48, ep_ranks=4, micro_batches=per_rank, free_counts=how == "free")
    count = 48 * per_rank * 8
    if how == "packed":
        count = int(np.searchsorted(np.cumsum(lengths), count * sequence_length))
    plan = rearrange(lengths[:count], sequence_length, shape, COST, "ffd" if how == "packed" else "none")
    whole = slice(0, max(1, len(plan.order) - 1))  # the last batch may be part of one
    before = measure_imbalance(plan.order_before[whole], plan.cost_s, 4)
    after = measure_imbalance(plan.order[whole], plan.cost_s, 4)
    print(
        f"{name:10} {sequence_length:7d} {how:>7} {per_rank:6d} {before.coupled_over_mean:8.4f} "
        f"{after.coupled_over_mean:8.4f} {after.rank_sum_over_mean:8.4f} {after.coupled_over_bound:8.4f}"
    )


def speed_table() -> None:
    print("\nD: a million documents, seconds")
    for sequence_length in LOG_NORMAL:
        lengths = log_normal(sequence_length, 1_000_000, np.random.default_rng(0))
        for packing in ("none", "ffd"):
            for per_rank in (0, 8, 16):
                begin = time.perf_counter()
                rearrange(
                    lengths, sequence_length, BatchShape(ranks=48, ep_ranks=4, micro_batches=per_rank), COST, packing
                )
                print(f"{sequence_length:7d} {packing:5} {per_rank:3d} a rank: {time.perf_counter() - begin:.2f} s")


def layer_table() -> None:
    print("\nP: largest / mean, before (equal slots) and after; 8K sequences, costs from counted FLOP")
    for name, pp, vpp in PIPELINES:
        begin = time.perf_counter()
        plan = balance_layers(MODELS[name].items(), pp, vpp)
        took = time.perf_counter() - begin
        before, after = plan.before, plan.after
        print(
            f"{name:21} PP{pp} VPP{vpp}: rank {before.rank_imbalance:.4f} -> {after.rank_imbalance:.4f}, "
            f"chunk {before.chunk_imbalance:.3f} -> {after.chunk_imbalance:.3f}, "
            f"{'exact' if plan.exact else f'gap {plan.rank_gap_frac:.2%}'}, {took:.2f} s  {after.layout}"
        )


if __name__ == "__main__":
    data_table()
    layer_table()
    if "--speed" in sys.argv[1:]:
        speed_table()
