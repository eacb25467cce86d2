"""Read load histories, token-level choices and placements from files.

History formats: npz (array ``loads``), CSV (columns step, layer, expert, tokens), JSON lines
({"step": 0, "layer": 0, "loads": [tokens of expert 0, ...]}). In an npz, ``loads`` is [T, L, E] or [L, E].
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from autodeploy.balance.experts.placement import F64, I64, Placement
from autodeploy.balance.experts.validate import check_loads
from autodeploy.errors import InputError

FORMATS = {".npz": "npz", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
_Row = tuple[int, int, list[tuple[int, float]]]  # step, layer, (expert, tokens)


def read_history(path: str | Path, input_format: str = "", experts: int = 0) -> F64:
    """Tokens per expert [T, L, E]; the format is guessed from the file's name, or its first bytes.

    ``experts`` adds those that the file lacks because they were idle; 0 takes the highest id for the last.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError("input", str(path), "a file that exists")
    kind = input_format or _guess(path)
    readers = {"npz": _read_npz, "csv": _read_csv, "jsonl": _read_json_lines}
    if kind not in readers:
        raise InputError("input_format", kind, f"one of {', '.join(readers)}")
    loads = readers[kind](path)
    if loads.ndim == 2:
        loads = loads[None]
    return widened(check_loads(loads, dimensions=3), experts)


def widened(loads: F64, experts: int) -> F64:
    """Loads [T, L, E] with idle experts added at the end, up to ``experts``; 0: as they are."""
    if not experts:
        return loads
    if experts < loads.shape[2]:  # negative ones too
        raise InputError("--experts", experts, f"at least the {loads.shape[2]} of the input")
    return np.pad(loads, ((0, 0), (0, 0), (0, experts - loads.shape[2])))


def _guess(path: Path) -> str:
    if path.suffix.lower() in FORMATS:
        return FORMATS[path.suffix.lower()]
    with path.open("rb") as file:
        head = file.read(1)
    return {b"P": "npz", b"{": "jsonl"}.get(head, "csv")


def _read_npz(path: Path) -> F64:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if "loads" not in arrays:
                raise InputError("input", sorted(arrays), "an npz with an array named loads [steps, layers, experts]")
            return np.asarray(arrays["loads"])
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("input", str(path), "an npz file that numpy can read", str(error)) from error


def _read_csv(path: Path) -> F64:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        missing = {"step", "layer", "expert", "tokens"} - set(reader.fieldnames or ())
        if missing:
            raise InputError(
                "input", reader.fieldnames, "a CSV with columns step, layer, expert, tokens", f"add {sorted(missing)}"
            )
        return _assemble(_csv_rows(reader))


def _csv_rows(reader: csv.DictReader[str]) -> Iterator[_Row]:
    for row in reader:
        try:
            yield int(row["step"]), int(row["layer"]), [(int(row["expert"]), float(row["tokens"]))]
        except (TypeError, ValueError) as error:
            raise InputError(f"input line {reader.line_num}", dict(row), "numbers in all four columns") from error


def _read_json_lines(path: Path) -> F64:
    def rows() -> Iterator[_Row]:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _json_row(number, line)

    return _assemble(rows())


def _json_row(number: int, line: str) -> _Row:
    try:
        row = json.loads(line)
        return int(row["step"]), int(row["layer"]), [(e, float(tokens)) for e, tokens in enumerate(row["loads"])]
    except (TypeError, ValueError, KeyError) as error:
        allowed = 'an object like {"step": 0, "layer": 0, "loads": [12, 7]}'
        raise InputError(f"input line {number}", line.strip(), allowed) from error


def _assemble(rows: Iterator[_Row]) -> F64:
    """[T, L, E] from sparse rows: steps and layers in ascending order; experts absent from a row had no tokens."""
    cells = list(rows)
    if not cells:
        raise InputError("input", "no rows", "at least one step, layer and expert", "give a history that is not empty")
    steps = {step: i for i, step in enumerate(sorted({row[0] for row in cells}))}
    layers = {layer: i for i, layer in enumerate(sorted({row[1] for row in cells}))}
    ids = [expert for row in cells for expert, _ in row[2]]
    if not ids or min(ids) < 0:
        raise InputError("expert", min(ids, default=None), "whole numbers >= 0")
    loads = np.zeros((len(steps), len(layers), max(ids) + 1))
    seen = np.zeros(loads.shape[:2], dtype=bool)
    for step, layer, tokens in cells:
        seen[steps[step], layers[layer]] = True
        for expert, count in tokens:
            loads[steps[step], layers[layer], expert] += count
    if not seen.all():
        i, j = np.argwhere(~seen)[0]
        where = f"step {sorted(steps)[i]} has no row of layer {sorted(layers)[j]}"
        raise InputError("input", where, "every layer in every step", "drop the incomplete step")
    return loads


def read_choices(path: str | Path, experts: int) -> I64:
    """Expert ids chosen by each token [T, L, tokens, top-k], from an npz with an array ``choices``."""
    with np.load(path, allow_pickle=False) as arrays:
        if "choices" not in arrays:
            raise InputError("choices", sorted(arrays), "an npz with an array named choices [steps, layers, tokens, k]")
        choices = arrays["choices"].astype(np.int64)
    if choices.ndim != 4 or choices.size == 0:
        raise InputError("choices", choices.shape, "an array [steps, layers, tokens, k]")
    if choices.min() < 0 or choices.max() >= experts:
        raise InputError("choices", int(choices.max()), f"expert ids in 0..{experts - 1}")
    return choices


def read_placement(path: str | Path, layers: int, experts: int, cards: int) -> Placement:
    """A placement: JSON [[experts of card 0], [of card 1], ...] for all layers alike, or a list of such by layer.

    An object with the key ``placement`` and an npz with an array of that name are read too.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError("placement", str(path), "a file that exists")
    try:
        if path.suffix.lower() == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                slots = np.asarray(arrays["placement"], dtype=np.int64)
        else:
            data = json.loads(path.read_text(encoding="utf-8"))
            slots = np.array(data["placement"] if isinstance(data, dict) else data, dtype=np.int64)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError("placement", str(path), "equal numbers of expert ids on every card", str(error)) from error
    if slots.ndim == 2:
        slots = np.repeat(slots[None], layers, axis=0)
    if slots.ndim != 3 or slots.shape[:2] != (layers, cards):
        raise InputError(
            "placement", slots.shape, f"[{layers} layers, {cards} cards, slots]", "match --nodes and cards"
        )
    return Placement(slots, experts)
