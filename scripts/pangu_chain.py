#!/usr/bin/env python3
"""The published claims on Pangu Ultra MoE 718B, one by one, from the event simulator; and Kimi K2 against its measurements.

    python scripts/pangu_chain.py [FOLDER OF TRACES] > docs/pangu.md

Every figure of the page is printed here. Without the traces (default ../shared/traces) the chain of EDPB is left out.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from pangu_case import (
    ADAPTIVE,
    BATCH,
    DEVICES,
    DP,
    EP,
    GIB,
    HARDWARE,
    MODEL,
    SEQ_LENGTH,
    SERIAL,
    batch_of,
    case_of,
    scaled_to_ep32,
    simulated,
    table,
    workload,
)
from pangu_tables import all_to_all_table, bubble_table, kimi_table, masking_table, memory_table

from autodeploy.balance.data import BatchShape, SampleCost, measure_imbalance, rearrange
from autodeploy.balance.data.lengths import split_overlong
from autodeploy.balance.experts import (
    Links,
    Task,
    Topology,
    card_loads,
    contiguous,
    max_over_mean,
    replay,
    shared_card_loads,
)
from autodeploy.balance.experts.replay import mean_max_over_mean
from autodeploy.errors import InputError
from autodeploy.one_strategy import price_one
from autodeploy.replay import simulate_strategy
from autodeploy.replay.balanced import options_for, stages_of
from autodeploy.replay.finalists import Finalist, Finals, find_finals, variants_of
from autodeploy.strategy.convert import batch_to_strategy
from autodeploy.strategy.layout import parse_layout
from cost_models.layer_price import FAMILY_INDEX
from cost_models.step import evaluate
from cost_models.step.group import price_table
from cost_models.strategies import StrategyBatch

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
PUBLISHED_TOTAL, PUBLISHED_EDPB = 1.726, 1.255
STARTS = (1.0, 1.2, 1.4, 1.6, 2.0)


@dataclass(frozen=True)
class Imbalance:
    """Largest over mean: of expert ranks at EP32, of data-parallel ranks as their expert groups meet."""

    source: str
    experts_before: float
    experts_after: float
    experts_split: float  # with the tokens of copies divided by a linear program in every step
    data_before: float
    data_after: float


def expert_figures(folder: Path, variant: str) -> tuple[float, float, float]:
    """Mean max/mean of 16 ranks: static, under our balancer, and with its copies' shares solved per step.

    One spare slot a rank; loads of ten steps together (one step of the trace routes 16 thousand choices, an expert group
    of Pangu half a million).
    """
    loads = np.load(folder / f"{variant}_loads.npz")["loads"].astype(float)
    loads = loads.reshape(-1, 10, *loads.shape[1:]).sum(axis=1)
    links = Links(bytes_per_expert=0.7e9, intra_bytes_per_s=196e9, inter_bytes_per_s=25e9)
    prices = price_table(case_of(workload(1.0)), batch_of(SERIAL)).prices
    directions = prices.forward_s + prices.backward_input_s + prices.backward_weight_s
    card_s = 48 * directions[0, 1, FAMILY_INDEX["experts"]]  # a card's work on the experts of one layer in one step
    task = Task(topology=Topology(nodes=2, cards_per_node=8), links=links, seconds_per_token=card_s / 1024)
    results = replay(loads, contiguous(7, 64, 16, 80), task, 10)
    plain = replay(loads, contiguous(7, 64, 16, 64), task, 10)["static"]
    split = max_over_mean(shared_card_loads(results["ours"].placement, loads[-len(loads) // 2 :], "step")).mean()
    even = max_over_mean(card_loads(results["ours"].placement, loads[-len(loads) // 2 :])).mean()
    ours = mean_max_over_mean(results["ours"], 10)
    return mean_max_over_mean(plain, 10), ours, 1 + (ours - 1) * float((split - 1) / (even - 1))


def data_figures(folder: Path, packing: str) -> tuple[float, float]:
    """Step of the expert groups over the mean, before and after, on the real document lengths; rates from the twin."""
    lengths = np.load(folder / "document_lengths.npz")["lengths"].astype(np.int64)
    np.random.default_rng(0).shuffle(lengths)
    lengths = split_overlong(lengths, SEQ_LENGTH)[0]
    count = int(np.searchsorted(np.cumsum(lengths), 2 * BATCH * SEQ_LENGTH)) if packing == "ffd" else 4 * BATCH
    prices = price_table(case_of(workload(1.0)), batch_of(SERIAL)).prices
    layer = (prices.forward_s + prices.backward_input_s + prices.backward_weight_s)[0, 1]  # a MoE layer, two sequences
    attention = layer[FAMILY_INDEX["attention"]]
    rates = SampleCost(alpha_s_per_token=(layer.sum() - attention) / 2 / SEQ_LENGTH,
                       beta_s_per_token2=attention / 2 / SEQ_LENGTH**2)  # fmt: skip
    shape = BatchShape(ranks=DP, ep_ranks=EP // 8, micro_batches=48, micro_batch=2)
    plan = rearrange(lengths[:count], SEQ_LENGTH, shape, rates, packing)
    whole = slice(0, max(1, len(plan.order) - 1))
    found = [measure_imbalance(order[whole], plan.cost_s, EP // 8) for order in (plan.order_before, plan.order)]
    return found[0].coupled_over_mean, found[1].coupled_over_mean


@dataclass(frozen=True)
class Placed:
    """What P found: layers alone as a back end writes them, and with recompute by stage; step seconds and words."""

    now_s: float
    layers_s: float
    layers: str
    by_stage_s: float
    by_stage: str


@cache
def placed(imbalance: float) -> Placed:
    """P under Adaptive Pipe, scored by the simulator, within the card's memory."""
    case, batch = case_of(workload(imbalance)), batch_of(ADAPTIVE)
    given = batch_to_strategy(batch)
    options = options_for(evaluate(case, batch, per_rank=True), case, batch, 4.0)
    options = replace(options, mtp_apart=True, before=stages_of(batch.layouts[0]))

    def make(recompute: tuple[str, ...], swap: float) -> StrategyBatch | None:
        try:
            changed = replace(given, recompute=recompute, recompute_layers=0, swap_frac=swap)
            return price_one(str(changed), case, DEVICES, "any")[0]
        except InputError:
            return None

    finals = find_finals(case, variants_of(case, batch, make), options, "any")
    fitting = [f for f in finals.finalists if f.fits]
    own = min((f for f in fitting if set(f.evaluated.placement.options) == {0}), key=lambda f: f.step_s)
    best = min(fitting, key=lambda f: f.step_s)
    return Placed(
        now_s=finals.start.step_s,
        layers_s=own.step_s,
        layers=_figures(own),
        by_stage_s=best.step_s,
        by_stage=f"{_figures(best)}; {_options(finals, best)}",
    )


