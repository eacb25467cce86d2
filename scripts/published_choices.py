#!/usr/bin/env python3
"""What experts run beside what today's search advises: docs/published_choices.md.

    python scripts/published_choices.py [FOLDER]

FOLDER keeps what the searches found: a later call with it searches only what is not there.
A mirror: nothing knows the answer, and no constant is moved for it. Each case is one exhaustive search of the whole space (a
default stack of today, not the one that the source ran; axes free). Takes some minutes of CPU.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "published_choices.md"
TIMEOUT_S = 60
TOP = 150  # rows kept of the large mixtures (each is simulated); all rows of the others
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A published configuration. ``source``: the id of a reference run, or where else its settings are from."""

    title: str
    source: str
    model: str
    hardware: str
    devices: int
    seq_length: int
    batch: int
    tp: int
    pp: int
    ep: int = 1
    cp: int = 1
    vpp: int | None = None  # only where VPP, too, is part of what is asked for
    options: tuple[str, ...] = ()

    @property
    def top(self) -> int:
        return TOP if self.options[: len(FLAT)] == FLAT else 100_000

    @property
    def label(self) -> str:
        vpp = "" if self.vpp is None else f"/VPP{self.vpp}"
        return f"TP{self.tp}/PP{self.pp}{vpp}/EP{self.ep}/CP{self.cp}"

    def has(self, row: Row) -> bool:
        """Whether a ranked row is of the published group."""
        same = all(row[name] == getattr(self, name) for name in ("tp", "pp", "ep", "cp"))
        return same and self.vpp in (None, row["vpp"])


# "A2" of MindSpeed-LLM does not name the grade: the Atlas 800T A2 is taken. "poc": MindSpeed-LLM's tests/poc scripts, which
# publish settings and no time. Even routing (`--imbalance 1`) where the source forces it or drops tokens at capacity 1.
A2, H100, EVEN = "atlas-800t-a2", "h100-sxm", ("--imbalance", "1")
# To stay within minutes the large mixtures are searched without CP and ETP, which none of these sources uses.
FLAT = ("--cp", "1", "--etp", "1")
FP8 = ("--precision", "fp8")
PANGU = "arXiv 2505.04519"
CHOICES = (
    Choice(
        title="Llama-3.1-70B, 64 H100",
        source="dgxc-v25-02-02-llama3-70b-h100-sxm-64-bf16-gbs128",
        model="llama-3.1-70b",
        hardware=H100,
        devices=64,
        seq_length=8192,
        batch=128,
        tp=4,
        pp=4,
        cp=2,
    ),
    Choice(
        title="Llama-3.1-405B, 256 A2",
        source="poc llama3-405b A2",
        model="llama-3.1-405b",
        hardware=A2,
        devices=256,
        seq_length=8192,
        batch=128,
        tp=8,
        pp=16,
        cp=2,
    ),
    Choice(
        title="Llama-3.1-405B, 1,024 H100",
        source="inferred: dgxc-v25-04-02-llama31-405b-h100-sxm-128-bf16-gbs128 (62 layers) with PP doubled; batch ours",
        model="llama-3.1-405b",
        hardware=H100,
        devices=1024,
        seq_length=8192,
        batch=512,
        tp=8,
        pp=8,
        cp=2,
    ),
    Choice(
        title="Llama-3.1-405B, 16,384 H100",
        source="llama3-405b-16384-seq8192",
        model="llama-3.1-405b",
        hardware=H100,
        devices=16384,
        seq_length=8192,
        batch=2048,
        tp=8,
        pp=16,
    ),
    Choice(
        title="GPT-3 175B, 1,024 A100",
        source="Narayanan et al. 2021, section 5.1 (batch 1,536); TP8 PP8 as narayanan21-t1-145b",
        model="gpt3-175b",
        hardware="a100-80g-sxm",
        devices=1024,
        seq_length=2048,
        batch=1536,
        tp=8,
        pp=8,
        options=("--precision", "fp16"),
    ),
    Choice(
        title="Mixtral 8x22B, 128 H100",
        source="moefold-t2-mixtral-8x22b-mcore-folding-bf16",
        model="mixtral-8x22b",
        hardware=H100,
        devices=128,
        seq_length=4096,
        batch=256,
        tp=2,
        pp=8,
        ep=8,
        options=EVEN,
    ),
    Choice(
        title="Qwen3-235B, 256 H100",
        source="mbridge-25-11-qwen3-235b-a22b-h100-sxm-256-fp8-cs-gbs2048",
        model="qwen3-235b-a22b",
        hardware=H100,
        devices=256,
        seq_length=4096,
        batch=2048,
        tp=2,
        pp=8,
        ep=32,
        options=(*FLAT, *EVEN, *FP8),
    ),
    Choice(
        title="Qwen3-235B, 256 A2",
        source="poc qwen3-235b A2",
        model="qwen3-235b-a22b",
        hardware=A2,
        devices=256,
        seq_length=4096,
        batch=1024,
        tp=1,
        pp=8,
        ep=8,
        options=FLAT,
    ),
    Choice(
        title="DeepSeek-V3, 512 A2",
        source="poc deepseek-v3 A2",
        model="deepseek-v3",
        hardware=A2,
        devices=512,
        seq_length=4096,
        batch=7680,
        tp=4,
        pp=8,
        ep=32,
        options=FLAT,
    ),
    Choice(
        title="DeepSeek-V3, 1,024 H100",
        source="mbridge-25-09-deepseekv3-h100-sxm-1024-fp8-cs-gbs8192",
        model="deepseek-v3",
        hardware=H100,
        devices=1024,
        seq_length=4096,
        batch=8192,
        tp=2,
        pp=8,
        ep=64,
        options=(*FLAT, *EVEN, *FP8),
    ),
    Choice(
        title="DeepSeek-V3, 2,048 H800",
        source="deepseek-v3-h800-2048",
        model="deepseek-v3",
        hardware="h800",
        devices=2048,
        seq_length=4096,
        batch=15360,
        tp=1,
        pp=16,
        ep=64,
        options=(*FLAT, "--precision", "fp8_block"),
    ),
    Choice(
        title="Kimi K2, 1,024 A3 dies",
        source="kimi-k2-1t-a3-1024die",
        model="kimi-k2",
        hardware="atlas-900-a3",
        devices=1024,
        seq_length=4096,
        batch=8192,
        tp=2,
        pp=8,
        ep=64,
        options=(*FLAT, *EVEN),
    ),
    *(
        Choice(
            title=f"Pangu Ultra MoE, 6,144 A2, batch {batch}, experts {title}",
            source=PANGU,
            model="pangu-ultra-moe-718b",
            hardware=A2,
            devices=6144,
            seq_length=8192,
            batch=batch,
            tp=8,
            pp=16,
            ep=32,
            vpp=2,
            options=(*FLAT, option),
        )
        for batch in (4608, 9216)
        for title, option in (("serial", "--no-ep-overlap"), ("overlapped", "--ep-overlap"))
    ),
)


