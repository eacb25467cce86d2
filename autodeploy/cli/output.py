"""Where a result goes, and in which format."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from autodeploy.errors import InputError

FORMATS = ("table", "json", "csv")
PAGES = (".html", ".htm")


def check_format(name: str) -> None:
    if name not in FORMATS:
        raise InputError("--format", name, f"one of {', '.join(FORMATS)}")


def check_writable(option: str, path: Path | None) -> None:
    """Says before the work, not after it, that a file cannot be written."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(option, str(path), "a file", "this is a folder")
    if not path.absolute().parent.is_dir():
        raise InputError(option, str(path), "in a folder that exists", f"create {path.absolute().parent}")


def check_report(path: Path | None) -> None:
    """Says before the work that the page could not be written or drawn."""
    if path is None:
        return
    from autodeploy.report.html import plotly_js

    if path.suffix not in PAGES:
        raise InputError("--report", str(path), f"a file that ends in {' or '.join(PAGES)}")
    check_writable("--report", path)
    plotly_js()


def write_report(path: Path | None, document: Mapping[str, Any], picture: str = "") -> None:
    """The document as one page, where ``--report`` asks for it; ``picture``: the timeline of a replayed step."""
    if path is None:
        return
    from autodeploy.files.write import write_text
    from autodeploy.report.html import report_html

    write_text(path, report_html(document, picture), "--report")
    print(f"report: {path}", file=sys.stderr)


def emit(text: str, output: Path | None) -> None:
    """Writes the result, ending in one newline."""
    text = text.rstrip("\n") + "\n"
    if output is None:
        sys.stdout.write(text)
        return
    from autodeploy.files.write import write_text

    write_text(output, text)


def render(name: str, document: dict[str, Any], table: Callable[[], str], csv: Callable[[], str]) -> str:
    """``document`` in the format asked for."""
    if name == "json":
        import json

        return json.dumps(document, indent=1, allow_nan=False)
    return table() if name == "table" else csv()
