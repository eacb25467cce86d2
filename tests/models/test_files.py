"""Files given by a user: formats, broken content, names."""

from __future__ import annotations

import json

import pytest
import yaml

from autodeploy.errors import InputError
from autodeploy.models import load_model

CONFIG = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 100,
          "intermediate_size": 128}  # fmt: skip
OURS = {"name": "mine", "hidden": 64, "vocab": 100, "attention": {"query_heads": 4}, "feed_forward": {"width": 128},
        "layers": 4}  # fmt: skip


def write(path, content):
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def test_file_folder_and_yaml_agree(tmp_path):
    by_file = load_model(write(tmp_path / "config.json", CONFIG))
    by_folder = load_model(str(tmp_path))
    by_yaml = load_model(write(tmp_path / "mine.yaml", yaml.safe_dump(OURS)))
    as_yaml = load_model(write(tmp_path / "hf.yml", yaml.safe_dump(CONFIG)))
    assert by_file == by_folder
    assert by_file.layers == by_yaml.layers == as_yaml.layers
    assert by_file.name == tmp_path.name
    assert by_yaml.name == "mine"


def test_json_without_suffix_and_byte_order_mark(tmp_path):
    assert load_model(write(tmp_path / "tiny", "\ufeff" + json.dumps(CONFIG))).name == "tiny"


@pytest.mark.parametrize(("name", "content", "message"), [
    ("config.json", "", "empty file"),
    ("config.json", "  \n", "empty file"),
    ("config.json", json.dumps(CONFIG)[:40], "truncated"),
    ("config.json", b"\x00\x01\x02\xff" * 40, "binary data"),
    ("model.safetensors", b"\x88\x00\x00\x00\x00\x00\x00\x00{}", "binary data"),
    ("config.json", "[1, 2]", "must be a mapping"),
    ("config.json", "[" * 100_000, "config.json"),
    ("config.json", "{}", "num_hidden_layers = None"),
    ("m.yaml", "a: [1", "must be valid YAML"),
    ("m.yaml", "- 1", "must be a mapping"),
    ("m.yaml", "just words", "must be a mapping"),
    ("m.yaml", "a: 2024-99-99", "YAML"),
    ("m.yaml", "hidden: 64\nvocab: !!python/object:os.system x", "must be valid YAML"),
])  # fmt: skip
def test_broken_file_is_one_clear_line(tmp_path, name, content, message):
    path = write(tmp_path / name, content)
    with pytest.raises(InputError, match=message) as caught:
        load_model(path)
    assert path in str(caught.value)
    assert "\n" not in str(caught.value)


def test_huge_file_is_not_read(tmp_path):
    path = tmp_path / "weights.bin"
    with path.open("wb") as stream:
        stream.truncate(64 * 2**20)
    with pytest.raises(InputError, match="64 MiB"):
        load_model(str(path))


def test_folder_without_config(tmp_path):
    with pytest.raises(InputError, match="a folder that holds a config.json"):
        load_model(str(tmp_path))


def test_error_of_a_value_names_the_file(tmp_path):
    path = write(tmp_path / "config.json", CONFIG | {"hidden_size": -1})
    with pytest.raises(InputError, match=r"config.json: hidden_size = -1"):
        load_model(path)


@pytest.mark.parametrize(("changes", "message"), [
    ({"hiden": 64}, "field = 'hiden': must be one of .*; did you mean hidden"),
    ({"hidden": None}, "hidden = None"),
    ({"hidden": -1}, "hidden = -1"),
    ({"hidden": "64"}, "hidden = '64'"),
    ({"layers": 0}, "layers = 0: must be a number from 1"),
    ({"layers": "many"}, "layers = 'many': must be a number from 1"),
    ({"layers": [{"count": 0}]}, r"layers\[0\].count = 0"),
    ({"layers": [{"cont": 2}]}, r"field of layers\[0\] = 'cont': must be one of .*; did you mean count"),
    ({"layers": [{"repeat": 2, "blocks": [{"blocks": []}]}]}, r"layers\[0\].blocks\[0\] = 'blocks'"),
    ({"layers": [{"count": 90_000}, {"count": 90_000}]}, "at most 100000"),
    ({"layers": [{"attention": "other"}]}, "layers.attention = 'other'"),
    ({"attention": {"query_heads": 3}}, "attention.query_heads = 3: must be a divisor of hidden .64."),
    ({"attention": {"query_heads": 4, "kv_heads": 3}}, "kv_heads = 3: must be a divisor of query_heads"),
    ({"attention": {"query_heads": 4, "kind": "mla"}}, "kv_lora_rank = None"),
    ({"attention": {"query_heads": 4, "kind": "flash"}}, "Attention.kind = 'flash': must be one of softmax"),
    ({"attention": {}}, "attention = {}"),
    ({"feed_forward": {"width": 8, "experts": 4, "top_k": 5}}, "top_k = 5: must be 1..4"),
    ({"feed_forward": {"widht": 8}}, "widht|width"),
    ({"mtp": {"module": 1}}, "field of mtp = 'module'"),
])  # fmt: skip
def test_wrong_yaml_is_named(tmp_path, changes, message):
    document = {key: value for key, value in (OURS | changes).items() if value is not None}
    with pytest.raises(InputError, match=message) as caught:
        load_model(write(tmp_path / "mine.yaml", yaml.safe_dump(document)))
    assert "\n" not in str(caught.value)
