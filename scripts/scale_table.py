"""Writes docs/scale.md: what a search costs from 8 to 131,072 cards, for eight models, each search in a process of its own.

    python scripts/scale_table.py [--records FILE] [--fresh]

What was measured is kept in FILE, one line a search, so that the table can be stopped and taken up again. Exit code 1 where a
search takes more than 30 s of CPU or 1 GiB.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench_search import ON_CPU_TIME, ran

PAGE = Path(__file__).resolve().parent.parent / "docs" / "scale.md"
RECORDS = Path(tempfile.gettempdir()) / "autodeploy_scale.jsonl"
NOTHING_FITS = 3
MOST_CPU_S, MOST_GIB = 30.0, 1.0
CARDS = tuple(8 * 4**power for power in range(8))
MODELS = {
    "llama-3.1-8b": "h100-sxm",
    "mixtral-8x7b": "h100-sxm",
    "llama-3.1-70b": "h100-sxm",
    "gpt3-175b": "a100-80g-sxm",
    "llama-3.1-405b": "h100-sxm",
    "deepseek-v3": "h800",
    "pangu-ultra-moe-718b": "atlas-800t-a2",
    "kimi-k2": "gb200-nvl72",
}
SEQ_LENGTH = 4096

Record = dict[str, Any]


def global_batch(cards: int) -> int:
    return max(1024, cards // 4)


def measured(model: str, cards: int) -> Record:
    """One search. ``cpu_s`` and ``gib`` are the whole process's; ``screened`` and what follows is missing where nothing fits."""
    found = ran(
        (
            *ON_CPU_TIME, "search", model, "--hardware", MODELS[model], "--devices", str(cards), "--seq-length", str(SEQ_LENGTH),
            "--global-batch", str(global_batch(cards)), "--workers", "1", "--format", "json",
        ),
        allowed=(0, NOTHING_FITS),
    )  # fmt: skip
    document = json.loads(found.text)
    record = {"model": model, "cards": cards, "cpu_s": found.cpu_s, "gib": found.peak_bytes / 2**30}
    space, ranked = document["space"], document["ranked"]
    if ranked:
        record |= {"screened": space["screened"], "screen_s": space["screen_s"]}
        record |= {"strategy": ranked[0]["strategy"], "step_s": ranked[0]["step_time_s"]}
    return record


def all_records(file: Path) -> Iterator[Record]:
    """Those of the file, and then what it lacks, measured and added to it."""
    kept = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    by_search = {(record["model"], record["cards"]): record for record in kept}
    for model in MODELS:
        for cards in CARDS:
            record = by_search.get((model, cards))
            if record is None:
                record = measured(model, cards)
                with file.open("a") as lines:
                    lines.write(json.dumps(record) + "\n")
                print(f"{model} on {cards:,}: {record['cpu_s']:.1f} s, {record['gib']:.2f} GiB", file=sys.stderr)
            yield record


def table(records: list[Record], title: str, text: Callable[[Record], str]) -> str:
    rows = [f"| {title} | " + " | ".join(f"{cards:,}" for cards in CARDS) + " |", "|---|" + "---:|" * len(CARDS)]
    for model, hardware in MODELS.items():
        cells = [text(r) if "step_s" in r else "-" for r in records if r["model"] == model]
        rows.append(f"| {model} on {hardware} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


TABLES: tuple[tuple[str, Callable[[Record], str]], ...] = (
    ("CPU seconds", lambda r: f"{r['cpu_s']:.1f}"),
    ("strategies", lambda r: f"{r['screened']:,}"),
    ("CPU microseconds a strategy", lambda r: f"{1e6 * r['screen_s'] / r['screened']:.1f}"),
    ("peak memory, GiB", lambda r: f"{r['gib']:.2f}"),
    ("best step, s", lambda r: seconds(r["step_s"])),
)


def page(records: list[Record]) -> str:
    priced = [r for r in records if "step_s" in r]
    slowest, largest = max(priced, key=lambda r: r["cpu_s"]), max(priced, key=lambda r: r["gib"])
    each = sorted(1e6 * r["screen_s"] / r["screened"] for r in priced)
    return f"""# What a search costs

`autodeploy search MODEL --hardware MACHINE --devices CARDS --seq-length {SEQ_LENGTH} --global-batch max(1024, CARDS / 4)
--workers 1`, each in a process of its own, imports included: processor seconds of one core of a machine that had other work to
do (`scripts/scale_table.py`, which writes this page). `-`: nothing fits.

Of {len(priced)} searches the slowest takes {slowest["cpu_s"]:.1f} s ({slowest["model"]} on {slowest["cards"]:,} cards), the
largest {largest["gib"]:.2f} GiB ({largest["model"]} on {largest["cards"]:,}). A strategy, its peak memory exact and its step
bounded from below, takes {each[len(each) // 2]:.0f} microseconds in the median, and more where there are so few that what is
done once a search weighs more; it does not grow with the cards.

{(chr(10) * 2).join(table(records, title, text) for title, text in TABLES)}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--fresh", action="store_true", help="measure all again")
    options = parser.parse_args()
    if options.fresh:
        options.records.unlink(missing_ok=True)
    records = list(all_records(options.records))
    PAGE.write_text(page(records), encoding="utf-8")
    slow = [r for r in records if r["cpu_s"] > MOST_CPU_S or r["gib"] > MOST_GIB]
    for r in slow:
        print(f"MISSED: {r['model']} on {r['cards']:,}: {r['cpu_s']:.1f} s, {r['gib']:.2f} GiB")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
