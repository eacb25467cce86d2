"""One guarded reader for every kind of file: bounded, and one line for whatever is wrong."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.errors import InputError
from autodeploy.files import csv_rows, guarded, load_arrays, numbers, parse_json, parse_yaml, read_text
from autodeploy.files.guard import broken
from autodeploy.hardware import load_hardware
from autodeploy.hardware.library import profiles_folder

# ------------------------------------------------------------------------------------------------ text


def test_mark_and_line_ends_are_read_away(tmp_path: Path) -> None:
    for name, data in (("bom", b"\xef\xbb\xbfa: 1\r\nb: 2\r\n"), ("utf16", "a: 1\nb: 2\n".encode("utf-16"))):
        (tmp_path / name).write_bytes(data)
        assert parse_yaml(read_text(tmp_path / name), name) == {"a": 1, "b": 2}


def test_devices_folders_and_what_is_absent_are_refused(tmp_path: Path) -> None:
    for path, told in ((Path("/dev/zero"), "device"), (tmp_path, "folder"), (tmp_path / "none", "no such file")):
        with pytest.raises(InputError, match=told):
            read_text(path)


def test_too_large_empty_and_binary(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"a" * 100)
    (tmp_path / "empty").write_bytes(b" \n")
    (tmp_path / "binary").write_bytes(b"a\x00b")
    with pytest.raises(InputError, match="under 0 MiB"):
        read_text(tmp_path / "large", limit_bytes=99)
    for name in ("empty", "binary"):
        with pytest.raises(InputError, match=name):
            read_text(tmp_path / name)


def test_a_pipe_is_read_up_to_the_limit(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"a: 1\n")
    os.close(write_end)
    assert read_text(Path(f"/dev/fd/{read_end}")) == "a: 1\n"
    os.close(read_end)


@pytest.mark.parametrize("error", broken())
def test_whatever_a_reader_raises_becomes_one_line(error: type[Exception]) -> None:
    with pytest.raises(InputError, match="file.txt = .*must be a table") as told, guarded("file.txt", "a table"):
        raise UnicodeDecodeError("utf-8", b"", 0, 1, "bad") if error is UnicodeDecodeError else error("bad\nthing")
    assert "\n" not in str(told.value) and told.value.__cause__ is None


# ------------------------------------------------------------------------------------------------ JSON and YAML


@pytest.mark.parametrize(("text", "told"), [
    ("{", "line 1 column 2"), ("[" * 100_000, "too deeply"), ("1" * 5000, "5000 digits"),
    ('{"a": 1, "a": 2}', "a = 'stated twice'"),
    ('{"x": {"b": 1, "c": 2, "b": 3}}', "b = 'stated twice'"),
])  # fmt: skip
def test_broken_json(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        parse_json(text, "x.json")


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(ord('a') + i)}: &{chr(ord('a') + i)} [{','.join(['*' + chr(ord('a') + i - 1)] * 10)}]\n"
    for i in range(1, 12)
)


@pytest.mark.parametrize(("text", "told"), [
    (BOMB, "expand to too much"), ("a: &a [*a]", "inside its own anchor"), ("a: " + "[" * 200 + "]" * 200, "too deeply"),
    ("a: " + "9" * 5000, "5000 digits"), ("a: 1\na: 2", "stated twice"), ("a: !!python/object:os.system x", "constructor"),
    ("a: !!int x", "invalid literal"), ("a: !!timestamp x", "x.yaml"), ("a: 2020-99-99", "month"), ("? [a]\n: 1", "x.yaml"),
    ("a: *b", "alias"),
])  # fmt: skip
def test_broken_yaml(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        parse_yaml(text, "x.yaml")


def test_anchors_within_reason_and_merges_are_read() -> None:
    text = "base: &b {x: 1, y: 2}\nown: {<<: *b, y: 3}\nlist: [*b, *b]"
    assert parse_yaml(text, "x") == {"base": {"x": 1, "y": 2}, "own": {"x": 1, "y": 3}, "list": [{"x": 1, "y": 2}] * 2}


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_one_line(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for parse in (parse_yaml, parse_json, csv_rows):
        try:
            parse(text, "x")
        except InputError as error:
            assert "\n" not in str(error)


def test_shipped_profiles_pass_the_guard() -> None:
    for path in profiles_folder().glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        assert parse_yaml(text, path.name) == yaml.safe_load(text)


# ------------------------------------------------------------------------------------------------ tables and arrays


def test_rows_of_the_header_and_no_others() -> None:
    assert csv_rows("\ufeffa, b\r\n1,2\r\n", "x") == [{"a": "1", "b": "2"}]
    assert csv_rows("a,b\n1\n", "x") == [{"a": "1", "b": ""}]
    for text, told in (("a,b\n1,2,3\n", "line 2"), ("a,a\n1,2\n", "a'"), ('a\n"' + "x" * 2_000_000 + '"', "field")):
        with pytest.raises(InputError, match=told):
            csv_rows(text, "x")


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return buffer.getvalue()


def test_broken_arrays(tmp_path: Path) -> None:
    good = io.BytesIO()
    np.savez(good, loads=np.ones((2, 2)))
    pickled = io.BytesIO()
    np.save(pickled, np.array([{}], dtype=object), allow_pickle=True)
    broken = {"empty": b"", "cut": good.getvalue()[:-30], "head": good.getvalue()[:50], "word": b"hello",
              "pickle": pickled.getvalue(),
              "member": zipped(loads=b"no array")}  # fmt: skip
    for name, data in broken.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=f"{name} = .*must be an npz") as told:
            numbers(load_arrays(tmp_path / name, "an npz"), "loads", tmp_path / name, "an npz")
        assert "allow_pickle" not in str(told.value)


def test_other_arrays_may_stand_beside_the_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", loads=np.ones((2, 2)), domains=np.array(["a", "b"]))
    arrays = load_arrays(tmp_path / "x.npz", "an npz")
    assert numbers(arrays, "loads", tmp_path / "x.npz", "an npz").sum() == 4


def test_an_archive_that_unpacks_to_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autodeploy.files.arrays.LARGEST_ARRAY_BYTES", 1000)
    (tmp_path / "bomb.npz").write_bytes(zipped(loads=b"0" * 100_000))
    with pytest.raises(InputError, match="GiB of arrays"):
        load_arrays(tmp_path / "bomb.npz", "an npz")


# ------------------------------------------------------------------------------------------------ hardware: the value used


@pytest.mark.parametrize("written", ["3e3", '"3000"', "3000", "3.0e+3"])
def test_the_validated_number_is_the_one_used(tmp_path: Path, written: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"name: own\nextends: h100-sxm\ndevice: {{hbm_bandwidth_gb_per_s: {written}}}\n")
    assert load_hardware(path).device.hbm_bandwidth_bytes_per_s == 3000e9


@pytest.mark.parametrize(
    "written", ["true", "null", "fast", "-3e3", ".nan", ".inf", "1e400", "9" * 25, "[1]", "{value: true}"]
)
def test_what_is_no_number_is_refused(tmp_path: Path, written: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"name: own\nextends: h100-sxm\ndevice: {{hbm_bandwidth_gb_per_s: {written}}}\n")
    with pytest.raises(InputError, match="hbm_bandwidth_gb_per_s"):
        load_hardware(path)
