"""The wheel carries all it needs: built, installed into an environment of its own, it searches there."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def _run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a new environment that holds the wheel; dependencies are those of the running one."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    _run(sys.executable, "-m", "venv", "--without-pip", folder / "env", cwd=folder)
    (site,) = (folder / "env").glob("lib/python*/site-packages")
    # A .pth file adds this environment's packages, but not its editable installation of the repository.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    _run(
        sys.executable, "-m", "pip", "--python", folder / "env/bin/python", "install", "--quiet", "--no-deps",
        "--no-index", "--force-reinstall", wheel, cwd=folder,
    )  # fmt: skip
    return folder / "env" / "bin"


def test_it_is_the_wheel_that_is_imported(installed: Path, tmp_path: Path) -> None:
    code = "import autodeploy, cost_models, hardware_profiles; print(autodeploy.__file__, *hardware_profiles.__path__)"
    out = _run(installed / "python", "-c", code, cwd=tmp_path).stdout
    assert str(installed.parent) in out and str(ROOT) not in out


def test_it_searches(installed: Path, tmp_path: Path) -> None:
    document = json.loads(
        _run(
            installed / "autodeploy", "search", "llama-3.1-8b", "--hardware", "h100-sxm", "--devices", "16",
            "--global-batch", "64", "--trials", "32", "--format", "json", cwd=tmp_path,
        ).stdout
    )  # fmt: skip
    assert document["ranked"] and document["space"]["refined"] == 32


def test_it_ships_every_model_and_profile(installed: Path, tmp_path: Path) -> None:
    code = (
        "from autodeploy.models import zoo_names, load_model; from autodeploy.hardware import hardware_names, load_hardware;"
        "print(len([load_model(n) for n in zoo_names()]), len([load_hardware(n) for n in hardware_names()]))"
    )
    models, profiles = map(int, _run(installed / "python", "-c", code, cwd=tmp_path).stdout.split())
    assert models >= 30 and profiles >= 14
