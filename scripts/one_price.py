"""Does a strategy cost the same everywhere? Random strategies of six models through estimate, simulate and search.

python scripts/one_price.py [--strategies 500] [--seed 0] [--pangu]

Each strategy is priced alone as `estimate` does, replayed with its events as `simulate` does, and priced in one batch as
`search` does; the largest relative differences are printed, and the exit code is 1 where one passes 1e-12. `--pangu` runs
the two searches of Pangu Ultra MoE, wide and narrow, and says where the published group lands.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from autodeploy.errors import InputError
from autodeploy.replay import simulate_strategy, simulated_step_s
from cost_models.step import evaluate
from tests.laws import samples

EXACT = 1e-12
MORE = {
    "qwen3-30b-a3b": ("h100-sxm", 32, 128, 4096),
    "llama-3-70b": ("h100-sxm", 64, 256, 4096),
}


def check(name: str, count: int, seed: int) -> tuple[int, float, float, float, float]:
    """Strategies, and the worst relative differences: screened time, memory, replay in a batch, replay with events."""
    case, found = samples.case(name), samples.strategies(name, count, seed)
    batch = samples.together([each for _, each in found])
    cost, replayed = evaluate(case, batch), simulated_step_s(case, batch)
    alone = [evaluate(case, each) for _, each in found]
    worst = [
        float(samples.apart(cost.step_s, np.array([each.step_s[0] for each in alone])).max()),
        float(samples.apart(cost.peak_reserved_bytes, np.array([each.peak_reserved_bytes[0] for each in alone])).max()),
        float(samples.apart(replayed, np.array([simulated_step_s(case, each)[0] for _, each in found])).max()),
    ]
    events = np.array([with_events(case, each) for _, each in found])
    return len(found), *worst, float(samples.apart(events, replayed).max())  # type: ignore[return-value]


def with_events(case, batch) -> float:  # type: ignore[no-untyped-def]
    try:
        return simulate_strategy(case, batch, events=False).step_s
    except InputError:
        return float("nan")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategies", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pangu", action="store_true")
    options = parser.parse_args()
    if options.pangu:
        return pangu()
    samples.CASES.update(MORE)
    names = list(samples.CASES)
    print("| model | strategies | screened | memory | replayed in a batch | with events |\n|---|---|---|---|---|---|")
    worst = 0.0
    for i, name in enumerate(names):
        share = options.strategies // len(names) + (i < options.strategies % len(names))
        count, *differences = check(name, share, options.seed)
        worst = max(worst, *differences)
        print(f"| {name} | {count} | " + " | ".join(f"{value:.1e}" for value in differences) + " |", flush=True)
    print(f"\nlargest difference: {worst:.1e}")
    return int(worst > EXACT)


def pangu() -> int:
    """README's search, wide and narrowed to the published group."""
    import json
    import subprocess

    case = ["pangu-ultra-moe-718b", "--hardware", "atlas-800t-a2", "--devices", "6144", "--seq-length", "8192"]
    case += ["--global-batch", "4608", "--format", "json", "--all-variants", "--top", "120"]
    narrow = ["--tp", "8", "--pp", "16", "--vpp", "2", "--ep", "32", "--etp", "1", "--cp", "1"]
    rows = []
    for options in ([], narrow):
        command = [sys.executable, "-m", "autodeploy", "search", *case, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append({row["strategy"]: row for row in json.loads(done.stdout)["ranked"]})
    wide, close = rows
    common = [text for text in wide if text in close]
    figures = ("step_time_s", "screened_step_time_s", "simulated_step_time_s", "peak_memory_gib")
    worst = max((abs(wide[t][f] / close[t][f] - 1) for t in common for f in figures if close[t][f]), default=0.0)
    print(f"{len(wide)} strategies in the wide search, {len(close)} in the narrow one, {len(common)} in both")
    print(f"largest difference of any figure: {worst:.1e}")
    grouped = [part for part in case if part != "--all-variants"]
    for kind, options in (("overlapped", []), ("serial", ["--no-ep-overlap"])):
        command = [sys.executable, "-m", "autodeploy", "search", *grouped, *options]
        ranked = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["ranked"]
        found = [(place, row) for place, row in enumerate(ranked, 1) if in_group(row)]
        said = f"place {found[0][0]}, {found[0][1]['step_time_s']:.2f} s" if found else "beyond the list"
        print(f"published group, {kind}: {said}; first {ranked[0]['label']}, {ranked[0]['step_time_s']:.2f} s")
    return int(worst > EXACT)


def in_group(row: dict) -> bool:  # type: ignore[type-arg]
    return (row["tp"], row["pp"], row["vpp"], row["ep"]) == (8, 16, 2, 32)


if __name__ == "__main__":
    sys.exit(main())
