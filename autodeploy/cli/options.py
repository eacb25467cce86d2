"""The options that ``search`` and ``estimate`` share, each written once, as types of Typer's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    str,
    typer.Argument(help="Zoo name, Hugging Face config.json, our YAML, Megatron arguments, or a launch script or log."),
]
StrategyText = Annotated[
    str | None,
    typer.Argument(metavar="STRATEGY", help="Such as TP8/PP16/VPP2/EP32/MBS2/full. [MODEL's, if a launch file]"),
]
Hardware = Annotated[str, typer.Option("--hardware", help="Profile name or YAML file.")]
Devices = Annotated[
    str | None, typer.Option("--devices", help="Cards; 512..6144 steps by node. [MODEL's, if a launch file]")
]
SeqLength = Annotated[
    int | None, typer.Option("--seq-length", help="Tokens in a sequence. [4096, or MODEL's, if a launch file]")
]
GlobalBatch = Annotated[
    int | None, typer.Option("--global-batch", help="Sequences in a step. [1024, or MODEL's, if a launch file]")
]
Precision = Annotated[
    str | None,
    typer.Option("--precision", help="Of the GEMMs: bf16, fp16, fp8, fp8_block, mxfp8, nvfp4. [bf16, or MODEL's]"),
]
VocabSize = Annotated[
    int | None,
    typer.Option("--vocab-size", help="Another than MODEL's; needed where a launch file leaves it to the tokenizer."),
]
Backend = Annotated[
    str | None, typer.Option("--backend", help="megatron, mindspeed, megatron-bridge, torchtitan or any. [by hardware]")
]
Imbalance = Annotated[
    float | None,
    typer.Option("--imbalance", help="Largest over mean load of an expert rank. [by hardware; 1 if dense]"),
]
SpareExperts = Annotated[
    int | None,
    typer.Option("--spare-experts", help="Slots beyond one an expert, over all expert ranks (replicas). [0]"),
]
Stack = Annotated[
    str | None, typer.Option("--stack", help="Software stack (`autodeploy stacks`) or YAML file. [by back end]")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="field=value of the stack, such as grad_dtype=bf16; repeatable.")
]
MemoryCap = Annotated[float | None, typer.Option("--memory-cap", help="GiB a card may reserve. [by hardware]")]
Tokens = Annotated[
    str | None, typer.Option("--tokens", help="Token budget, such as 15e12 or 15T: adds days and card-hours.")
]
Price = Annotated[
    str | None,
    typer.Option("--price-per-device-hour", help="Money per card-hour, or MACHINE=MONEY,...; needs --tokens."),
]
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
AxisMicroBatch = Annotated[str | None, typer.Option("--micro-batch", help="Sequences in a micro-batch.")]
AxisGroup = Annotated[str | None, typer.Option("--micro-batch-group", help="Micro-batches a chunk runs in a row.")]
AxisOffload = Annotated[str | None, typer.Option("--offload", help="Shares of the optimizer state kept on the host.")]
AxisSwap = Annotated[str | None, typer.Option("--swap", help="Shares of the saved activations swapped to the host.")]
AxisLayout = Annotated[str | None, typer.Option("--layout", help="Pipeline layout text, such as 'Et*3|(tt|)*29m|L'.")]
AxisRecompute = Annotated[str | None, typer.Option("--recompute", help="none, full, selective or selective(moe,...).")]
AxisSchedule = Annotated[str | None, typer.Option("--schedule", help="Pipeline schedules.")]
AxisZero = Annotated[str | None, typer.Option("--zero", help="Sharding stages 0, 1, 2, 3.")]
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
Measured = Annotated[
    list[Path] | None,
    typer.Option("--measured", help="Runs of your own (repeatable): training logs, or a CSV like the reference runs."),
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
Format = Annotated[str, typer.Option("--format", help="table, json or csv.")]
Report = Annotated[Path | None, typer.Option("--report", help="Also one self-contained page, FILE.html (extra plots).")]
Output = Annotated[Path | None, typer.Option("--output", help="File for the result instead of standard output.")]
