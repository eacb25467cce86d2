"""Outputs: the old file or the new one, never a part of either."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autodeploy.errors import InputError
from autodeploy.files import write_text
from autodeploy.files.write import replacing


def test_whole_and_with_the_old_permissions(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o640)
    write_text(path, "new\n")
    assert path.read_text() == "new\n" and path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["out"]


def test_a_link_is_followed_and_a_device_written(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "there").read_text() == "new"
    write_text(Path("/dev/null"), "new")


def test_a_full_disk_leaves_the_old_file_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="the disk is full"):
        write_text(path, "new", "--report")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["out"]


def test_an_error_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as stream:
        stream.write("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["out"]


def test_killed_at_any_moment_the_file_is_old_or_new(tmp_path: Path) -> None:
    """A process that writes again and again, killed at odd moments."""
    path, old, new = tmp_path / "out", "old" * 300_000, "new" * 300_000
    path.write_text(old)
    code = (
        "import sys; from pathlib import Path; from autodeploy.files import write_text\n"
        "path, words = Path(sys.argv[1]), ('old' * 300_000, 'new' * 300_000)\n"
        "print('on', flush=True)\n"
        "while True:\n for word in words: write_text(path, word)\n"
    )
    for number in range(4):
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"on\n"
        time.sleep(0.013 * (number + 1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert path.read_text() in (old, new)


def test_calibrate_does_not_write_over_its_base(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from autodeploy.cli.app import main

    base = tmp_path / "x.yaml"
    base.write_text("name: x\nextends: h100-sxm\n")
    table = tmp_path / "m.csv"
    table.write_text("m,n,k,dtype,time_us\n4096,4096,4096,bf16,200\n")
    assert main(["calibrate", str(table), "--base", str(base), "--output", str(base)]) == 2
    assert "another file than --base" in capsys.readouterr().err
    assert base.read_text() == "name: x\nextends: h100-sxm\n"
