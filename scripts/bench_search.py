"""What a search and an estimate cost: CPU seconds of whole commands, as ratios to a fixed numpy loop or to a bare import of the
same run, and strategies per CPU second.

    python scripts/bench_search.py [--quick] [--only command space estimate start same]

Ratios and CPU seconds are what a busy machine leaves alone; still, each command runs several times in turn with its yardstick,
and the least of each counts. ``--quick``: one round, and not the comparison with the exhaustive path (half a minute). Exit
code 1 where a line misses its target.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# One thread of linear algebra; bytecode may be written, as it is for an installed package.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
AUTODEPLOY = ("-c", "import sys; from autodeploy.cli.app import main; sys.exit(main())")  # as the installed script
# Clocks of the search read processor time, so that its ``screen_s`` is CPU seconds.
ON_CPU_TIME = (
    "-c",
    "import sys, time; time.monotonic = time.process_time; from autodeploy.cli.app import main; sys.exit(main(sys.argv[1:]))",
)
LOOP = ("-c", "import numpy as np; a = np.random.default_rng(0).random((2000, 400))\n"
              "for _ in range(400): np.maximum(a * 1.1 + a, 0.5).sum(axis=1)")  # fmt: skip
IMPORTS = ("-c", "import numpy, typer, yaml")
HELP_BEFORE = 0.55  # --help over the imports, before anything was made faster

README = "pangu-ultra-moe-718b --hardware atlas-800t-a2 --devices 6144 --seq-length 8192 --global-batch 4608"
KIMI = "kimi-k2 --hardware gb200-nvl72 --devices 9216 --seq-length 4096 --global-batch 18432"
SPACES = {
    "Pangu Ultra MoE on 6,144 Atlas 800T A2": (README, 250_000),
    "DeepSeek-V3 on 2,048 H800": (
        "deepseek-v3 --hardware h800 --devices 2048 --seq-length 4096 --global-batch 15360", 250_000,
    ),
    "Kimi K2 on 9,216 GB200": (KIMI, 250_000),
    "GPT-3 175B on 1,024 A100": (
        "gpt3-175b --hardware a100-80g-sxm --devices 1024 --seq-length 2048 --global-batch 1536", 30_000,
    ),
}  # fmt: skip
ESTIMATE = "estimate llama-3.1-70b TP8/PP4/VPP5 --hardware h100-sxm --devices 64 --seq-length 8192 --global-batch 512"
OTHERS = (
    "TP8/PP4/VPP5", "TP4/PP8/VPP5", "TP8/PP8/VPP2", "TP8/PP4/VPP5/full", "TP4/PP8/VPP10/MBS2", "TP8/PP2/VPP10", "TP8/PP4",
    "TP4/PP4/VPP10", "TP8/PP8/VPP5/G16", "TP8/PP4/VPP4/MBS2", "TP2/PP8/VPP5/CP2", "TP4/PP8/VPP2/selective(core_attn)",
    "TP8/PP4/VPP2", "TP8/PP8/VPP10", "TP8/PP2/VPP5/full",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    value: float
    unit: str
    target: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.target if self.at_least else self.value <= self.target

    def __str__(self) -> str:
        relation, missed = ">=" if self.at_least else "<=", "" if self.met else "  MISSED"
        return f"{self.name}: {self.value:,.4g} {self.unit} (target {relation} {self.target:,g}){missed}"


@dataclass(frozen=True, slots=True)
class Ran:
    cpu_s: float
    wall_s: float
    peak_bytes: float
    text: str


def ran(arguments: Sequence[str], allowed: Sequence[int] = (0,)) -> Ran:
    """One run of the interpreter, children of its own included. ``allowed``: exit codes that are answers."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([sys.executable, *arguments], stdout=out, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode()
    if process.returncode not in allowed:
        sys.exit(f"exit code {process.returncode}: {' '.join(arguments)[:200]}")
    return Ran(used.ru_utime + used.ru_stime, time.perf_counter() - began, used.ru_maxrss * 1024.0, text)


def best(commands: Sequence[Sequence[str]], rounds: int) -> list[Ran]:
    """The least CPU time of each, run in turn."""
    rows = [[ran(command) for command in commands] for _ in range(rounds)]
    return [min(runs, key=lambda run: run.cpu_s) for runs in zip(*rows, strict=True)]


def search(case: str, *more: str) -> tuple[str, ...]:
    return "search", *case.split(), *more


