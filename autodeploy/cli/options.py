"""The options that ``estimate`` shares with other commands, each written once, as types of Typer's."""

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
AxisMicroBatch = Annotated[str | None, typer.Option("--micro-batch", help="Sequences in a micro-batch.")]
AxisRecompute = Annotated[str | None, typer.Option("--recompute", help="none, full, selective or selective(moe,...).")]
AxisSchedule = Annotated[str | None, typer.Option("--schedule", help="Pipeline schedules.")]
AxisZero = Annotated[str | None, typer.Option("--zero", help="Sharding stages 0, 1, 2, 3.")]
Measured = Annotated[
    list[Path] | None,
    typer.Option("--measured", help="Runs of your own (repeatable): training logs, or a CSV like the reference runs."),
]
Format = Annotated[str, typer.Option("--format", help="table, json or csv.")]
Report = Annotated[Path | None, typer.Option("--report", help="Also one self-contained page, FILE.html (extra plots).")]
Output = Annotated[Path | None, typer.Option("--output", help="File for the result instead of standard output.")]
