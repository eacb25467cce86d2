"""``search --export-dir``: launch settings of the first rows, one file each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from autodeploy.errors import InputError
from autodeploy.files.write import write_text

if TYPE_CHECKING:
    from autodeploy.cli.case import LoadedCase


def export_rows(document: dict[str, Any], loaded: LoadedCase, folder: Path, count: int) -> list[Path]:
    """Writes the first ``count`` rows for the back end that was searched; a row that its program cannot express is told
    of and left out. Returns the files."""
    from autodeploy.cli.case import say
    from autodeploy.export import export_text, job_of, suffix_of

    if count < 1:
        raise InputError("--export-top", count, "a whole number >= 1")
    target = loaded.backend if loaded.backend != "any" else loaded.hardware.backend
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("--export-dir", str(folder), "a folder that can be made", str(error.strerror)) from None
    written = []
    for row in document["ranked"][:count]:
        path = folder / f"{loaded.hardware.name}-{row['rank']:02d}-{_plain(row['label'])}{suffix_of(target)}"
        try:
            job = job_of(row["strategy"], loaded.case, devices=row["devices"], backend=target, program=loaded.program)
            write_text(path, export_text(job, target), "--export-dir")
        except InputError as error:
            say(f"row {row['rank']} is not exported: {error}")
            continue
        except OSError as error:
            raise InputError("--export-dir", str(path), "a file that can be written", str(error.strerror)) from None
        written.append(path)
    if written:
        say(f"launch settings of {len(written)} rows for {target} are in {folder}")
    return written


def _plain(label: str) -> str:
    return label.replace("/", "-").lower()
