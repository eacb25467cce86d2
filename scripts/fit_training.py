#!/usr/bin/env python3
"""Regenerates the `training` section of the shipped profiles from the published runs.

    python scripts/fit_training.py [NAME...]

Each recipe names the profiles that share one set of constants and the devices whose runs determine them. Families held
out of every fit are not used; their error is printed and written beside the constants.
"""

from __future__ import annotations

import re
import sys

import yaml

from autodeploy.accuracy.cases import build_cases
from autodeploy.accuracy.held_out import held_out_families
from autodeploy.accuracy.loader import read_runs
from autodeploy.calibrate.fit_training import error_text, fit_constants, training_section
from autodeploy.calibrate.write import write
from autodeploy.hardware.library import profiles_folder

# profile -> (devices of the runs, sources left out: programs of another kind, or their own machine)
RECIPES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "a100-80g-sxm": (("a100-80g",), ("llm_foundry", "torchtitan")),
    "h100-sxm": (("h100-sxm",), ("llm_foundry", "torchtitan", "automodel")),
    "b200": (("b200",), ()),
    "b300": (("b300",), ()),
    "gb200-nvl72": (("gb200",), ()),
    "gb300-nvl72": (("gb300",), ()),
    "atlas-800t-a2": (("ascend-910b", "ascend-910b-376t", "ascend-910b-313t", "ascend-910c-die"), ()),
}
HEADER = """\
# What whole training runs determine, on top of data sheets and operator tables: written by scripts/fit_training.py.
"""


def main() -> int:
    names = sys.argv[1:] or list(RECIPES)
    run_set = read_runs()
    held_out = held_out_families(run_set.runs)
    for name in names:
        devices, left_out = RECIPES[name]
        runs = [
            run for run in run_set.runs
            if run.device in devices and run.group not in left_out and run.gated and run.step_time_s
            and not run.id.startswith("ci-")
        ]  # fmt: skip
        cases = build_cases(run_set, runs).cases
        values = fit_constants([case for case in cases if case.run.family not in held_out])
        data = error_text(cases, values, held_out)
        path = profiles_folder() / f"{name}.yaml"
        write(path, with_training(path.read_text(encoding="utf-8"), training_section(values, data)))
        print(f"{name}: {data}")
        print("   ", {key: value for key, value in training_section(values, data).items() if key != "data"}, flush=True)
    return 0


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
