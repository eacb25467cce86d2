"""Speed of the pipeline's closed forms: CPU microseconds a strategy, by schedule, shape and batch.

    python scripts/bench_closed_forms.py [--schedules interleaved adaptive-pipe] [--seconds 0.05]

"first" is a call with one strategy of a shape that was not seen before, the other columns are later calls with 1, 8, 64 and
1,024 strategies of that shape. Stage costs are made up (uniform in 0.5-1.5): speed does not depend on them. The last column
divides the middle one (8 strategies, per strategy) by a fixed loop of numpy on the same core, measured in the same run:
np.maximum(a * 1.1 + a, 0.5).sum(axis=1) over a [2000, 400] array. The lines at the end price twelve shapes of the interleaved
schedules (2 to 8 ranks, 2 to 6 chunks) with 8 strategies each in one call, as a search does, and one by one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np

from cost_models.schedules import SCHEDULE_TABLE, PipelineCosts, closed_forms_s
from cost_models.schedules.lanes import Direction, LaneCosts

BATCHES = (1, 8, 64, 1024)
LOOPED = (
    (2, 2, 8),
    (4, 2, 32),
    (8, 2, 4),
    (8, 4, 64),
    (16, 2, 48),
    (16, 8, 128),
    (64, 2, 512),
)  # pp, vpp, micro-batches
SINGLE = ((2, 1, 8), (8, 1, 4), (8, 1, 64), (16, 1, 64), (64, 1, 512))
FOLDED = ((2, 2, 8), (8, 2, 64), (16, 2, 64), (32, 2, 512))


def fixed_loop_s(rounds: int = 20) -> float:
    """CPU seconds of one round."""
    a = np.random.default_rng(0).random((2000, 400))
    start = time.process_time()
    for _ in range(rounds):
        np.maximum(a * 1.1 + a, 0.5).sum(axis=1)
    return (time.process_time() - start) / rounds


def made_up_lanes(stages: int, count: int, rng: np.random.Generator) -> LaneCosts:
    def direction() -> Direction:
        parts = dict(
            zip((field.name for field in fields(Direction)), rng.uniform(0.5, 1.5, (5, stages, count)), strict=True)
        )
        return Direction(**(parts | {"experts_s": 0.5 * parts["compute_s"], "send_s": 0.01 * parts["send_s"]}))

    weight_s = rng.uniform(0.5, 1.5, (stages, count))
    return LaneCosts(
        forward=direction(),
        backward=direction(),
        again=direction(),
        weight_s=weight_s,
        layers=np.full_like(weight_s, 2.0),
    )


def pipeline(shape: tuple[int, int, int], count: int, on_lanes: bool) -> PipelineCosts:
    pp, vpp, m = shape
    rng = np.random.default_rng(count)
    forward_s, input_s, weight_s = rng.uniform(0.5, 1.5, (3, pp * vpp, count))
    lanes = made_up_lanes(pp * vpp, count, rng) if on_lanes else None
    return PipelineCosts(
        forward_s=forward_s, input_s=input_s, weight_s=weight_s, p2p_s=rng.uniform(0, 0.1, count),
        micro_batches=np.full(count, m), group=np.full(count, pp), pp=pp, vpp=vpp, lanes=lanes,
    )  # fmt: skip


def asked(name: str, shape: tuple[int, int, int], count: int, on_lanes: bool) -> Callable[[], object]:
    """A call as the step makes it: what is worked out of the lanes is worked out each time."""
    c = pipeline(shape, count, on_lanes)
    return lambda: closed_forms_s(
        [(SCHEDULE_TABLE[name], replace(c, lanes=c.lanes.take(slice(None)) if c.lanes else None))]
    )


def cpu_s(call: Callable[[], object], least_s: float) -> float:
    """CPU seconds of a call, the mean over at least `least_s`."""
    calls, start = 0, time.process_time()
    while True:
        call()
        calls += 1
        spent = time.process_time() - start
        if spent > least_s:
            return spent / calls


def row(name: str, shape: tuple[int, int, int], on_lanes: bool, least_s: float) -> list[float]:
    """Microseconds a strategy: of the first call, then of each batch."""
    found = [cpu_s(asked(name, shape, 1, on_lanes), 0.0)]
    found += [cpu_s(asked(name, shape, count, on_lanes), least_s) / count for count in BATCHES]
    return [1e6 * seconds for seconds in found]


def shapes(name: str) -> tuple[tuple[int, int, int], ...]:
    record = SCHEDULE_TABLE[name]
    known = SINGLE if record.single_chunk else FOLDED if record.chunks.most else LOOPED
    return tuple(shape for shape in known if shape[2] >= record.least_turns * shape[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", nargs="*", default=[name for name in SCHEDULE_TABLE if name != "none"])
    parser.add_argument("--seconds", type=float, default=0.05, help="CPU seconds that a figure is measured for")
    options = parser.parse_args()
    loop_s = fixed_loop_s()
    print(f"fixed loop {1e3 * loop_s:.2f} ms; CPU microseconds a strategy")
    print(
        f"{'schedule':24} {'pp/vpp/m':>10} {'first':>9}"
        + "".join(f"{f'N={n}':>10}" for n in BATCHES)
        + f"{'8/loop':>9}"
    )
    for name in options.schedules:
        for on_lanes in (False, True) if SCHEDULE_TABLE[name].pairs != "none" else (False,):
            for shape in shapes(name):
                found = row(name, shape, on_lanes, options.seconds)
                label = name + (" (lanes)" if on_lanes else "")
                figures = "".join(f"{value:10.1f}" for value in found[1:])
                print(
                    f"{label:24} {'/'.join(map(str, shape)):>10} {found[0]:9.0f}{figures}{found[2] / 1e6 / loop_s:9.3f}"
                )
    for name, on_lanes in (("interleaved", False), ("adaptive-pipe", True)):
        together_and_apart(name, on_lanes, options.seconds)


def together_and_apart(name: str, on_lanes: bool, least_s: float) -> None:
    shapes = [(pp, vpp, 6 * pp) for pp in (2, 4, 8) for vpp in (2, 3, 4, 6)]
    parts = [(SCHEDULE_TABLE[name], pipeline(shape, 8, on_lanes)) for shape in shapes]
    together = cpu_s(lambda: closed_forms_s(parts), least_s)
    apart = cpu_s(lambda: [closed_forms_s([one]) for one in parts], least_s)
    label = name + (" (lanes)" if on_lanes else "")
    print(f"{label:24} {len(parts)} shapes: {1e3 * together:.1f} ms in one call, {1e3 * apart:.1f} ms one by one")


if __name__ == "__main__":
    main()
