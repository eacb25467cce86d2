"""Reading and writing files at the border: bounded, guarded, one line for whatever is wrong; outputs whole or not at all."""

from autodeploy.files.arrays import load_arrays, numbers
from autodeploy.files.guard import guarded, read_bytes, read_text
from autodeploy.files.parse import csv_rows, parse_json, parse_yaml
from autodeploy.files.write import write_text

__all__ = [
    "csv_rows",
    "guarded",
    "load_arrays",
    "numbers",
    "parse_json",
    "parse_yaml",
    "read_bytes",
    "read_text",
    "write_text",
]
