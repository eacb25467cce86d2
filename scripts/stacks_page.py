"""Writes docs/stacks.md: what a stack is, which ones ship, and every field that can be set.

python scripts/stacks_page.py            writes the page
python scripts/stacks_page.py --check    fails (exit 1) where the page is not what it would write
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from autodeploy.stacks.apply import shown
from autodeploy.stacks.fields import stack_fields
from autodeploy.stacks.show import list_document

PAGE = Path(__file__).resolve().parent.parent / "docs" / "stacks.md"
HEAD = """# Software stacks

What a step costs depends on the program that runs it: which gradients it keeps, what it overlaps, which operators it fuses.
A *stack* is such a program at a release, described in a YAML file with a source for every field. `--stack NAME` on `search`,
`estimate`, `simulate` and `balance layers` chooses one; left out, it is today's release of the back end. `--set field=value`
(repeatable) changes one field; a field that the stack leaves open is the machine's own, or the default below. `--stack` also
takes a YAML file of yours, which may `extends:` a shipped one. JSON entries say which stack they were priced with (`stack`).

    autodeploy stacks                       the stacks that ship
    autodeploy stacks nemo-25               one, every field with its source
    autodeploy estimate llama-3-70b TP4/PP4/VPP5 --hardware h100-sxm --devices 64 --stack nemo-25 --set grad_dtype=fp32

Some fields depend on the case, as the program's own recipes do: a rule in the file says where (`when:` precision, kind dense
or moe, maker or name of the machine, architecture gpt or llama). A file is checked against a schema; an unknown name or a bad
value is one line that says what is allowed. This page is written by `scripts/stacks_page.py`.

## Stacks that ship
"""


def page() -> str:
    stacks = [
        f"| `{row['name']}` | {row['default_of'] or ''} | {row['framework']} | {row['releases']} |"
        for row in list_document()["stacks"]
    ]
    fields = [
        f"| `{field.name}` | {shown(field.default)} | {field.allowed} | {field.meaning} |"
        for field in stack_fields().values()
    ]
    return "\n".join([
        HEAD, "| stack | default of | program | releases |", "| :-- | :-- | :-- | :-- |", *stacks,
        "", "## Fields", "", "| field | default | allowed | meaning |", "| :-- | :-- | :-- | :-- |", *fields, "",
    ])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page would change")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page():
        print("docs/stacks.md is not up to date: run scripts/stacks_page.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
