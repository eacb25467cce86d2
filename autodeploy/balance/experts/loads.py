"""Read load histories, token-level choices and placements from files.

History formats: npz (array ``loads``), CSV (columns step, layer, expert, tokens), JSON lines
({"step": 0, "layer": 0, "loads": [tokens of expert 0, ...]}). In an npz, ``loads`` is [T, L, E] or [L, E].
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from autodeploy.balance.experts.placement import F64, I64, Placement
from autodeploy.balance.experts.validate import check_loads
from autodeploy.errors import InputError
from autodeploy.files import csv_rows, guarded, load_arrays, numbers, parse_json, read_text

LARGEST_BYTES = 2**30  # a long history in text
MOST_CELLS = 2**28  # steps x layers x experts: 2 GiB of loads
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
    allowed = "an npz with an array named loads [steps, layers, experts]"
    arrays = load_arrays(path, allowed)
    return numbers(arrays, "loads", path, allowed)


def _read_csv(path: Path) -> F64:
    allowed = "a CSV with columns step, layer, expert, tokens"
    rows = csv_rows(read_text(path, allowed, LARGEST_BYTES), str(path))
    missing = {"step", "layer", "expert", "tokens"} - set(rows[0] if rows else ())
    if missing:
        raise InputError("input", sorted(rows[0] if rows else ()), allowed, f"add {sorted(missing)}")
    return _assemble(_csv_rows(rows))


def _csv_rows(rows: list[dict[str, str]]) -> Iterator[_Row]:
    for line, row in enumerate(rows, start=2):
        try:
            yield int(row["step"]), int(row["layer"]), [(int(row["expert"]), float(row["tokens"]))]
        except (TypeError, ValueError) as error:
            raise InputError(f"input line {line}", dict(row), "numbers in all four columns") from error


def _read_json_lines(path: Path) -> F64:
    def rows() -> Iterator[_Row]:
        for number, line in enumerate(read_text(path, "JSON lines", LARGEST_BYTES).splitlines(), 1):
            if line.strip():
                yield _json_row(number, line)

    return _assemble(rows())


def _json_row(number: int, line: str) -> _Row:
    try:
        row = parse_json(line, f"input line {number}")
        return int(row["step"]), int(row["layer"]), [(e, float(tokens)) for e, tokens in enumerate(row["loads"])]
    except (TypeError, ValueError, KeyError, OverflowError) as error:
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
    cells_needed = len(steps) * len(layers) * (max(ids) + 1)
    if cells_needed > MOST_CELLS:
        shape = f"{len(steps)} steps x {len(layers)} layers x {max(ids) + 1} experts"
        raise InputError("input", shape, f"at most {MOST_CELLS} loads in all", "is an expert id wrong?")
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
    allowed = "an npz with an array named choices [steps, layers, tokens, k]"
    arrays = load_arrays(Path(path), allowed)
    choices = numbers(arrays, "choices", Path(path), allowed).astype(np.int64)
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
    allowed = "a placement: equal numbers of expert ids on every card"
    with guarded(path, allowed):
        if path.suffix.lower() == ".npz":
            slots = np.asarray(numbers(load_arrays(path, allowed), "placement", path, allowed), dtype=np.int64)
        else:
            data = parse_json(read_text(path, allowed), str(path))
            slots = np.array(data["placement"] if isinstance(data, dict) else data, dtype=np.int64)
    if slots.ndim == 2:
        slots = np.repeat(slots[None], layers, axis=0)
    if slots.ndim != 3 or slots.shape[:2] != (layers, cards):
        raise InputError(
            "placement", slots.shape, f"[{layers} layers, {cards} cards, slots]", "match --nodes and cards"
        )
    return Placement(slots, experts)