def command_lines(rounds: int) -> Iterator[Line]:
    """The README's first command, against the loop."""
    loop, command = best([LOOP, (*AUTODEPLOY, *search(README))], rounds)
    print(f"README command {command.cpu_s:.2f} s CPU, fixed loop {loop.cpu_s:.2f} s")
    yield Line("README command over the fixed loop", command.cpu_s / loop.cpu_s, "x", 1.4)
    yield Line("its peak memory", command.peak_bytes / 2**30, "GiB", 1.0)


def space_lines(rounds: int) -> Iterator[Line]:
    """Strategies with exact memory and a bound of the time, over the seconds of the screen."""
    for name, (case, target) in SPACES.items():
        command = (*ON_CPU_TIME, *search(case, "--workers", "1", "--format", "json"))
        spaces = [json.loads(ran(command).text)["space"] for _ in range(rounds)]
        rate = max(space["screened"] / space["screen_s"] for space in spaces)
        yield Line(f"{name}, {spaces[0]['screened']:,} strategies", rate, "a CPU second", target, at_least=True)
    two = ran((*AUTODEPLOY, *search(KIMI, "--workers", "2")))
    yield Line("Kimi K2 on two cores, whole command", two.wall_s, "s by the clock", 10.0)


def same_lines(rounds: int) -> Iterator[Line]:
    """The README command against the exhaustive path, which --rejected takes: every figure of every row."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "rejected.csv")
        ways = [search(README, "--format", "json", "--top", "20", *more) for more in ((), ("--rejected", file))]
        short, whole = (json.loads(ran((*AUTODEPLOY, *way)).text) for way in ways)
    yield Line("rows of its top 20", len(short["ranked"]), "rows", 20, at_least=True)
    worst = max(difference(short[key], whole[key]) for key in ("ranked", "decision"))
    yield Line("largest difference from the exhaustive path", worst, "relative", 1e-12)


def difference(one: Any, other: Any) -> float:
    """The largest relative difference of two documents; infinite where they differ in anything but numbers."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((difference(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max(map(difference, one, other), default=0.0)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) / max(abs(one), abs(other), 1e-300)
    return 0.0 if one == other else float("inf")


def estimate_lines(rounds: int) -> Iterator[Line]:
    """One strategy in process: the same one again, and then others of the case for the first time."""
    from autodeploy import api

    options: dict[str, Any] = {"seq_length": 8192, "global_batch": 512}

    def by_closed_form(strategy: str) -> None:
        from autodeploy.report.documents import estimate_document

        case = api._case("llama-3.1-70b", "h100-sxm", api.Options(**options))
        estimate_document(case, *api._priced(case, strategy, 64))

    def with_replay(strategy: str) -> None:
        api.estimate("llama-3.1-70b", strategy, hardware="h100-sxm", devices=64, **options)

    ways: tuple[tuple[str, Callable[[str], None], float], ...] = (
        ("closed form", by_closed_form, 5.0), ("with the replay", with_replay, 20.0),
    )  # fmt: skip
    for name, priced, target in ways:
        first, *others = (1e3 * _cpu_s(priced, strategy) for strategy in OTHERS)
        again = min(1e3 * _cpu_s(priced, OTHERS[0]) for _ in range(5 * rounds))
        print(f"estimate in process, {name}: first of the process {first:.1f} ms")
        yield Line(f"estimate in process, {name}, again", again, "ms", target)
        yield Line(f"estimate in process, {name}, other strategies", sorted(others)[len(others) // 2], "ms", target)


def _cpu_s(priced: Callable[[str], None], strategy: str) -> float:
    began = time.process_time()
    priced(strategy)
    return time.process_time() - began


def start_lines(rounds: int) -> Iterator[Line]:
    """Commands against the bare import of what they cannot do without."""
    commands = [IMPORTS, (*AUTODEPLOY, *ESTIMATE.split()), (*AUTODEPLOY, "--help")]
    best(commands, 1)  # bytecode is written
    imports, estimate, told = best(commands, 5 * rounds)
    print(f"imports {1e3 * imports.cpu_s:.0f} ms CPU")
    yield Line("estimate over the imports", estimate.cpu_s / imports.cpu_s, "x", 1.5)
    yield Line("--help over the imports", told.cpu_s / imports.cpu_s, "x", HELP_BEFORE)


LINES: dict[str, Callable[[int], Iterator[Line]]] = {
    "command": command_lines, "space": space_lines, "estimate": estimate_lines, "start": start_lines, "same": same_lines,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=list(LINES), default=[])
    options = parser.parse_args()
    chosen = options.only or [name for name in LINES if not (options.quick and name == "same")]
    missed = 0
    for name in chosen:
        for line in LINES[name](1 if options.quick else 3):
            print(line, flush=True)
            missed += not line.met
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
