"""Writes docs/launch.md: launch files in and out, explain and compare, with what each command prints.

python scripts/launch_page.py            # after a change that moves predictions
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
from pathlib import Path

from autodeploy.cli.app import main

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "launch.md"
SCRIPT = "tests/data/launch/megatron_arrays.sh"
TEXT = """# From your launch script to a better one

MODEL may be the file that starts your run: a Megatron-LM or MindSpeed-LLM script (variables, arrays, defaults such as
`${X:-8}`, files that it sources), a file of arguments, a training log with its dump of arguments, a Megatron-Bridge or
NeMo YAML, a torchtitan TOML, a script that launches DeepSpeed with its JSON. Model, batch, strategy and software stack are
those of the file; nothing of it is run. What the command line says wins. Every conflict, and everything that the file
leaves open, is told on standard error. STRATEGY and `--devices` may then be left out in `estimate`, `simulate`, `explain`
and `export`; `search FILE` shows below its rows where your own setting stands (`own` in JSON).

@0@

A vocabulary that only the tokenizer knows is read from its folder where that is here, or taken from a shipped model with
the same layers; `--vocab-size` says it. A script that starts FSDP2 from a YAML, and a DeepSpeed JSON by itself, say no
model: they are refused in one line.

## The whole on one page

`autodeploy advise FILE --hardware H --export-dir DIR` says what the file's own setting costs, the three single changes that
gain most, the decision of the search with its probabilities, the trials worth running, and writes their launch settings.
`autodeploy.advise/1`: `now`, `single_changes`, `decision`, `trials` (entries of the search), `exported`.

## What binds, and what to try

@1@

`gain` is of the step, each step alone; `why not` says what speaks against it. `autodeploy.explain/1`: `binds`,
`slowest_rank`, `largest_exposed`, `steps` (with `gain_s`, `fits`, `refused`, `better`, `why_not`), `advice`, `estimate`.

## Two strategies side by side

@2@

`autodeploy compare FILE B` takes A from a launch file; A and B may be launch files too. `autodeploy.compare/1`: `a`, `b`,
`difference_s`, `causes` (they sum to the difference), `single_changes`.

## A log against its prediction

@4@

The log needs the dump of its arguments and its iterations; timers (`--timing-log-level`) and the memory line are held
against their causes where they are there. `autodeploy.diagnose/1`: `measured`, `estimate`, `gap_s`, `inside_band`,
`explanations` (single suppositions, `explains_frac` of the gap), `changes`, `verdict`.

## Launch settings

`autodeploy export MODEL STRATEGY --to megatron|mindspeed|megatron-bridge|torchtitan|deepspeed` writes complete settings, a
comment at what is not the default, and the oldest Megatron-Core that has it. `search --export-dir DIR --export-top K` writes
those of the first rows.

@3@

| target | is | refused, with the reason |
|---|---|---|
| `megatron` | a script for Megatron-LM | what its arguments do not build: sliding windows, linear attention |
| `mindspeed` | the same for MindSpeed-LLM | shares of swap or offload; what dualpipev and fb-overlap exclude |
| `megatron-bridge` | a YAML of its ConfigContainer | as `megatron` |
| `torchtitan` | a TOML of its job config of 2025 | models it does not ship, MTP (`--set mtp=false`), swap, offload |
| `deepspeed` | a script with its JSON | pipelines, EP, CP, sequence parallel: they are code there |

Import of an export gives back the same strategy, model, batch and stack: a property test over valid strategies of ten
models. With the extra `megatron` (megatron-core and a torch for CPUs) the real configuration classes are built from the
exports. A field that you `--set` and that the target has no setting for is refused, not dropped.
"""
COMMANDS = (
    f"autodeploy estimate {SCRIPT} --hardware h100-sxm --seq-length 8192",
    "autodeploy explain llama-3-70b TP8/PP8/full --hardware h100-sxm --devices 128 --global-batch 256 --seq-length 8192",
    "autodeploy compare llama-3-70b TP8/PP8/full TP4/PP4/VPP4 --hardware h100-sxm --devices 128 --global-batch 256 "
    "--seq-length 8192",
    "autodeploy export pangu-ultra-moe-718b TP8/PP16/VPP2/EP32/MBS2 --to mindspeed --devices 6144 --seq-length 8192 "
    "--global-batch 4608",
    "autodeploy diagnose tests/data/launch/training.log --hardware h100-sxm",
)


def printed(command: str) -> str:
    """The command and what it says, standard error first."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(shlex.split(command)[1:])
    if code:
        raise SystemExit(f"{command}: exit code {code}: {err.getvalue()}")
    return f"```\n{command}\n```\n\n```\n{err.getvalue()}{out.getvalue().rstrip()}\n```"


if __name__ == "__main__":
    os.chdir(ROOT)
    text = TEXT
    for i, command in enumerate(COMMANDS):
        text = text.replace(f"@{i}@", printed(command))
    PAGE.write_text(text, encoding="utf-8")
