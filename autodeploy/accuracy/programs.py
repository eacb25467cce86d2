"""Which stack a run was made with: from its framework and its release, and from nothing else.

The framework stands in ``extra`` ("framework", "software"), or follows from the source (the README of the runs says what
each source ran; another source is known by the repository that it cites). The release ends the family's name, or stands in
the citation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autodeploy.accuracy.loader import Run

Era = tuple[tuple[int, int], str]  # (first release, stack)
ANY = (0, 0)
# NVIDIA's containers: NeMo 1, NeMo 2 and then Megatron-Bridge, numbered by year and month.
NEMO: tuple[Era, ...] = (
    (ANY, "nemo-2023"), ((24, 4), "nemo-24"), ((24, 11), "nemo-24.11"), ((25, 4), "nemo-25"),
    ((25, 9), "megatron-bridge-25.09"), ((25, 10), "megatron-bridge-25"), ((26, 1), "megatron-bridge-26"),
    ((26, 6), "megatron-bridge-26.06"),
)  # fmt: skip
TORCHTITAN: tuple[Era, ...] = ((ANY, "torchtitan-2024"), ((24, 12), "torchtitan-2025"))
MINDSPEED: tuple[Era, ...] = ((ANY, "mindspeed-llm-1"), ((25, 1), "mindspeed-llm-2"))
CORE: tuple[Era, ...] = ((ANY, "megatron-core-2024"), ((25, 1), "megatron-core-2025"), ((25, 10), "megatron-core-2026"))


@dataclass(frozen=True, slots=True)
class Framework:
    """``words``: a pattern for what the framework is called; ``unknown``: its stack where no release is stated."""

    words: str
    eras: tuple[Era, ...]
    unknown: str


def _one(words: str, stack: str) -> Framework:
    return Framework(words, ((ANY, stack),), stack)


# First match wins: forks and launchers stand before what they are made of.
FRAMEWORKS: tuple[Framework, ...] = (
    _one(r"2412\.19437", "deepseek-v3-2024"),
    _one(r"maxtext", "maxtext-2024"),
    _one(r"automodel", "nemo-automodel"),
    _one(r"megatron_bridge_skills|megatron-bridge.*skills", "megatron-bridge-26-library"),
    Framework(r"megatron.bridge", NEMO, "megatron-bridge-26.06"),
    Framework(r"\bnemo2\b|dgxc", NEMO, "nemo-25"),
    Framework(r"nemo.?(framework.)?launcher|\bnemo1?\b", NEMO, "nemo-24"),
    _one(r"mindformers", "mindformers-1"),
    Framework(r"mindspeed|ascend|pangu", MINDSPEED, "mindspeed-llm-2"),
    Framework(r"torchtitan", TORCHTITAN, "torchtitan-2025"),
    _one(r"llm.foundry|mosaicml", "fsdp-llm-foundry"),
    _one(r"bigscience|bloom_bench", "megatron-deepspeed-bigscience"),
    _one(r"vtrain_single", "megatron-deepspeed-composed"),
    _one(r"megatron.deepspeed|vtrain|mtnlg|mt-nlg|glm-130b", "megatron-deepspeed"),
    _one(r"hagemann|aleph.alpha", "scaling-2023"),
    _one(r"narayanan", "megatron-lm-2021"),
    _one(r"korthikanti|zero.?bubble", "megatron-lm-2022"),
    _one(r"primus", "primus"),
    _one(r"simumax", "megatron-core-2025-simumax"),
    _one(r"ms.swift|pai-megatron|xtuner", "megatron-core-2025"),
    _one(r"modelzoo|mcore_moe_report|2603\.07685", "megatron-core-2026"),
    _one(r"moe_folding|2504\.14960|nemotron", "megatron-core-2024"),
    _one(r"megatron_h100_2024", "megatron-core-2024-scaling"),
    Framework(r"megatron.(core|lm)|\bmegatron\b", CORE, "megatron-core-2024"),
    _one(r"fsdp|pytorch|accelerate|transformers|llama 3 herd", "fsdp-pytorch"),
)


def stack_of(run: Run) -> str:
    """Name of the run's stack."""
    framework = framework_of(run)
    if framework is None:
        return _by_machine(run)
    release = release_of(run)
    if release is None:
        return framework.unknown
    return [stack for first, stack in framework.eras if first <= release][-1]


def framework_of(run: Run) -> Framework | None:
    """What states the framework most directly decides: the row's own words, then its source, then its citation."""
    own = f"{run.extra.get('framework', '')} {run.extra.get('software', '')}"
    if run.group == "ascend" and "mindformers" in run.source.lower():
        own += " mindformers"
    for text in (own, run.group, run.source):
        for framework in FRAMEWORKS:
            if re.search(framework.words, text.lower()):
                return framework
    return None


_RELEASE = (
    r"(?:^|/)v?(\d\d)\.(\d\d)(?:\.\d+)?$",  # of a family: NVIDIA's containers
    r"(?:^|/)(?:20)?(\d\d)-(\d\d)$",  # of a family: year and month
    r"container (\d\d)\.(\d\d)",
    r"(?<![0-9a-f])(?:20)?(2\d)-?(0[1-9]|1[0-2])(?![0-9a-f])",  # of a citation: 2025-06, 202412, an arXiv number
)


def release_of(run: Run) -> tuple[int, int] | None:
    """(year, month) of the release; None where the row does not say."""
    if "1.0.RC" in run.source:
        return (24, 12)  # MindSpeed-LLM counts versions; 1.0.RC3 is of the end of 2024
    for pattern, text in ((p, t) for t in (run.family, run.source) for p in _RELEASE):
        found = re.search(pattern, text)
        if found:
            return int(found.group(1)), int(found.group(2))
    if "docs/performance.md" in run.source:  # torchtitan's page of July 2024, before its dated benchmarks
        return (24, 7)
    return None


def _by_machine(run: Run) -> str:
    """A program that nobody names: the usual one of its machine and its kind of sharding."""
    if run.device.startswith(("ascend", "atlas", "cloudmatrix")):
        return "mindspeed-llm-2"
    if run.fsdp or run.zero_stage == 3:
        return "fsdp-pytorch"
    if run.device.startswith("mi3"):
        return "primus"
    return "megatron-core-2025"
