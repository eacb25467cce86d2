"""Whether machines are put in the right order: pairs of Blackwell machines on one model, release and precision.

python scripts/machine_pairs.py [--devices b200,gb200,b300,gb300] [--typed]
"""

from __future__ import annotations

import argparse

from autodeploy.accuracy import compare, read_runs
from autodeploy.accuracy.held_out import SOURCES
from autodeploy.accuracy.regret import as_configured, as_typed, machine_pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="b200,gb200,b300,gb300")
    parser.add_argument("--typed", action="store_true", help="predicted as typed instead of with the rows' facts")
    given = parser.parse_args()
    devices = given.devices.split(",")
    run_set = read_runs()
    chosen = [run for run in run_set.runs if run.device in devices and run.group not in SOURCES]
    results = compare(run_set, runs=chosen).results
    pairs = machine_pairs(results, as_typed if given.typed else as_configured, devices)
    for pair in sorted(pairs, key=lambda p: p.right):
        first, second = pair.first.run, pair.second.run
        print(
            f"{'right' if pair.right else 'WRONG'} {first.device:>6} over {second.device:<6} measured "
            f"{pair.measured_ratio:5.2f} predicted {pair.predicted_ratio:5.2f}  {first.family} against {second.family}"
        )
    right = sum(pair.right for pair in pairs)
    print(f"{right} of {len(pairs)} pairs in the right order ({right / max(len(pairs), 1):.1%})")


if __name__ == "__main__":
    main()
