"""Writes docs/commands.md: ten commands as a user would type them, each beside the step that was measured.

python scripts/commands_page.py            writes the page
python scripts/commands_page.py --check    fails (exit 1) where the page is not what it would write
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from autodeploy.accuracy import RunResult, compare, read_runs
from autodeploy.report.error_band import band_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
# Chosen for breadth (dense and mixtures of experts; H100, GB200, MI300X, Ascend; fp8, mxfp8 and 16 bit; seven programs), not
# for how well they are predicted.
RUNS = (
    "dgxc-v25-04-02-llama3-70b-h100-sxm-512-bf16-gbs1024",
    "dgxc-v25-04-02-nemotron4-340b-h100-sxm-512-fp8-gbs128",
    "torchtitan-llama31-8b-128-compile-fp8",
    "mbridge-26-04-01-qwen3-235b-a22b-h100-sxm-256-fp8-gbs8192",
    "modelzoo-qwen3-235b-h100-256-bf16-65536-dropless",
    "mbridge-26-04-01-llama3-70b-gb200-64-mxfp8-gbs256",
    "mbridge-26-08-qwen3-235b-a22b-gb200-256-mxfp8-gbs8192",
    "primus-mixtral-8x22b-mi300x-32-pr55",
    "llama2-70b-4k-rc3",
    "kimi-k2-1t-a3-1024die",
)
HEAD = """# Ten commands and the steps that were measured

Each command below is what a user would type for a published run: model, strategy, machine, cards, sizes, precision, back end
and the [software stack](stacks.md) of the run's framework and release; `--imbalance 1` where the run forced its routing to
be even, and the attention kernel where the source names one. Nothing else is set. This page is written by
`scripts/commands_page.py`, and a test runs every command. `autodeploy accuracy --format json` has the command of every
published run; [Accuracy](accuracy.md) has the errors by source.

The band is what the command prints as `step_time_error_frac`: nine of ten runs like this one, of a
source that the table has never seen, are off by less. Here, as in `accuracy`, the run's own family has no say in it.
"""


def results() -> list[RunResult]:
    run_set = read_runs()
    by_id = {run.id: run for run in run_set.runs}
    return list(compare(run_set, runs=[by_id[name] for name in RUNS]).results)


def page(found: list[RunResult]) -> str:
    parts = [HEAD]
    for result in found:
        run, typed = result.run, result.typed
        assert typed is not None and run.step_time_s is not None
        band = band_of(typed.like, without=run.family)
        error = result.as_typed_time_error_frac or 0.0
        inside = "inside the band" if abs(error) <= band.frac else "outside the band"
        parts.append(
            f"## {run.model} on {run.num_devices} {run.device}, {run.precision}\n\n"
            f"```\n{wrapped(typed.command)}\n```\n\n"
            f"Measured **{run.step_time_s:.4g} s**, printed **{typed.step_s:.4g} s**: {error:+.1%}, {inside} of "
            f"{band.frac:.0%} ({band.group}; {band.runs} runs). Source: {run.source}.\n"
        )
    return "\n".join(parts)


def wrapped(command: str) -> str:
    """A line for each option, as a shell reads it."""
    return command.replace(" --", " \\\n  --")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page would change")
    check = parser.parse_args().check
    text = page(results())
    if not check:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        print("docs/commands.md is not up to date: run scripts/commands_page.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
