"""Training logs of Megatron-LM and MindSpeed-LLM: the step times, and the arguments the program printed."""

from __future__ import annotations

import re

import numpy as np

from autodeploy.calibrate.measurements import IterationLog
from autodeploy.errors import InputError

ITERATION = re.compile(r"iteration\s+(\d+)\s*/\s*\d+.*?elapsed time per iteration \(ms\):\s*([\d.]+)")
ARGUMENT = re.compile(r"^\s*(?:\[[^\]]*\]\s*:?\s*)?([a-z][a-z0-9_]*) \.{2,} (.+?)\s*$", re.MULTILINE)

WARM_UP_STEPS = 3  # compilation, first allocations, first communicators


def is_training_log(text: str) -> bool:
    return "elapsed time per iteration (ms):" in text


def parse_log(text: str, source: str) -> IterationLog:
    """Step times, the first ``WARM_UP_STEPS`` left out where more than twice as many follow."""
    steps = {int(number): float(ms) * 1e-3 for number, ms in ITERATION.findall(text)}
    seconds = np.array([value for _, value in sorted(steps.items()) if value > 0])
    if not seconds.size:
        raise InputError(
            source, "no iteration lines", "a log with `iteration ... | elapsed time per iteration (ms): ...`"
        )
    if seconds.size > 3 * WARM_UP_STEPS:
        seconds = seconds[WARM_UP_STEPS:]
    program = "mindspeed" if re.search(r"mindspeed|torch_npu|ascend", text, re.IGNORECASE) else "megatron"
    return IterationLog(seconds=seconds, source=source, program=program, arguments=parse_arguments(text))


def parse_arguments(text: str) -> dict[str, str]:
    """The arguments as the program lists them at start (``hidden_size ..... 8192``)."""
    return dict(ARGUMENT.findall(text))
