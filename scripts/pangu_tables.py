"""Tables of the published claims on communication and memory, and of Kimi K2. Used by pangu_chain.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pangu_case import (
    ADAPTIVE,
    BATCH,
    CORE,
    DEVICES,
    DP,
    EP,
    GIB,
    HARDWARE,
    MODEL,
    RECOMPUTE,
    SEQ_LENGTH,
    SERIAL,
    VARIANTS,
    batch_of,
    case_of,
    percent,
    scaled_to_ep32,
    simulated,
    table,
    workload,
)

from autodeploy.accuracy.cases import build_cases
from autodeploy.accuracy.loader import read_runs
from autodeploy.replay import simulate_strategy, simulated_step_s
from autodeploy.schedule import PipelineShape, build_schedule
from autodeploy.strategy.convert import batch_to_strategy
from cost_models.communication import copies_between_nodes, dispatch_s
from cost_models.step import evaluate
from cost_models.strategies import DISPATCHER_CODE

KIMI = ("kimi-k2-1t-a3-512die", "kimi-k2-1t-a3-768die", "kimi-k2-1t-a3-1024die")


def masking_table(imbalance: float) -> None:
    print("\n## Expert communication masked, and what it brings\n")
    print(f"`{CORE}/{RECOMPUTE}`, {DEVICES} cards, sequence {SEQ_LENGTH}, batch {BATCH}: 48 micro-batches. Load of an "
          f"expert rank {imbalance:.3f} x mean (the profile's default at EP32).\n")  # fmt: skip
    base = simulated(SERIAL, imbalance).step_s
    rows = []
    for name, text in VARIANTS.items():
        step = simulated(text, imbalance)
        compute = step.result.busy_s[0, :, 0].mean() / step.result.pipeline_s[0]
        rows.append([
            name, f"{step.step_s:.2f}", f"{100 * (base / step.step_s - 1):+.1f}%", f"{step.ep_s / 16:.2f}",
            percent(step.masked_frac), percent(step.steady_masked_frac), percent(compute), step.result.lane_order[0],
        ])  # fmt: skip
    table("| step s | over the baseline | EP s a rank | masked, whole | masked, steady | compute lane busy | lane order",
          rows)  # fmt: skip
    schedule = build_schedule("adaptive-pipe", PipelineShape(pp=16, vpp=2, micro_batches=48))
    pairs = sum(1 for order in schedule.orders for slot in order if len(slot) == 2 and slot[0][0] != slot[1][0])
    total = sum(1 for order in schedule.orders for slot in order for op in slot if op[0] == 0)
    print(f"Forward chunks that are paired with a backward: {pairs} of {total} ({100 * pairs / total:.1f}%). The rest is "
          "warm-up. Of the two micro-batches of one direction that Adaptive Pipe may run side by side there, the simulator "
          "makes use only where that is faster; with groups of PP micro-batches it is not.\n")  # fmt: skip


def bubble_table(imbalance: float) -> None:
    """The gain of masking, with the bubble that stays whatever is masked."""
    print("\n### How many micro-batches it takes\n")
    rows = []
    for batch in (3072, 4608, 9216, 18432):
        given = replace(workload(imbalance), global_batch=batch)
        base, both = (float(simulated_step_s(case_of(given), batch_of(t))[0]) for t in (SERIAL, ADAPTIVE))
        cost = evaluate(case_of(given), batch_of(SERIAL))
        rows.append([str(batch), str(batch // 2 // DP), percent(float(cost.bubble_s[0] / cost.step_s[0])),
                     f"{100 * (base / both - 1):+.1f}%"])  # fmt: skip
    table("batch | micro-batches | bubble of the baseline | hierarchical + Adaptive Pipe over it", rows)


def all_to_all_table() -> None:
    print("\n## Hierarchical against flat all-to-all\n")
    ffn = next(kind.feed_forward for kind in MODEL.kinds if kind.feed_forward and kind.feed_forward.is_moe)
    tokens = 2 * SEQ_LENGTH / 8
    size, ep, stride = (np.array([value]) for value in (tokens * ffn.top_k * MODEL.hidden * 2.0, float(EP), 1.0))
    nodes = np.array([EP / 8])
    sent = {
        "alltoall": ffn.top_k * (1 - 1 / nodes[0]),
        "hierarchical-allgather": nodes[0] - 1,
        "hierarchical-dedup": float(copies_between_nodes(nodes, ffn.experts, ffn.top_k)[0]),
    }
    rows, flat = [], 0.0
    for name, copies in sent.items():
        for chunks in (1, 4) if name != "alltoall" else (1,):
            stack = replace(HARDWARE.stack, hierarchical_chunks=chunks)
            code = np.array([DISPATCHER_CODE[name]])
            total, intra, inter = (float(s[0]) for s in dispatch_s(size, ep, stride, code, ffn, HARDWARE, stack))
            flat = flat or total
            rows.append([name + (f", pipelined in {chunks}" if chunks > 1 else ""), f"{copies:.2f}",
                         f"{sent['alltoall'] / copies:.2f}x", f"{inter * 1e3:.2f}", f"{intra * 1e3:.2f}",
                         f"{total * 1e3:.2f}", f"{flat / total:.2f}x"])  # fmt: skip
    print(f"One dispatch of {tokens:.0f} tokens a card, top-{ffn.top_k}, EP{EP} over {EP // 8} nodes, balanced.\n")
    table("| copies of a token between nodes | bytes: flat over it | between nodes ms | inside ms | together ms "
          "| time: flat over it", rows)  # fmt: skip


def memory_table() -> None:
    print("\n## Memory: Adaptive Pipe against DualPipe\n")
    print("Fullest rank, GiB; activations as the simulator's replay of allocations counts them.\n")
    rows, totals = [], []
    for name in ("no overlap, flat (baseline)", "Adaptive Pipe, hierarchical (all-gather)", "DualPipeV, hierarchical",
                 "DualPipe, hierarchical"):  # fmt: skip
        batch, given = batch_of(VARIANTS[name]), workload(scaled_to_ep32(HARDWARE.expert_imbalance))
        causes = evaluate(case_of(given), batch, per_rank=True).rank_memory_bytes
        replayed = simulate_strategy(case_of(given), batch, events=False).result.peak_activation_bytes
        parts = {cause: size[0] / GIB for cause, size in causes.items()} | {"activations": replayed[0] / GIB}
        total = sum(parts.values())
        rank = int(np.argmax(total))
        own = [parts[cause][rank] for cause in ("weights", "gradients", "optimizer", "activations")]
        totals.append(float(total[rank]))
        rows.append([name, str(rank), *(f"{part:.1f}" for part in own), f"{total[rank] - sum(own):.1f}",
                     f"{total[rank]:.1f}", f"{parts['weights'].max():.1f}"])  # fmt: skip
    table("| rank | weights | gradients | optimizer | activations | rest | total | most weights of any rank", rows)
    print(f"Adaptive Pipe over DualPipe: {totals[1] / totals[3]:.2f} in total. The weights (and gradient buffers) do halve; the "
          "activations do not: with VPP2 rank 0 holds 2(p-1) + G + 2 = 48 chunks of half a stage, 24 stages' worth, where "
          "DualPipe holds p + 1 = 17. The total halves only where the weights weigh most, which at 6,144 cards with EP32 they do "
          "not.\n")  # fmt: skip


def kimi_table() -> None:
    print("\n## Kimi K2 (1T) on Ascend 910C dies\n")
    runs = read_runs()
    cases = build_cases(runs, [run for run in runs.runs if run.id in KIMI]).cases
    rows = []
    for case in sorted(cases, key=lambda case: case.run.num_devices):
        batch = case.batch.take(slice(0, 1))
        step, measured = simulate_strategy(case.case, batch), case.run.step_time_s
        plain = simulate_strategy(case.case, replace(batch, ep_overlap=np.zeros(1, dtype=bool)), events=False).step_s
        closed = float(evaluate(case.case, batch).step_s[0])
        rows.append([str(case.run.num_devices), f"`{batch_to_strategy(batch)}`", f"{measured:.2f}", f"{step.step_s:.2f}",
                     f"{100 * (step.step_s / measured - 1):+.1f}%", f"{closed:.2f}", percent(step.masked_frac),
                     percent(step.steady_masked_frac), f"{100 * (plain / step.step_s - 1):+.1f}%"])  # fmt: skip
    table("dies | strategy | measured s | simulated s | error | closed form s | EP masked, whole | steady "
          "| what the overlap brings", rows)  # fmt: skip
    print("The 512-die run overlaps inside a micro-batch (`moe-alltoall-overlap-comm`, plain 1F1B), so that there is no paired "
          "phase; the two others pair a forward with a backward (DualPipeV). The training constants of the profile were fitted "
          "to runs that include these three.\n")  # fmt: skip
