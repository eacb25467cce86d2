"""All causal language models of the installed transformers, counted by us and by their own modules on the meta device.

An extra: needs ``pip install -e '.[hf]'``. The misses are a committed list that may only shrink.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

MISSES = Path(__file__).parents[1] / "data" / "transformers_misses.json"
pytestmark = [pytest.mark.extra("transformers"), pytest.mark.extra("torch")]


def test_misses_only_shrink() -> None:
    from scripts.transformers_misses import misses

    known = json.loads(MISSES.read_text(encoding="utf-8"))
    found = misses()
    new = sorted(set(found) - set(known["misses"]))
    assert not new, {name: found[name] for name in new}
    fixed = sorted(set(known["misses"]) - set(found))
    assert not fixed, (
        f"{fixed} are right now: take them off {MISSES.name} (python scripts/transformers_misses.py --write)"
    )


def test_an_architecture_without_a_row_is_read_from_its_modules(tmp_path: Path) -> None:
    from transformers import JetMoeConfig

    from autodeploy.models import load_model
    from autodeploy.models.hf_meta import build

    config = json.loads(JetMoeConfig().to_json_string(use_diff=False))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    model = load_model(str(path))
    assert model.parameters() == build(config).total
    assert any("read from the modules" in note for note in model.notes)
