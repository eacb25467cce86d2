"""A calibration as a profile file: facts stay as they are written, the ``fits`` section is generated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from autodeploy.files import write_text

FITS_HEADER = """\
# ---------------------------------------------------------------------------------------------------------------------
# Fitted: written by `autodeploy calibrate` (shipped profiles: scripts/fit_profiles.py). Edits below are overwritten.
# Errors are absolute relative errors over `rows`; `derived` marks a curve taken over from a relative by a stated rule.
"""


class _Dumper(yaml.SafeDumper):
    """Plain numbers, short lists in one line."""


def render_fits(fits: dict[str, Any]) -> str:
    """The ``fits`` section: one line of constants and one of provenance for each curve."""
    lines = [FITS_HEADER + "fits:"]
    _render(fits, lines, indent=2)
    return "\n".join(lines) + "\n"


def _render(node: dict[str, Any], lines: list[str], indent: int) -> None:
    for key, value in node.items():
        if isinstance(value, dict) and not _is_curve(value):
            lines.append(f"{' ' * indent}{key}:")
            _render(value, lines, indent + 2)
        elif isinstance(value, dict):
            lines.append(f"{' ' * indent}{key}:")
            lines += [f"{' ' * (indent + 2)}{name}: {_scalar(inner)}" for name, inner in value.items()]
        else:
            lines.append(f"{' ' * indent}{key}: {_scalar(value)}")


def _is_curve(node: dict[str, Any]) -> bool:
    return any(not isinstance(value, dict) for value in node.values())


def _scalar(value: Any) -> str:
    """YAML of one value in one line."""
    text = yaml.dump(value, Dumper=_Dumper, default_flow_style=True, width=10_000, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def with_fits(text: str, fits: dict[str, Any]) -> str:
    """The profile text with its ``fits`` section replaced (or added)."""
    kept: list[str] = []
    for line in text.splitlines():
        if line.startswith("fits:") or line.startswith("# ------------------") or line == FITS_HEADER.split("\n")[0]:
            break
        kept.append(line)
    return "\n".join(kept).rstrip() + "\n\n" + render_fits(fits)


def user_profile(name: str, base: str, fits: dict[str, Any], summary: str = "") -> str:
    """A profile that extends ``base`` with the fitted curves."""
    head = {"name": name, "extends": base, "summary": summary or f"{base}, calibrated on own measurements"}
    note = "# Correct the device and tier figures here if yours differ from the base profile: see docs/hardware.md.\n"
    return f"{yaml.safe_dump(head, sort_keys=False, width=10_000)}{note}\n{render_fits(fits)}"


def write(path: Path, text: str) -> None:
    """Whole or not at all."""
    write_text(path, text)
