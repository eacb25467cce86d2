#!/usr/bin/env python3
"""Regenerates the `training` section of the shipped profiles from the published runs.

    python scripts/fit_training.py [DIE...]

A die names the profiles that share its silicon and the devices whose runs determine them. Families held
out of every fit are not used; their error is printed and written beside the constants.
"""

from __future__ import annotations

import re
import sys

import yaml

from autodeploy.accuracy.cases import RunCase, build_cases
from autodeploy.accuracy.held_out import held_out_families
from autodeploy.accuracy.loader import RunSet, read_runs
from autodeploy.calibrate.fit_training import error_text, fit_die, training_section
from autodeploy.calibrate.write import write
from autodeploy.hardware.library import profiles_folder

# die -> profile -> devices of the runs. Profiles of one die share its constants, partially pooled.
DIES: dict[str, dict[str, tuple[str, ...]]] = {
    "a100": {"a100-80g-sxm": ("a100-80g",)},
    "h100": {"h100-sxm": ("h100-sxm", "h800")},
    "blackwell": {"b200": ("b200",), "gb200-nvl72": ("gb200",), "b300": ("b300",), "gb300-nvl72": ("gb300",)},
    "mi300": {"mi300x": ("mi300x",), "mi355x": ("mi355x",)},
    "ascend-910": {"atlas-800t-a2": ("ascend-910b", "ascend-910b-376t", "ascend-910b-313t", "ascend-910c-die")},
}
# Programs of another kind, or their own machine.
LEFT_OUT = ("llm_foundry", "torchtitan", "automodel", "ms_swift")
# DeepSeek-V3 on GB200 in the "non-tuned recipe" of NeMo 25.04 takes 34 s at any size, twice what every later release takes:
# no mechanism here explains it, and a clock that did would be wrong for all others.
UNEXPLAINED = ("dgxc-v25-05-05-dsv3-gb200",)


HEADER = """\
# What whole training runs determine, on top of data sheets and operator tables: written by scripts/fit_training.py.
"""


def main() -> int:
    names = sys.argv[1:] or list(DIES)
    run_set = read_runs()
    held_out = held_out_families(run_set.runs)
    for name in names:
        cases = {profile: _cases(run_set, devices) for profile, devices in DIES[name].items()}
        fitted = {profile: [c for c in each if c.run.family not in held_out] for profile, each in cases.items()}
        for profile, values in fit_die(fitted).items():
            data = error_text(cases[profile], values, held_out)
            path = profiles_folder() / f"{profile}.yaml"
            section = training_section(values, data)
            write(path, with_training(path.read_text(encoding="utf-8"), section))
            print(
                f"{profile}: {data}\n   ", {key: value for key, value in section.items() if key != "data"}, flush=True
            )
    return 0


def _cases(run_set: RunSet, devices: tuple[str, ...]) -> list[RunCase]:
    runs = [
        run for run in run_set.runs
        if run.device in devices and run.group not in LEFT_OUT and run.gated and run.step_time_s
        and not run.id.startswith(("ci-", *UNEXPLAINED))
    ]  # fmt: skip
    return build_cases(run_set, runs).cases


def with_training(text: str, section: dict) -> str:
    """The profile text with its training section replaced, or put before the fits."""
    lines = [f"  {key}: {yaml.safe_dump(value, width=10_000).splitlines()[0]}" for key, value in section.items()]
    block = HEADER + "training:\n" + "\n".join(lines) + "\n\n"
    text = re.sub(rf"(?m)^{re.escape(HEADER)}training:\n(?:  .*\n)*\n?", "", text)
    at = re.search(r"(?m)^(# -{20,}\n)?(# Fitted|fits:)", text)
    if at is None:
        return text.rstrip() + "\n\n" + block
    return text[: at.start()] + block + text[at.start() :]


if __name__ == "__main__":
    sys.exit(main())
