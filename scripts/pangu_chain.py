#!/usr/bin/env python3
"""The published claims on Pangu Ultra MoE 718B, one by one, from the event simulator; and Kimi K2 against its measurements.

    python scripts/pangu_chain.py [FOLDER OF TRACES] > docs/pangu.md

Every figure of the page is printed here. Without the traces (default ../shared/traces) the chain of EDPB is left out.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from autodeploy.accuracy.cases import build_cases
from autodeploy.accuracy.loader import read_runs
from autodeploy.balance.data import BatchShape, SampleCost, measure_imbalance, rearrange
from autodeploy.balance.data.lengths import split_overlong
from autodeploy.balance.experts import Links, Task, Topology, contiguous, replay
from autodeploy.balance.experts.replay import mean_max_over_mean
from autodeploy.hardware import load_hardware
from autodeploy.models import load_model
from autodeploy.schedule import PipelineShape, build_schedule
from autodeploy.strategy.convert import batch_to_strategy, strategy_to_batch
from autodeploy.strategy.notation import parse_strategy
from autodeploy.twin import SimulatedStep, simulate_strategy, simulated_step_s
from autodeploy.twin.balanced import balanced
from autodeploy.twin.prices import price_table
from cost_models.communication import copies_between_nodes, dispatch_s
from cost_models.imbalance import rank_imbalance
from cost_models.inputs import Workload
from cost_models.layer_price import FAMILY_INDEX
from cost_models.step import evaluate
from cost_models.strategies import DISPATCHER_CODE, StrategyBatch

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
GIB = 2**30
DEVICES, SEQ_LENGTH, BATCH, EP, DP = 6144, 8192, 4608, 32, 48
MODEL, HARDWARE = load_model("pangu-ultra-moe-718b"), load_hardware("atlas-800t-a2")
CORE, RECOMPUTE = "TP8/PP16/VPP2/EP32/MBS2", "selective(mla_up_proj,layernorm,moe)"
PLACED = "layout(noop:61,62,63)"
SERIAL, HIERARCHICAL = f"{CORE}/{RECOMPUTE}/{PLACED}", f"{CORE}/{RECOMPUTE}/hierarchical-allgather/{PLACED}"
ADAPTIVE = f"{CORE}/{RECOMPUTE}/adaptive-pipe/hierarchical-allgather/{PLACED}"
VARIANTS = {
    "no overlap, flat (baseline)": SERIAL,
    "no overlap, hierarchical": HIERARCHICAL,
    "Adaptive Pipe, flat": f"{CORE}/{RECOMPUTE}/adaptive-pipe/{PLACED}",
    "Adaptive Pipe, hierarchical (all-gather)": ADAPTIVE,
    "Adaptive Pipe, hierarchical (de-duplicated)": ADAPTIVE.replace("allgather", "dedup"),
    "DualPipeV, flat": f"{CORE}/{RECOMPUTE}/dualpipev/ep-overlap",
    "DualPipeV, hierarchical": f"{CORE}/{RECOMPUTE}/dualpipev/ep-overlap/hierarchical-allgather",
    "DualPipe, flat": f"TP8/PP16/EP32/MBS2/{RECOMPUTE}/dualpipe/ep-overlap",
    "DualPipe, hierarchical": f"TP8/PP16/EP32/MBS2/{RECOMPUTE}/dualpipe/ep-overlap/hierarchical-allgather",
}
PUBLISHED_TOTAL, PUBLISHED_EDPB = 1.726, 1.255
KIMI = ("kimi-k2-1t-a3-512die", "kimi-k2-1t-a3-768die", "kimi-k2-1t-a3-1024die")


@dataclass(frozen=True)
class Imbalance:
    """Largest over mean: of expert ranks at EP32, of data-parallel ranks as their expert groups meet."""

    source: str
    experts_before: float
    experts_after: float
    data_before: float
    data_after: float


@cache
def workload(imbalance: float, chunks: int = 1) -> Workload:
    """A stated imbalance of the expert ranks; `chunks` > 1 pipelines the two steps of a hierarchical all-to-all."""
    stack = replace(HARDWARE.stack, hierarchical_chunks=chunks)
    return Workload(seq_length=SEQ_LENGTH, global_batch=BATCH, stack=stack, expert_imbalance=imbalance)


def batch_of(text: str) -> StrategyBatch:
    return strategy_to_batch(parse_strategy(text), MODEL, DEVICES, "any")


def simulated(text: str, imbalance: float, chunks: int = 1) -> SimulatedStep:
    return simulate_strategy(MODEL, HARDWARE, workload(imbalance, chunks), batch_of(text))


def scaled_to_ep32(of_16_ranks: float) -> float:
    """Of 16 ranks of 4 experts each -> of 32 ranks of 8, by the rule of `cost_models.imbalance`."""
    asked = Workload(seq_length=1, global_batch=1, expert_imbalance=of_16_ranks, imbalance_by_ep=True)
    return float(rank_imbalance(asked, 256.0, np.array([float(EP)]))[0])


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def table(head: str, rows: list[list[str]]) -> None:
    names = [name.strip() for name in head.split("|")]
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for row in rows:
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    print()


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
        base, both = (float(simulated_step_s(MODEL, HARDWARE, given, batch_of(t))[0]) for t in (SERIAL, ADAPTIVE))
        cost = evaluate(MODEL, HARDWARE, given, batch_of(SERIAL))
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
        causes = evaluate(MODEL, HARDWARE, given, batch, per_rank=True).rank_memory_bytes
        replayed = simulate_strategy(MODEL, HARDWARE, given, batch, events=False).result.peak_activation_bytes
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


def expert_figures(folder: Path, variant: str) -> tuple[float, float]:
    """Mean max/mean of 16 ranks, static and under our balancer: one spare slot a rank, loads of ten steps together (one
    step of the trace routes 16 thousand choices, an expert group of Pangu half a million)."""
    loads = np.load(folder / f"{variant}_loads.npz")["loads"].astype(float)
    loads = loads.reshape(-1, 10, *loads.shape[1:]).sum(axis=1)
    links = Links(bytes_per_expert=0.7e9, intra_bytes_per_s=196e9, inter_bytes_per_s=25e9)
    prices = price_table(MODEL, HARDWARE, workload(1.0), batch_of(SERIAL)).prices
    directions = prices.forward_s + prices.backward_input_s + prices.backward_weight_s
    card_s = 48 * directions[0, 1, FAMILY_INDEX["experts"]]  # a card's work on the experts of one layer in one step
    task = Task(topology=Topology(nodes=2, cards_per_node=8), links=links, seconds_per_token=card_s / 1024)
    results = replay(loads, contiguous(7, 64, 16, 80), task, 10)
    plain = replay(loads, contiguous(7, 64, 16, 64), task, 10)["static"]
    return mean_max_over_mean(plain, 10), mean_max_over_mean(results["ours"], 10)


def data_figures(folder: Path, packing: str) -> tuple[float, float]:
    """Step of the expert groups over the mean, before and after, on the real document lengths; rates from the twin."""
    lengths = np.load(folder / "document_lengths.npz")["lengths"].astype(np.int64)
    np.random.default_rng(0).shuffle(lengths)
    lengths = split_overlong(lengths, SEQ_LENGTH)[0]
    count = int(np.searchsorted(np.cumsum(lengths), 2 * BATCH * SEQ_LENGTH)) if packing == "ffd" else 4 * BATCH
    prices = price_table(MODEL, HARDWARE, workload(1.0), batch_of(SERIAL)).prices
    layer = (prices.forward_s + prices.backward_input_s + prices.backward_weight_s)[0, 1]  # a MoE layer, two sequences
    attention = layer[FAMILY_INDEX["attention"]]
    rates = SampleCost(alpha_s_per_token=(layer.sum() - attention) / 2 / SEQ_LENGTH,
                       beta_s_per_token2=attention / 2 / SEQ_LENGTH**2)  # fmt: skip
    shape = BatchShape(ranks=DP, ep_ranks=EP // 8, micro_batches=48, micro_batch=2)
    plan = rearrange(lengths[:count], SEQ_LENGTH, shape, rates, packing)
    whole = slice(0, max(1, len(plan.order) - 1))
    found = [measure_imbalance(order[whole], plan.cost_s, EP // 8) for order in (plan.order_before, plan.order)]
    return found[0].coupled_over_mean, found[1].coupled_over_mean


def chain(given: Imbalance) -> list[tuple[str, float]]:
    """(what, step seconds). Uneven data makes every micro-batch wait for the slowest rank of its expert group."""
    before, after = given.experts_before, given.experts_after
    found = balanced(MODEL, HARDWARE, workload(after), batch_of(ADAPTIVE), "any", time_limit_s=2.0)
    steps = [
        ("baseline", simulated(SERIAL, before).step_s * given.data_before),
        ("+ hierarchical + Adaptive Pipe", simulated(ADAPTIVE, before).step_s * given.data_before),
        ("+ E (experts)", simulated(ADAPTIVE, after).step_s * given.data_before),
        ("+ D (data)", simulated(ADAPTIVE, after).step_s * given.data_after),
    ]
    if found is not None:
        layout = batch_to_strategy(found).layout
        seconds = simulate_strategy(MODEL, HARDWARE, workload(after), found).step_s * given.data_after
        steps.append((f"+ P (layers: `{layout}`)", seconds))
    return steps


def chain_tables(folder: Path) -> None:
    print("\n## The whole chain\n")
    packed, alone = data_figures(folder, "ffd"), data_figures(folder, "none")
    print(
        f"- D, real document lengths, {DP} ranks in expert groups of {EP // 8}, 48 micro-batches of two: slowest group over "
        f"the mean {packed[0]:.3f} -> {packed[1]:.3f} where documents are packed to 8K and attend inside themselves. One "
        f"document a sequence, neither packed nor padded, it would be {alone[0]:.2f} -> {alone[1]:.3f}; nobody pre-trains "
        "so at 8K."
    )
    cases = []
    for variant in ("aux_loss", "no_balancing"):
        measured = expert_figures(folder, variant)
        print(f"- E, `{variant}` routing of the traces, 16 ranks, ten steps together: {measured[0]:.3f} -> {measured[1]:.3f} with "
              "one spare slot a rank.")  # fmt: skip
        cases.append(Imbalance(f"Routing as `{variant}`", *(scaled_to_ep32(m) for m in measured), *packed))
    for case in cases:
        print(f"\n### {case.source}\n\nExpert ranks at EP32: {case.experts_before:.3f} -> {case.experts_after:.3f} x mean; "
              f"data-parallel ranks {case.data_before:.3f} -> {case.data_after:.3f}.\n")  # fmt: skip
        steps = chain(case)
        base, masked, last = steps[0][1], steps[1][1], steps[-1][1]
        tokens = BATCH * SEQ_LENGTH / 1e6
        table("| step s | M tokens/s | over the one before | over the baseline",
              [[name, f"{s:.2f}", f"{tokens / s:.2f}", f"{100 * (steps[max(i - 1, 0)][1] / s - 1):+.1f}%",
                f"{100 * (base / s - 1):+.1f}%"] for i, (name, s) in enumerate(steps)])  # fmt: skip
        table("| here | published",
              [["hierarchical + Adaptive Pipe", f"{100 * (base / masked - 1):+.1f}%",
                f"{100 * (PUBLISHED_TOTAL / PUBLISHED_EDPB - 1):+.1f}%"],
               ["EDPB on top", f"{100 * (masked / last - 1):+.1f}%", f"{100 * (PUBLISHED_EDPB - 1):+.1f}%"],
               ["all", f"{100 * (base / last - 1):+.1f}%", f"{100 * (PUBLISHED_TOTAL - 1):+.1f}%"]])  # fmt: skip


def needed_imbalance() -> None:
    """The imbalance of expert ranks that E alone would have to remove for the published gain of EDPB."""
    flat = simulated(ADAPTIVE, 1.0).step_s
    low, high = 1.0, 4.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if simulated(ADAPTIVE, middle).step_s / flat < PUBLISHED_EDPB else (low, middle)
    print(f"\nFor +25.5% by E alone the expert ranks would have to go from {high:.2f} x mean to 1.0.\n")


def kimi_table() -> None:
    print("\n## Kimi K2 (1T) on Ascend 910C dies\n")
    runs = read_runs()
    cases = build_cases(runs, [run for run in runs.runs if run.id in KIMI]).cases
    rows = []
    for case in sorted(cases, key=lambda case: case.run.num_devices):
        batch = case.batch.take(slice(0, 1))
        given = (case.model, case.hardware, case.workload)
        step, measured = simulate_strategy(*given, batch), case.run.step_time_s
        plain = simulate_strategy(*given, replace(batch, ep_overlap=np.zeros(1, dtype=bool)), events=False).step_s
        closed = float(evaluate(*given, batch).step_s[0])
        rows.append([str(case.run.num_devices), f"`{batch_to_strategy(batch)}`", f"{measured:.2f}", f"{step.step_s:.2f}",
                     f"{100 * (step.step_s / measured - 1):+.1f}%", f"{closed:.2f}", percent(step.masked_frac),
                     percent(step.steady_masked_frac), f"{100 * (plain / step.step_s - 1):+.1f}%"])  # fmt: skip
    table("dies | strategy | measured s | simulated s | error | closed form s | EP masked, whole | steady "
          "| what the overlap brings", rows)  # fmt: skip
    print("The 512-die run overlaps inside a micro-batch (`moe-alltoall-overlap-comm`, plain 1F1B), so that there is no paired "
          "phase; the two others pair a forward with a backward (DualPipeV). The training constants of the profile were fitted "
          "to runs that include these three.\n")  # fmt: skip


def why() -> None:
    """What the tables above leave to say."""
    low, high = (simulated(t, scaled_to_ep32(HARDWARE.expert_imbalance)).step_s for t in (SERIAL, ADAPTIVE))
    tokens = BATCH * SEQ_LENGTH / 1e6
    print(f"""
