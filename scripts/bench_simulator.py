"""Speed of the event simulator, CPU seconds on one core, and as ratios to a fixed numpy loop of the same run.

    python scripts/bench_simulator.py [--case alone batch apart zero-bubble long] [--rounds 3]

alone: one Pangu Ultra MoE step (PP16, VPP2, 48 micro-batches, three lanes), the lane order given or chosen. batch: 64 of one
graph. apart: DeepSeek-V3 at PP16 VPP2 on 2,048 H800, 66 strategies of which every graph differs. zero-bubble: one step of
each planned schedule of the V fold. long: Llama-3.1-405B on 16,384 H100, up to 126 stages and hundreds of micro-batches.

The first time is that of the first call, with nothing kept; the second that of the same shapes with other costs, as in a
search. The durations of alone and batch are made up (the order of a Pangu layer on Atlas 800T A2), varied by 20%.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import product

import numpy as np

from autodeploy.hardware import load_hardware
from autodeploy.models import load_model
from autodeploy.replay import simulated_step_s
from autodeploy.schedule import SEGMENTS, LayerSegments, Segment, SimulationRequest, simulate
from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.notation import parse_strategy
from cost_models.case import Case
from cost_models.inputs import Workload
from cost_models.strategies import StrategyBatch

PP, VPP, MICRO_BATCHES, LAYERS, DENSE = 16, 2, 48, 62, 3
RECOMPUTES = ("", "/selective(moe_act)", "/selective(mla_up_proj,layernorm)", "/full")
LONG = ("PP126", "PP63/VPP2", "PP42/VPP3", "PP126/zb-h1", "PP63", "PP42", "PP126/full", "PP21/VPP2/TP4")


def loop_s() -> float:
    """The yardstick of the ratios."""
    start = time.process_time()
    a = np.random.default_rng(0).random((2000, 400))
    for _ in range(400):
        np.maximum(a * 1.1 + a, 0.5).sum(axis=1)
    return time.process_time() - start


def pangu_layers(scenarios: int, seed: int = 0) -> LayerSegments:
    """[N, 32 stages, 2 layers, K]: 61 layers and one MTP layer, the first three dense."""
    seconds = np.zeros((scenarios, PP * VPP, 2, SEGMENTS))
    nominal = {
        Segment.ATTENTION_F: 3.0, Segment.ATTENTION_B: 3.3, Segment.ATTENTION_W: 2.4, Segment.ATTENTION_R: 0.7,
        Segment.EXPERTS_F: 2.2, Segment.EXPERTS_B: 2.2, Segment.EXPERTS_W: 2.2, Segment.EXPERTS_R: 0.4,
    }  # fmt: skip
    for segment in Segment:
        if "INTER" in segment.name and not segment.name.endswith("_R"):
            nominal[segment] = 1.5
        if "INTRA" in segment.name and not segment.name.endswith("_R"):
            nominal[segment] = 0.6
    vary = np.random.default_rng(seed).uniform(0.8, 1.2, seconds.shape)
    for layer in range(LAYERS):
        for segment, milliseconds in nominal.items():
            if layer >= DENSE or "ATTENTION" in segment.name:
                seconds[:, layer // 2, layer % 2, segment] = 1e-3 * milliseconds
    return LayerSegments(seconds=seconds * vary)


def request(scenarios: int, seed: int, **more: object) -> SimulationRequest:
    return SimulationRequest(
        schedule="adaptive-pipe",
        pp=PP,
        vpp=VPP,
        micro_batches=MICRO_BATCHES,
        costs=pangu_layers(scenarios, seed),
        p2p_s=2e-4,
        **more,  # type: ignore[arg-type]
    )


def case_of(model: str, profile: str, global_batch: int, seq_length: int) -> Case:
    hardware = load_hardware(profile)
    workload = Workload(seq_length=seq_length, global_batch=global_batch, stack=hardware.stack)
    return Case(model=load_model(model), hardware=hardware, workload=workload)


def strategies(case: Case, texts: list[str], devices: int) -> StrategyBatch:
    return StrategyBatch.concatenate(
        [strategy_to_batch(parse_strategy(text), case.model, devices, "any") for text in texts]
    )


def apart_texts(groups: range) -> list[str]:
    """Micro-batch group, layout and recompute go round, so that no two have the same graph and segments."""
    texts = []
    for at, (group, way) in enumerate(product(groups, ("", "/adaptive-pipe", "/adaptive-pipe"))):
        layout = f"/layout(noop:{','.join(str(61 + (at + k) % 3 - 3 * (at % 5)) for k in range(3))})"
        tp = 2 if at % 3 == 2 else 1
        texts.append(f"TP{tp}/PP16/VPP2/EP8/G{group}{way}{RECOMPUTES[at % 4]}{layout}")
    return texts


def cpu_s(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


class Report:
    def __init__(self, rounds: int) -> None:
        self.rounds, self.loop = rounds, min(loop_s() for _ in range(3))
        print(f"fixed loop: {self.loop:.2f} s CPU")

    def line(self, label: str, makes: Callable[[int], Callable[[], object]], steps: int) -> None:
        """`makes(k)` gives the work of round k, its inputs made; the best of the later rounds counts."""
        works = [makes(k) for k in range(1 + self.rounds)]
        first = cpu_s(works[0])
        later = min(cpu_s(work) for work in works[1:])
        print(
            f"{label:44s} first {1e3 * first / steps:8.2f} ms a step, later {1e3 * later / steps:7.2f} ms "
            f"= {steps / later:7.0f} a second, {1e3 * later / steps / self.loop:6.2f} thousandths of the loop",
            flush=True,
        )


def alone(report: Report) -> None:
    def work(**more: object) -> Callable[[int], Callable[[], object]]:
        def of_round(seed: int) -> Callable[[], object]:
            asked = request(1, seed, **more)
            return lambda: simulate(asked)

        return of_round

    report.line("one Pangu step, lane order given", work(lane_order="sub-layer-1.0", ends="none"), 1)
    report.line("one Pangu step, lane order and ends chosen", work(), 1)
    case = case_of("pangu-ultra-moe-718b", "atlas-800t-a2", 4608, 8192)
    text = "TP8/PP16/VPP2/EP32/selective(mla_up_proj,layernorm){}/adaptive-pipe/hierarchical-allgather"
    batches = [strategies(case, [text.format(f"/MBS{1 + k % 2}/CP{1 + k // 2}")], 6144) for k in range(4)]
    report.rounds, rounds = min(report.rounds, 3), report.rounds
    report.line("one Pangu strategy, priced and replayed", lambda k: lambda: simulated_step_s(case, batches[k]), 1)
    report.rounds = rounds


def batch(report: Report) -> None:
    asked = [[request(64, 100 * k + i, lane_order="sub-layer-1.0", ends="none") for i in range(4)] for k in range(4)]
    report.rounds = min(report.rounds, 3)
    report.line("64 of one graph, lane order given", lambda k: lambda: [simulate(one) for one in asked[k]], 256)
    report.line("64 of one graph, lane order chosen", lambda k: lambda: simulate(request(64, k)), 64)


def apart(report: Report) -> None:
    case = case_of("deepseek-v3", "h800", 7680, 4096)
    batches = [strategies(case, apart_texts(range(16 + 11 * k, 27 + 11 * k)), 2048) for k in range(4)]
    count = len(batches[0])
    report.line(f"{count} graphs, together", lambda k: lambda: simulated_step_s(case, batches[k]), count)

    def one_by_one(k: int) -> Callable[[], object]:
        shifted = strategies(case, apart_texts(range(60 - 4 * k, 64 - 4 * k)), 2048)
        return lambda: [simulated_step_s(case, shifted.take(slice(i, i + 1))) for i in range(len(shifted))]

    report.line("12 other graphs, one after another", one_by_one, 12)


def zero_bubble(report: Report) -> None:
    case = case_of("llama-3-70b", "h100-sxm", 512, 8192)
    for name in ("zb-v", "zb-v-auto", "zb-v-half", "zb-v-min"):
        texts = [f"TP8/PP16/VPP2/{name}{more}" for more in ("", "/full", "/CP2", "/selective(core_attn)")]
        batches = [strategies(case, [text], 1024) for text in texts]
        report.line(f"{name} at PP16", lambda k, b=batches: lambda: simulated_step_s(case, b[k]), 1)


def long(report: Report) -> None:
    case = case_of("llama-3.1-405b", "h100-sxm", 16384, 8192)

    def texts(cp: int) -> list[str]:
        return [f"{'' if 'TP' in text else 'TP8/'}{text}/CP{cp}" for text in LONG]

    batches = [strategies(case, texts(cp), 16128) for cp in (1, 2, 4, 8)]
    report.line(f"{len(LONG)} Llama-3.1-405B steps", lambda k: lambda: simulated_step_s(case, batches[k]), len(LONG))


CASES = {"alone": alone, "batch": batch, "apart": apart, "zero-bubble": zero_bubble, "long": long}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    report = Report(options.rounds)
    for name in options.case:
        CASES[name](report)


if __name__ == "__main__":
    main()
