"""Writes autodeploy/accuracy/bands.json, the errors of the shipped runs as typed, which every error band is made of, and
group_bands.json, the bands of all groups.

python scripts/error_bands.py            writes the tables, then prints how the bands hold
python scripts/error_bands.py --check    fails (exit 1) where a table is not what it would write
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from autodeploy.accuracy import compare, read_runs
from autodeploy.accuracy.bands import CAP, Pairs, coverage, families_of, inside, of_sources
from autodeploy.accuracy.compare import RunResult
from autodeploy.report.error_band import Family, write_group_bands, write_table

FOLDER = Path(__file__).resolve().parent.parent / "autodeploy" / "accuracy"


def print_coverage(results: list[RunResult], table: list[Family], quantity: str) -> None:
    found = coverage(results, table, quantity)
    print(f"{quantity}: own family left out, nominal 90%")
    print("\n".join(_line(name, pairs) for name, pairs in found.by_group.items() if len(pairs) >= 20))
    print(f"{quantity}: whole source left out, nominal 90%")
    print(_line("all", [pair for pairs in found.by_source.values() for pair in pairs]))
    capped, mean = of_sources(found.by_source)
    print(f"  inside: {capped:.1%} with {CAP} rows of a source at most, {mean:.1%} as mean over sources")
    print("\n".join(_line(name, pairs) for name, pairs in found.by_source.items()))
    if found.aside:
        print(f"{quantity}: sources put aside, all their rows (no constant of the bands is chosen by them)")
        print("\n".join(_line(name, pairs) for name, pairs in found.aside.items()))
        print(_line("all put aside", [pair for pairs in found.aside.values() for pair in pairs]))


def _line(name: str, pairs: Pairs) -> str:
    middle, error = (float(np.median(each)) for each in (np.array(pairs)[:, 1], np.array(pairs)[:, 0]))
    return (
        f"  {name:<30} {len(pairs):>5} rows, {inside(pairs):6.1%} inside, "
        f"band {middle:6.1%} = {middle / error:4.2f} x error"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the file would change")
    check = parser.parse_args().check
    results = list(compare(read_runs()).results)
    table = families_of(results)
    files = {FOLDER / "bands.json": write_table(table), FOLDER / "group_bands.json": write_group_bands(table)}
    if check:
        stale = [path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
        for path in stale:
            print(f"autodeploy/accuracy/{path.name} is not up to date: run scripts/error_bands.py", file=sys.stderr)
        return int(bool(stale))
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    for quantity in ("time", "memory"):
        print_coverage(results, table, quantity)
    return 0


if __name__ == "__main__":
    sys.exit(main())
