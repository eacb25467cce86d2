"""``balance layers`` as a user runs it: cost files in, tables, JSON and CSV out."""

from __future__ import annotations

import json

import pytest
import typer
import yaml
from typer.testing import CliRunner

from autodeploy.balance.layers import parse_layout
from autodeploy.balance.layers.costs import read_items
from autodeploy.cli.balance_layers import layers
from autodeploy.errors import InputError

COSTS = {
    "options": ["none", "full"],
    "mtp_apart_bytes": 1e9,
    "items": [
        {"kind": "embedding", "forward_s": 0.001, "backward_s": 0.001, "static_bytes": 2e9},
        {
            "kind": "decoder",
            "label": "dense",
            "count": 3,
            "forward_s": 0.01,
            "backward_s": [0.02, 0.03],
            "static_bytes": 1e9,
            "activation_bytes": [4e8, 4e7],
        },
        {
            "kind": "decoder",
            "label": "moe",
            "count": 13,
            "forward_s": 0.012,
            "backward_s": [0.024, 0.036],
            "static_bytes": 2e9,
            "activation_bytes": [5e8, 5e7],
        },
        {
            "kind": "mtp",
            "forward_s": 0.02,
            "backward_s": [0.04, 0.06],
            "static_bytes": 3e9,
            "activation_bytes": [6e8, 6e7],
        },
        {"kind": "head", "forward_s": 0.01, "backward_s": 0.02, "static_bytes": 2e9, "activation_bytes": 1e8},
    ],
}
CSV = """kind,label,count,forward_s,backward_s,backward_s.full,static_bytes,activation_bytes,activation_bytes.full
embedding,,1,0.001,0.001,,2e9,,
decoder,dense,3,0.01,0.02,0.03,1e9,4e8,4e7
decoder,moe,13,0.012,0.024,0.036,2e9,5e8,5e7
mtp,,1,0.02,0.04,0.06,3e9,6e8,6e7
head,,1,0.01,0.02,,2e9,1e8,
"""


@pytest.fixture
def run():
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(layers)
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args])


@pytest.fixture
def costs(tmp_path):
    path = tmp_path / "costs.yaml"
    path.write_text(yaml.safe_dump(COSTS))
    return path


def test_all_file_formats_are_equal(tmp_path, costs):
    (tmp_path / "c.json").write_text(json.dumps(COSTS))
    (tmp_path / "c.csv").write_text(CSV)
    one, two, three = (read_items(p) for p in (costs, tmp_path / "c.json", tmp_path / "c.csv"))
    assert (one.seconds == two.seconds).all() and (one.seconds == three.seconds).all()
    assert (one.activation_bytes == three.activation_bytes).all() and (one.static_bytes == three.static_bytes).all()
    assert one.num_layers == 16 and one.labels[1:5] == ("dense", "dense", "dense", "moe")


def test_json(run, costs, tmp_path):
    result = run("--costs", costs, "--pp", 4, "--vpp", 2, "--memory-cap", 20, "--format", "json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["schema"] == "autodeploy.balance/1" and {"before", "after", "plan"} <= set(said)
    assert said["after"]["largest_rank_s"] < said["before"]["largest_rank_s"]
    layout = said["plan"]["megatron"]["--pipeline-model-parallel-layout"]
    assert "".join(parse_layout(layout)).count("t") == 16 and len(said["plan"]["stages"]) == 8
    target = tmp_path / "out.json"
    assert run("--costs", costs, "--pp", 4, "--format", "json", "--output", target).stdout == ""
    assert json.loads(target.read_text())["plan"]["exact"]


def test_table_and_csv(run, costs):
    table = run("--costs", costs, "--pp", 4, "--vpp", 2).stdout
    assert "--pipeline-model-parallel-layout" in table and "largest rank sum" in table
    rows = run("--costs", costs, "--pp", 4, "--vpp", 2, "--format", "csv").stdout.splitlines()
    assert rows[0].startswith("stage,rank,chunk,holds") and len(rows) == 9


def test_nothing_fits_is_an_answer(run, costs):
    result = run("--costs", costs, "--pp", 4, "--memory-cap", 1, "--format", "json")
    assert result.exit_code == 3 and not json.loads(result.stdout)["plan"]["feasible"]
    assert run("--costs", costs, "--pp", 4, "--vpp", 2, "--memory-cap", 1).exit_code == 3


@pytest.mark.parametrize(
    "change,word",
    [
        ({"items": []}, "items"),
        ({"items": [{"kind": "layer"}]}, "kind"),
        ({"items": [{**COSTS["items"][0], "forward": 1}, *COSTS["items"][1:]]}, "among"),
        ({"items": [{**COSTS["items"][0], "forward_s": float("nan")}, *COSTS["items"][1:]]}, "forward_s"),
        ({"items": [{**COSTS["items"][0], "forward_s": [1, 2, 3]}, *COSTS["items"][1:]]}, "a number or 2"),
        ({"items": [{**COSTS["items"][0], "count": 1.5}, *COSTS["items"][1:]]}, "count"),
    ],
)
def test_bad_costs_are_named(tmp_path, change, word):
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump({**COSTS, **change}))
    with pytest.raises(InputError, match=word):
        read_items(path)


def test_bad_options_are_named(run, costs, tmp_path):
    for args in (
        ["--pp", 4],
        ["--costs", tmp_path / "none.yaml"],
        ["--costs", costs, "--format", "xml"],
        ["--costs", costs, "--pp", 2, "--before", "Et|L"],
    ):
        assert isinstance(run(*args).exception, InputError)
