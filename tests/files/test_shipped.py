"""Every YAML that ships reads the same through the guards that a user's file goes through: no key twice, nothing bottomless."""

from __future__ import annotations

from pathlib import Path

import pytest

from autodeploy.files import parse_yaml, read_text
from autodeploy.hardware.library import profiles_folder
from autodeploy.models import zoo
from autodeploy.shipped import shipped_yaml
from autodeploy.stacks import load as stacks

FILES = sorted(path for folder in (profiles_folder(), zoo.FOLDER, stacks.FOLDER) for path in folder.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_shipped_file_passes_the_guards(path: Path) -> None:
    assert parse_yaml(read_text(path), path.name) == shipped_yaml(path)
