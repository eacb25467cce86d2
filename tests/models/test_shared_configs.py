"""The real configuration files beside the repository: all are read, and counted as the table has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from autodeploy.models import load_model
from tests.models.table import TABLE, close

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "hf_configs"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/hf_configs is not there"),
]
FILES = sorted(FOLDER.glob("*.json")) or [FOLDER / "absent.json"]


def test_there_are_files():
    assert len(FILES) == 76


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_is_read(path):
    model = load_model(str(path))
    assert 0 < model.active_parameters() <= model.parameters()
    assert not any("unknown architecture" in note for note in model.notes)


@pytest.mark.parametrize("stem", TABLE)
def test_parameters_of_the_table(stem):
    model = load_model(str(FOLDER / f"{stem}.json"))
    _, total, active = TABLE[stem]
    assert close(model.parameters(), total), model.parameters()
    assert close(model.active_parameters(), active), model.active_parameters()


@pytest.mark.parametrize("stem", [stem for stem, row in TABLE.items() if row[0]])
def test_zoo_agrees_with_the_file(stem):
    shipped, read = load_model(TABLE[stem][0]), load_model(str(FOLDER / f"{stem}.json"))
    assert shipped.layers == read.layers
    assert shipped.parameters() == read.parameters()
