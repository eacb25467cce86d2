"""The options of ``search``, some of which other commands take too, each written once, as types of Typer's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Machines = Annotated[
    str, typer.Option("--hardware", help="Profile names or YAML files; several, with commas, are compared.")
]
Phase = Annotated[
    list[str] | None,
    typer.Option("--phase", help="Of a job in phases, in order: seq=4096,batch=1024,tokens=10T; repeat it."),
]
Within = Annotated[str | None, typer.Option("--within", help="Deadline of the job, such as 60d; needs --tokens.")]
MaxCost = Annotated[str | None, typer.Option("--max-cost", help="Money for the job, such as 20M; needs --tokens.")]
PlanPicture = Annotated[Path | None, typer.Option("--picture", help="SVG file: days against cost; needs --tokens.")]
Mtbf = Annotated[
    float | None, typer.Option("--mtbf-hours", help="Hours between failures of one card. [50,676: Llama 3's fleet]")
]
CheckpointRate = Annotated[
    float, typer.Option("--checkpoint-gb-per-s", help="GB/s that the storage takes in from the whole job.")
]
Restart = Annotated[float, typer.Option("--restart-s", help="Seconds from a failure until training goes on.")]
AxisTp = Annotated[str | None, typer.Option("--tp", help="Tensor parallel sizes.")]
AxisPp = Annotated[str | None, typer.Option("--pp", help="Pipeline parallel sizes.")]
AxisVpp = Annotated[str | None, typer.Option("--vpp", help="Virtual stages (chunks) per rank.")]
AxisCp = Annotated[str | None, typer.Option("--cp", help="Context parallel sizes.")]
AxisEp = Annotated[str | None, typer.Option("--ep", help="Expert parallel sizes.")]
AxisEtp = Annotated[str | None, typer.Option("--etp", help="Expert tensor parallel sizes.")]
AxisDp = Annotated[str | None, typer.Option("--dp", help="Data parallel sizes.")]
AxisGroup = Annotated[str | None, typer.Option("--micro-batch-group", help="Micro-batches a chunk runs in a row.")]
AxisOffload = Annotated[str | None, typer.Option("--offload", help="Shares of the optimizer state kept on the host.")]
AxisSwap = Annotated[str | None, typer.Option("--swap", help="Shares of the saved activations swapped to the host.")]
AxisLayout = Annotated[str | None, typer.Option("--layout", help="Pipeline layout text, such as 'Et*3|(tt|)*29m|L'.")]
AxisDispatcher = Annotated[str | None, typer.Option("--dispatcher", help="How expert tokens travel.")]
AxisEpOverlap = Annotated[
    bool | None, typer.Option("--ep-overlap/--no-ep-overlap", help="Expert communication under computing.")
]
AxisSequenceParallel = Annotated[
    bool | None, typer.Option("--sequence-parallel/--no-sequence-parallel", help="With TP > 1. [on]")
]
Objective = Annotated[str, typer.Option("--objective", help="time, tokens, memory, cost or pareto (time and memory).")]
Method = Annotated[str, typer.Option("--method", help="auto, exhaustive, tpe, nsga2 or random.")]
Trials = Annotated[
    int | None,
    typer.Option("--trials", help="Trials of an Optuna study. [200 where a study is asked for]", min=0, max=1_000_000),
]
Timeout = Annotated[float | None, typer.Option("--timeout", help="Seconds after which what was found is ranked.")]
Storage = Annotated[str | None, typer.Option("--storage", help="Optuna storage URL. [in memory]")]
Study = Annotated[
    str | None, typer.Option("--study", help="Name of the study in the storage; an existing one goes on.")
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", help="Processes that screen. [as many as the space is worth]", min=1, max=1024),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the study.", min=0, max=2**32 - 1)]
Audit = Annotated[bool, typer.Option("--audit", help="Price also what pruning skips.")]
Top = Annotated[int, typer.Option("--top", help="Rows to rank.")]
AllVariants = Annotated[
    bool, typer.Option("--all-variants", help="One row per strategy, not per TP/PP/VPP/EP/ETP/CP group.")
]
RankBy = Annotated[
    str,
    typer.Option("--rank-by", help="expected (over the error model; within a tie the simplest first) or predicted."),
]
FitProbability = Annotated[
    float, typer.Option("--fit-probability", help="Rows less likely to fit are ranked below the others.")
]
Rejected = Annotated[
    Path | None, typer.Option("--rejected", help="File for what was left out and why (.csv or .json).")
]
ExportDir = Annotated[
    Path | None, typer.Option("--export-dir", help="Folder for the launch settings of the first rows.")
]
ExportTop = Annotated[int, typer.Option("--export-top", help="Rows whose settings --export-dir takes.")]
