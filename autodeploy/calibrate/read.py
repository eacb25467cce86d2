"""Files of any supported kind to measurements, recognised by their content."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from autodeploy import files
from autodeploy.calibrate.measurements import Table
from autodeploy.calibrate.parse_logs import is_training_log, parse_log
from autodeploy.calibrate.parse_tables import parse_csv
from autodeploy.calibrate.parse_text import is_hccl_text, is_nccl_text, parse_hccl_text, parse_nccl_text
from autodeploy.errors import InputError

LARGEST_BYTES = 256 * 2**20  # a log of a long run
KINDS = "a CSV of measured operators, a print of nccl-tests, rccl-tests or hccl_test, or a Megatron or MindSpeed log"


def read_measurements(paths: Iterable[str | Path]) -> list[Table]:
    """All tables of all files, in their order."""
    return [table for path in paths for table in read_file(Path(path))]


def read_file(path: Path) -> list[Table]:
    """The tables of one file; InputError names the file and what is readable."""
    text = files.read_text(path, f"measurements: {KINDS}", LARGEST_BYTES)
    with files.guarded(path, f"measurements: {KINDS}"):
        return parse(text, path.name)


def parse(text: str, source: str) -> list[Table]:
    """Tables of a text whose origin is called ``source``."""
    if is_nccl_text(text):
        return [parse_nccl_text(text, source)]
    if is_hccl_text(text):
        return [parse_hccl_text(text, source)]
    if is_training_log(text):
        return [parse_log(text, source)]
    if "," in text.split("\n", 1)[0]:
        return parse_csv(text, source)
    raise InputError("measurements", source, KINDS, "see docs/calibrate.md for an example of each")
