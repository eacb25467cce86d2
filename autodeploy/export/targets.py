"""The programs that an export is written for: a target is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autodeploy.errors import InputError
from autodeploy.export.deepspeed import deepspeed
from autodeploy.export.job import Job
from autodeploy.export.megatron import megatron
from autodeploy.export.megatron_bridge import megatron_bridge
from autodeploy.export.mindspeed import mindspeed
from autodeploy.export.torchtitan import torchtitan


@dataclass(frozen=True, slots=True)
class Target:
    """``backend``: whose rules the strategy must obey, and whose stack it runs on."""

    name: str
    write: Callable[[Job], str]
    suffix: str
    backend: str
    hardware: str  # unless one is named


TARGETS = {
    target.name: target
    for target in (
        Target("megatron", megatron, ".sh", "megatron", "h100-sxm"),
        Target("mindspeed", mindspeed, ".sh", "mindspeed", "atlas-800t-a2"),
        Target("megatron-bridge", megatron_bridge, ".yaml", "megatron-bridge", "h100-sxm"),
        Target("torchtitan", torchtitan, ".toml", "torchtitan", "h100-sxm"),
        Target("deepspeed", deepspeed, ".sh", "any", "h100-sxm"),
    )
}


def target_named(name: str) -> Target:
    if name not in TARGETS:
        raise InputError("--to", name, f"one of {', '.join(TARGETS)}")
    return TARGETS[name]


def export_text(job: Job, target: str) -> str:
    """The settings as text; InputError where the target cannot express them."""
    return target_named(target).write(job)


def suffix_of(target: str) -> str:
    return target_named(target).suffix
