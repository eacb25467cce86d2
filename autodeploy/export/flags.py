"""Arguments as data, and a launch script made of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autodeploy.export.job import Job

WIDTH = 56  # columns before a comment

# The oldest release of Megatron-Core whose configuration has the field, found by looking through its wheels on PyPI.
SINCE = {
    "pipeline-model-parallel-layout": "0.13", "microbatch-group-size-per-virtual-pipeline-stage": "0.10",
    "expert-tensor-parallel-size": "0.10", "moe-flex-dispatcher-backend": "0.16",
    "overlap-moe-expert-parallel-comm": "0.14", "recompute-modules": "0.12", "optimizer-cpu-offload": "0.12",
    "optimizer-offload-fraction": "0.12", "fine-grained-activation-offloading": "0.16", "use-megatron-fsdp": "0.14",
    "use-custom-fsdp": "0.12", "data-parallel-sharding-strategy": "0.12", "use-precision-aware-optimizer": "0.11",
    "fp8-recipe": "0.12", "fp4-recipe": "0.15", "moe-router-force-load-balancing": "0.13", "mtp-num-layers": "0.12",
    "cross-entropy-fusion-impl": "0.12", "moe-router-num-groups": "0.11", "moe-router-enable-expert-bias": "0.11",
    "cuda-graph-impl": "0.15", "exp-avg-dtype": "0.11", "exp-avg-sq-dtype": "0.11", "moe-router-dtype": "0.12",
    "moe-shared-expert-gate": "0.16", "attention-backend": "0.11",
}  # fmt: skip
AFTER_LAST_WHEEL = {"activation-offload-fraction": "after core 0.16"}


@dataclass(frozen=True, slots=True)
class Flag:
    """``--name values``; ``note`` says why it differs from the program's default."""

    name: str
    values: tuple[str, ...] = ()
    note: str = ""

    @property
    def text(self) -> str:
        return " ".join([f"--{self.name}", *(shlex.quote(value) for value in self.values)])

    @property
    def comment(self) -> str:
        release = AFTER_LAST_WHEEL.get(self.name) or (f"core {SINCE[self.name]}" if self.name in SINCE else "")
        return "; ".join(
            part for part in (self.note, release and f"since {release}".replace("since after", "after")) if part
        )


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    flags: tuple[Flag, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """One of the environment."""

    name: str
    value: str
    note: str


def flag(name: str, *values: object, note: str = "") -> Flag:
    return Flag(name, tuple(str(value) for value in values), note)


def flat(sections: Iterable[Section]) -> list[Flag]:
    return [one for section in sections for one in section.flags]


def header(job: Job, target: str) -> list[str]:
    """First lines of every export, as comments."""
    return [
        f"{job.model.name} on {job.devices} x {job.hardware.name}, {target}",
        f"strategy: {job.strategy}",
        f"stack: {job.stack}",
        f"{job.global_batch} sequences of {job.seq_length} tokens a step: DP{job.dp}, {job.micro_batches} micro-batches",
        "written by `autodeploy export`; data, tokenizer, checkpoints and learning rate are yours to add",
    ]


def script(job: Job, target: str, variables: Sequence[Variable], sections: Sequence[Section]) -> str:
    """A bash script: one array of arguments per section, each argument with its comment."""
    lines = ["#!/usr/bin/env bash", *(f"# {line}" for line in header(job, target)), "set -euo pipefail", ""]
    lines += [_commented(f"export {v.name}={v.value}", v.note) for v in variables]
    names = []
    for section in sections:
        if not section.flags:
            continue
        name = section.title.upper().replace(" ", "_") + "_ARGS"
        names.append(name)
        lines += ["", f"{name}=(", *(_commented(f"    {one.text}", one.comment) for one in section.flags), ")"]
    arguments = " \\\n    ".join(f'"${{{name}[@]}}"' for name in names)
    lines += [
        "",
        f"torchrun --nproc-per-node {min(job.hardware.cards_per_node, job.devices)} --nnodes {job.nodes} \\",
        '    --node-rank "${NODE_RANK:-0}" --master-addr "${MASTER_ADDR:-localhost}" --master-port "${MASTER_PORT:-6000}" \\',
        "    pretrain_gpt.py \\",
        f'    {arguments} "$@"',
        "",
    ]
    return "\n".join(lines)


def _commented(text: str, comment: str) -> str:
    return f"{text:<{WIDTH}}  # {comment}" if comment else text