def searched(choice: Choice, folder: Path, *narrowed: str) -> Row:
    """The search's document, kept in ``folder``; exit 3 (nothing fits) has one, too."""
    sizes = {"devices": choice.devices, "seq-length": choice.seq_length, "global-batch": choice.batch}
    asked = [text for name, value in sizes.items() for text in (f"--{name}", str(value))]
    how = ("--method", "exhaustive", "--timeout", str(TIMEOUT_S), "--top", str(choice.top), "--format", "json")
    path = folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', choice.title)}{'-alone' if narrowed else ''}.json"
    if not path.exists():
        command = [sys.executable, "-m", "autodeploy", "search", choice.model, "--hardware", choice.hardware, *asked]
        done = subprocess.run([*command, *choice.options, *narrowed, *how, "--output", str(path)], check=False)
        if done.returncode not in (0, 3):
            raise SystemExit(f"{choice.title}: the search ended with {done.returncode}")
    document: Row = json.loads(path.read_text())
    return document


def one_cause(theirs: Row, ours: Row) -> str:
    """The cause in whose seconds the two steps differ most."""
    causes = sorted(set(theirs["time_s"]) | set(ours["time_s"]))
    return max(causes, key=lambda name: abs(theirs["time_s"].get(name, 0.0) - ours["time_s"].get(name, 0.0)))


def coded(row: Row) -> str:
    """A strategy in a table's cell, whose bars would end the cell."""
    return "`" + row["strategy"].replace("|", "\\|") + "`"


def places(choice: Choice, ranked: list[Row]) -> tuple[str, str]:
    """The line of figures and the line of causes of a case whose group is in the list."""
    group = [row for row in ranked if choice.has(row)]
    ours, theirs = ranked[0], group[0]
    quickest, nearest = (min(rows, key=lambda row: row["predicted_rank"]) for rows in (ranked, group))
    behind = theirs["step_time_s"] / ours["step_time_s"] - 1
    behind_quickest = nearest["step_time_s"] / quickest["step_time_s"] - 1
    chance = sum(row["best_probability"] for row in group)
    tie = " (tie)" if theirs["tie"] else ""
    figures = (
        f"| {choice.title} | {choice.label} | {theirs['rank']}{tie} | {nearest['predicted_rank']} of {len(ranked)} | "
        f"{chance:.1%} | {theirs['fit_probability']:.0%} | {behind:+.1%} | {behind_quickest:+.1%} |"
    )
    if theirs is ours:  # nothing to tell apart
        return figures, f"| {choice.title} | {coded(ours)} | the same | - | {ours['evidence']} | the same |"
    cause = one_cause(theirs, ours)
    in_theirs, in_ours = (max(row["time_s"].get(cause, 0.0), 0.0) for row in (theirs, ours))  # never "-0.00"
    seconds = f"{cause}: theirs {in_theirs:.2f} s, ours {in_ours:.2f} s"
    steps = f"{seconds} (steps {theirs['step_time_s']:.2f}, {ours['step_time_s']:.2f})"
    same = "the same" if theirs["evidence"] == ours["evidence"] else ours["evidence"]
    return figures, (f"| {choice.title} | {coded(theirs)} | {coded(ours)} | {steps} | {theirs['evidence']} | {same} |")