def _figures(finalist: Finalist) -> str:
    found = finalist.evaluated
    return (
        f"`{found.layout}`, largest rank {found.rank_imbalance:.3f} x mean, largest chunk {found.chunk_imbalance:.3f} x"
    )


def _options(finals: Finals, finalist: Finalist) -> str:
    names = finals.plan.problem.items.options
    used = Counter(names[o] for o in finalist.evaluated.placement.options)
    return "stages by recompute: " + ", ".join(f"{count} {name}" for name, count in used.most_common())


def chain(given: Imbalance) -> list[tuple[str, float]]:
    """(what, step seconds). Uneven data makes every micro-batch wait for the slowest rank of its expert group."""
    before, after, split = given.experts_before, given.experts_after, given.experts_split
    found = placed(after)
    return [
        ("baseline", simulated(SERIAL, before).step_s * given.data_before),
        ("+ hierarchical + Adaptive Pipe", simulated(ADAPTIVE, before).step_s * given.data_before),
        ("+ E (experts, even shares)", simulated(ADAPTIVE, after).step_s * given.data_before),
        ("+ D (data): E and D without P", simulated(ADAPTIVE, after).step_s * given.data_after),
        ("+ P, layers alone", found.layers_s * given.data_after),
        ("+ P, recompute by stage too (prescribed)", found.by_stage_s * given.data_after),
        ("+ shares of copies solved per step (prescribed)", placed(split).by_stage_s * given.data_after),
    ]


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
              f"one spare slot a rank, {measured[2]:.3f} with its copies' shares solved per step.")  # fmt: skip
        cases.append(Imbalance(f"Routing as `{variant}`", *(scaled_to_ep32(m) for m in measured), *packed))
    for case in cases:
        print(f"\n### {case.source}\n\nExpert ranks at EP32: {case.experts_before:.3f} -> {case.experts_after:.3f} x mean "
              f"({case.experts_split:.3f} with solved shares); data-parallel ranks {case.data_before:.3f} -> "
              f"{case.data_after:.3f}.\n")  # fmt: skip
        steps = chain(case)
        base, masked, last = steps[0][1], steps[1][1], steps[-1][1]
        tokens = BATCH * SEQ_LENGTH / 1e6
        table("| step s | M tokens/s | over the one before | over the baseline",
              [[name, f"{s:.2f}", f"{tokens / s:.2f}", f"{100 * (steps[max(i - 1, 0)][1] / s - 1):+.1f}%",
                f"{100 * (base / s - 1):+.1f}%"] for i, (name, s) in enumerate(steps)])  # fmt: skip
        without, launchable = steps[3][1], steps[4][1]
        rows = [("hierarchical + Adaptive Pipe", base / masked, PUBLISHED_TOTAL / PUBLISHED_EDPB),
                ("EDPB on top, E and D without P", masked / without, PUBLISHED_EDPB),
                ("EDPB on top, with what back ends can write", masked / launchable, PUBLISHED_EDPB),
                ("EDPB on top, all that is prescribed", masked / last, PUBLISHED_EDPB),
                ("all, with what back ends can write", base / launchable, PUBLISHED_TOTAL),
                ("all that is prescribed", base / last, PUBLISHED_TOTAL)]  # fmt: skip
        table("| here | published", [[n, f"{100 * (h - 1):+.1f}%", f"{100 * (p - 1):+.1f}%"] for n, h, p in rows])
    explain_layers(cases[0].experts_after)
    brackets(cases[0])