## Where the twin and the claims differ, and why

- **Throughput.** Published: 0.61 M tokens/s on 4K cards before, 1.46 M on 6K after. Here, on {DEVICES} cards:
  {tokens / low:.2f} M serial ({tokens / low * 4096 / DEVICES:.2f} M on 4,096 cards in proportion), {tokens / high:.2f} M masked.
  The published gain holds other steps too (fused operators, finer recompute, tensor swap) that are in neither of our rows.
- **+37.5%** is 1.726 / 1.255 of two published figures. It depends on the batch, which is not published, less than on how much
  a dispatch costs: the recomputed expert module dispatches a third time here, and that is hidden as well.
- **2x by hierarchical all-to-all** is the count of bytes between nodes. In time the step inside the node comes on top when the
  two run in series; pipelined in pieces most of it goes away.
- **98% masked** holds in the steady phase. Over the whole step the warm-up and cool-down stay: a third of the forward chunks
  have no backward beside them.
- **+25.5% by EDPB** cannot be derived without the imbalance it started from, which is not published. With an auxiliary loss, as
  Pangu trains, E alone brings little, since little imbalance is left that the past predicts; the layers (P) bring most. The
  no-op layers of the default layout leave the MTP module and the head on one rank: P puts them apart,
  which Megatron's layout can write and MindSpeed's no-op slots cannot.
- **D** brings a few percent on packed 8K sequences, because most of a token's cost does not depend on its document.
- **DualPipe(V)** is faster here than Adaptive Pipe at the same micro-batches, by its smaller bubble; DualPipe pays with a second
  copy of the weights, DualPipeV needs the head on rank 0.
""")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else TRACES
    imbalance = scaled_to_ep32(HARDWARE.expert_imbalance)
    print("# Pangu Ultra MoE 718B: the published claims against the twin\n")
    print("Printed by `python scripts/pangu_chain.py > docs/pangu.md`: every figure is the event simulator's on the shipped "
          "profiles, none is fitted to a claim.")  # fmt: skip
    masking_table(imbalance)
    bubble_table(imbalance)
    all_to_all_table()
    memory_table()
    if folder.is_dir():
        chain_tables(folder)
    needed_imbalance()
    kimi_table()
    why()


if __name__ == "__main__":
    main()