def missing(choice: Choice, ranked: list[Row], alone: Row) -> tuple[str, str]:
    """The same where no variant of the group is in the list; ``alone``: a search of the group by itself."""
    ours = ranked[0]
    own = [row for row in [*alone["ranked"], *alone["nearest"]] if choice.has(row)]
    theirs = own[0] if own else None
    if theirs is None:
        why, strategy = "no valid strategy", "-"
    else:
        why, strategy = f"{theirs['peak_memory_gib']:.1f} GiB at the least: does not fit", coded(theirs)
    if theirs is not None and theirs["fits"]:
        return behind_all(choice, theirs, ranked)
    head = f"| {choice.title} | {choice.label} | {why} | - of {len(ranked)} | 0 | - | - | - |"
    return head, f"| {choice.title} | {strategy} | {coded(ours)} | memory | - | {ours['evidence']} |"


def behind_all(choice: Choice, theirs: Row, ranked: list[Row]) -> tuple[str, str]:
    """Both lines of a group that fits and comes after all rows kept: a last row, which ties with none."""
    kept = len(ranked)
    after = {"rank": f"after {kept}", "predicted_rank": kept + 1, "tie": False, "best_probability": 0.0}
    return places(choice, [*ranked, {**theirs, **after}])


def lines(choice: Choice, folder: Path) -> tuple[str, str]:
    """Both lines of a case."""
    found = searched(choice, folder)
    ranked = found["ranked"]
    if found["timed_out"]:  # the places are among what was seen until then
        choice = replace(choice, title=f"{choice.title} (stopped after {TIMEOUT_S} s)")
    if any(choice.has(row) for row in ranked):
        return places(choice, ranked)
    axes = (("--tp", choice.tp), ("--pp", choice.pp), ("--ep", choice.ep))
    alone = searched(choice, folder, *(text for name, value in axes for text in (name, str(value))))
    return missing(choice, ranked, alone)


INTRODUCTION = """\
# What experts run, beside what the search advises

Written by `python scripts/published_choices.py`: for each published configuration one exhaustive search with today's
defaults of the software stack, over all that is valid (the large mixtures without CP and ETP, see the options under Sources).
A mirror: nothing in the tool knows these choices, and no constant was moved for them. Experts choose for more than speed
(stability, memory left for spikes, one layout for several jobs), and a prediction may be wrong: the distance is a question
to both sides, not a verdict.

A row stands for the TP/PP/EP/CP group (for Pangu with VPP 2) in whichever variant comes first in the default order, not for
all settings of the source. *Place*: in the default order (within a tie the simplest first); *predicted*: by predicted time
alone. *P(fastest)* is that of all the group's rows, *P(fits)* that of the row. *Behind ours*: its predicted step over that of
the first row of the default order (negative: the first row is simpler, not faster, by prediction); *behind the fastest*: the
group's fastest over the fastest of all, by prediction. A tie is one over the error model: where little is measured it reaches
far. Of the large mixtures 150 rows are kept; a group after them is priced by itself. MoE rankings are not
validated: of the measured problems nearly all are dense.
"""
FIGURES = "| published | group | place | predicted | P(fastest) | P(fits) | behind ours | behind the fastest |"
CAUSES = (
    "| published | theirs, the variant that stands for it | ours | the one cause | evidence, theirs | evidence, ours |"
)


def page(done: list[tuple[str, str]], taken: tuple[Choice, ...]) -> str:
    figures = "\n".join([FIGURES, "|" + "---|" * 8, *(first for first, _ in done)])
    causes = "\n".join([CAUSES, "|" + "---|" * 6, *(second for _, second in done)])
    sources = "\n".join(["| published | settings from |", "|---|---|", *(source_line(one) for one in taken)])
    why = "## Why they differ\n\nThe one cause in whose seconds the two steps differ most, and the measured runs behind each."
    return f"{INTRODUCTION}\n{figures}\n\n{why}\n\n{causes}\n\n## Sources\n\n{sources}\n"


def source_line(choice: Choice) -> str:
    options = " ".join(choice.options)
    asked = f"{choice.model} {choice.hardware} sequence {choice.seq_length} batch {choice.batch} {options}".strip()
    return f"| {choice.title} | {choice.source} ({asked}) |"


def main() -> int:
    with tempfile.TemporaryDirectory() as passing:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else passing)
        done: list[tuple[str, str]] = []
        for choice in CHOICES:
            done.append(lines(choice, folder))
            print(done[-1][0], flush=True)
            PAGE.write_text(page(done, CHOICES[: len(done)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
