#!/usr/bin/env python3
"""Kills a search with SIGKILL at random moments, again and again, and accounts for every trial of its study.

    python scripts/kill_studies.py [--kills 30] [--storage sqlite|journal|URL ...] [--seed 0]

Per storage: kills, trials told, trials taken up again, and whether every trial is accounted for: none RUNNING after the
last run, each failed one enqueued again exactly once, a strategy that two trials hold has one price. Exit code 1 if not.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter

from autodeploy.study.leases import UNSIGNED_S
from autodeploy.study.storage import open_storage, without_password

SEARCH = [
    sys.executable, "-m", "autodeploy", "search", "llama-3.2-1b", "--hardware", "h100-sxm", "--devices", "8", "--global-batch",
    "64", "--method", "random", "--recompute", "none,full", "--top", "1", "--format", "json", "--study", "kills",
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30, help="per storage")
    parser.add_argument("--storage", nargs="+", default=["sqlite", "journal"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, good = random.Random(options.seed), True
    with tempfile.TemporaryDirectory() as folder:
        for name in options.storage:
            url = {"sqlite": f"sqlite:///{folder}/s.sqlite", "journal": f"journal:{folder}/s.journal"}.get(name, name)
            good &= torture(url, options.kills, chance)
    return 0 if good else 1


def torture(url: str, kills: int, chance: random.Random) -> bool:
    """Kills, one clean run, and the account."""
    started_s = _one_run(url, trials=8)
    for seed in range(kills):
        process = subprocess.Popen(
            [*SEARCH, "--storage", url, "--trials", "2000", "--seed", str(seed)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(chance.uniform(0.3, 1.2) * started_s)
        process.kill()
        process.wait()
    time.sleep(UNSIGNED_S)  # a worker killed between asking for a trial and signing it leaves no lease
    _one_run(url, trials=64)
    return account(url, kills)


def _one_run(url: str, trials: int) -> float:
    began = time.monotonic()
    subprocess.run([*SEARCH, "--storage", url, "--trials", str(trials)], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def account(url: str, kills: int) -> bool:
    import optuna

    trials = optuna.load_study(study_name="kills", storage=open_storage(url)).get_trials(deepcopy=False)
    states = Counter(trial.state.name for trial in trials)
    failed = sorted(trial.number for trial in trials if trial.state.name == "FAIL")
    again = sorted(trial.user_attrs["retry_of"] for trial in trials if "retry_of" in trial.user_attrs)
    prices: dict[str, set[float]] = {}
    for trial in trials:
        if trial.state.name == "COMPLETE":
            prices.setdefault(trial.user_attrs["strategy"], set()).add(trial.user_attrs["priced"]["step_time_s"])
    one_price = all(len(values) == 1 for values in prices.values())
    good = not states["RUNNING"] and failed == again and one_price
    print(
        f"{without_password(url).split(':')[0]}: {kills} kills, {len(trials)} trials {dict(states)}, {len(again)} taken up again, "
        f"{len(prices)} strategies {'each with one price' if one_price else 'WITH SEVERAL PRICES'}: {'ok' if good else 'LOST'}"
    )
    return good


if __name__ == "__main__":
    sys.exit(main())