def explain_layers(imbalance: float) -> None:
    """Why P gains what it does: the same layouts without overlap, and what they weigh."""
    found = placed(imbalance)
    print("\n### Where the gain of P comes from\n")
    rows = [["now", ADAPTIVE.split("/")[-1], f"{found.now_s:.2f}"], ["layers alone", found.layers, f"{found.layers_s:.2f}"],
            ["recompute by stage", found.by_stage, f"{found.by_stage_s:.2f}"]]  # fmt: skip
    table("| layout | step s under Adaptive Pipe", rows)
    case, batch = case_of(workload(imbalance)), batch_of(ADAPTIVE)
    lines = []
    for text in ("Et*3|(tt|)*29,m|L", found.layers.split("`")[1]):
        layout = parse_layout(text, MODEL, 16, 2)
        seconds = []
        for strategy in (batch, batch_of(SERIAL)):
            own = replace(strategy, layout=np.zeros(1, dtype=np.int64), layouts=(layout,))
            price = evaluate(case, own)
            seconds.append((simulate_strategy(case, own).step_s, float(price.peak_reserved_bytes[0]) / GIB))
        lines.append([f"`{text}`", f"{seconds[0][0]:.2f}", f"{seconds[1][0]:.2f}", f"{seconds[0][1]:.1f}"])
    usable = HARDWARE.usable_bytes / GIB
    table(f"| Adaptive Pipe, s | serial, s | peak GiB of {usable:.2f} usable", lines)


def brackets(case: Imbalance) -> None:
    """The chain from other start imbalances of the expert ranks, E ending where it ended."""
    print("\n### From which start imbalance\n")
    rows = []
    for start in STARTS:
        moved = replace(case, experts_before=start, experts_after=min(start, case.experts_after),
                        experts_split=min(start, case.experts_split))  # fmt: skip
        steps = [seconds for _, seconds in chain(moved)]
        gains = (
            steps[0] / steps[1],
            steps[1] / steps[3],
            steps[1] / steps[4],
            steps[0] / steps[4],
            steps[0] / steps[6],
        )
        rows.append([f"{start:.2f}", *(f"{100 * (gain - 1):+.1f}%" for gain in gains)])
    head = "expert ranks before, x mean | masking | E and D | E, D and P (writable) | all, writable | all that is prescribed"
    table(head, rows)
    print("Published: +37.5% masking, +25.5% EDPB, +72.6% in all.\n")


def needed_imbalance() -> None:
    """What would have to be true for each published figure."""

    def start_for(gain: float, of: Callable[[float], float]) -> str:
        low, high = 1.0, 4.0
        if of(low) >= gain:
            return "any: reached at 1.00 already"
        for _ in range(14):
            middle = (low + high) / 2
            low, high = (middle, high) if of(middle) < gain else (low, middle)
        return f"{high:.2f} x mean" if high < 3.99 else "none up to 4"

    flat = simulated(ADAPTIVE, 1.0).step_s
    found = placed(1.0)
    serial = cache(lambda x: simulated(SERIAL, x).step_s)
    masked = cache(lambda x: simulated(ADAPTIVE, x).step_s)
    total = PUBLISHED_TOTAL
    rows = [
        ["+37.5% by masking", start_for(total / PUBLISHED_EDPB, lambda x: serial(x) / masked(x))],
        ["+25.5% by E alone, ending at 1.0", start_for(PUBLISHED_EDPB, lambda x: masked(x) / flat)],
        ["+25.5% by E and P (layers alone), ending at 1.0", start_for(PUBLISHED_EDPB, lambda x: masked(x) / found.layers_s)],
        ["+25.5% by E and P (recompute by stage), ending at 1.0",
         start_for(PUBLISHED_EDPB, lambda x: masked(x) / found.by_stage_s)],
        ["+72.6% in all with E alone", start_for(total, lambda x: serial(x) / flat)],
        ["+72.6% in all with E and P (layers alone)", start_for(total, lambda x: serial(x) / found.layers_s)],
        ["+72.6% in all with E and P (recompute by stage)", start_for(total, lambda x: serial(x) / found.by_stage_s)],
    ]  # fmt: skip
    print("\n## What would have to be true\n")
    table("published figure | start imbalance of the expert ranks at which the twin gives it", rows)


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
  Pangu trains, E alone brings little, since little imbalance is left that the past predicts. P gains by the largest *chunk*, not
  by the rank sum, which stays as it is: under Adaptive Pipe two chunks run side by side, and the longest one sets the pace. The
  longest is the one that holds the MTP module and the head; `Et*3|(tt|)*29,m|L` puts them apart, which Megatron's layout can
  write and MindSpeed's no-op slots cannot. An earlier page had +12.9% for it (+58.5% in all): its first rank, with three layers
  of full activations, is now priced above what the card leaves (the table says by how much), so that it counts only with more
  recompute on that rank, and no back end has an argument for recompute by stage: those rows are prescriptions.
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
