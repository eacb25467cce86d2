"""Writes autodeploy/accuracy/bands.json: the errors of the shipped runs as typed, which every error band is made of.

python scripts/error_bands.py            writes the table, then prints how the bands hold
python scripts/error_bands.py --check    fails (exit 1) where the table is not what it would write
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from autodeploy.accuracy import compare, read_runs
from autodeploy.accuracy.bands import distance, families_of, memory_of, times_of
from autodeploy.accuracy.held_out import SOURCES
from autodeploy.report.error_band import Family, band_of, write_table

FILE = Path(__file__).resolve().parent.parent / "autodeploy" / "accuracy" / "bands.json"


def coverage(results: list, table: list[Family], quantity: str) -> list[str]:
    """A line for all rows, for the families that no fit has seen, and for every group of twenty rows."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        predicted, measured = (times_of if quantity == "time" else memory_of)(result)
        if not result.run.gated or predicted is None or measured is None or result.run.group in SOURCES:
            continue
        band = band_of(result.typed.like, quantity, without=result.run.family, table=table).frac
        names = ["all", "families that no fit has seen"] if not result.fitted_on else ["all"]
        for name in (*names, result.run.report_group):
            rows.setdefault(name, []).append((distance(predicted, measured), band))
    return [_line(name, pairs) for name, pairs in rows.items() if len(pairs) >= 20]


def _line(name: str, pairs: list[tuple[float, float]]) -> str:
    errors, bands = np.array(pairs).T
    inside = float(np.mean(errors <= bands))
    middle, error = float(np.median(bands)), float(np.median(errors))
    return (
        f"  {name:<30} {len(pairs):>5} rows, {inside:6.1%} inside, band {middle:6.1%} = {middle / error:4.2f} x error"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the file would change")
    check = parser.parse_args().check
    results = list(compare(read_runs()).results)
    table = families_of(results)
    text = write_table(table)
    if check:
        stale = not FILE.is_file() or FILE.read_text(encoding="utf-8") != text
        if stale:
            print("autodeploy/accuracy/bands.json is not up to date: run scripts/error_bands.py", file=sys.stderr)
        return int(stale)
    FILE.write_text(text, encoding="utf-8")
    for quantity in ("time", "memory"):
        print(f"{quantity}: own family left out, nominal 90%")
        print("\n".join(coverage(results, table, quantity)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
