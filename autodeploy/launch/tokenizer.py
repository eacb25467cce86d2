"""The vocabulary of a tokenizer whose folder stands on this machine."""

from __future__ import annotations

import json
from pathlib import Path

from autodeploy.launch.program_table import Args, value

NAMES = ("tokenizer-name-or-path", "tokenizer-model")
MOST_BYTES = 64_000_000


def tokenizer_vocab(args: Args) -> int:
    """``vocab_size`` of the config.json beside the tokenizer, or the entries of its tokenizer.json; 0: not here."""
    for name in NAMES:
        given = value(args, name)
        if not given or "$" in given:
            continue
        folder = Path(given) if Path(given).is_dir() else Path(given).parent
        found = _number(folder / "config.json", "vocab_size") or _entries(folder / "tokenizer.json")
        if found:
            return found
    return 0


def _read(path: Path) -> dict:
    try:
        if path.stat().st_size > MOST_BYTES:
            return {}
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _number(path: Path, key: str) -> int:
    found = _read(path).get(key)
    return found if isinstance(found, int) and found > 0 else 0


def _entries(path: Path) -> int:
    document = _read(path)
    model = document.get("model")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    return len(vocab) + len(document.get("added_tokens", [])) if isinstance(vocab, (dict, list)) else 0
