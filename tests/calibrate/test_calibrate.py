"""From files to a profile that loads; and the shipped fits against the data they came from."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autodeploy.calibrate import calibrate, read_measurements
from autodeploy.calibrate.curves import gemm_s, intra_collective_s
from autodeploy.calibrate.fit_compute import take
from autodeploy.calibrate.fitting import apes
from autodeploy.calibrate.measurements import CollectiveTable, GemmTable
from autodeploy.calibrate.write import render_fits, user_profile, with_fits
from autodeploy.cli.app import main
from autodeploy.errors import InputError
from autodeploy.hardware import load_hardware
from autodeploy.hardware.document import read_document
from autodeploy.hardware.library import find_profile, profiles_folder

ROOT = Path(__file__).resolve().parents[2]


def gemm_csv(folder: Path, factor: float = 2.0) -> Path:
    """GEMMs of an H100 that is ``factor`` times slower than the shipped one."""
    device = load_hardware("h100-sxm").device
    random = np.random.default_rng(0)
    m, n, k = (128.0 * random.integers(8, 128, 100) for _ in range(3))
    table = GemmTable(dtype="bf16", m=m, n=n, k=k, seconds=m, source="")
    seconds = factor * gemm_s(device.gemm["bf16"], table, device.peak_flop_per_s["bf16"], device.hbm_bandwidth_bytes_per_s,
                              device.compute_units)  # fmt: skip
    rows = (f"bf16,{a:.0f},{b:.0f},{c:.0f},{s * 1e6:.3f}" for a, b, c, s in zip(m, n, k, seconds, strict=True))
    path = folder / "gemm.csv"
    path.write_text("dtype,m,n,k,latency_us\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_calibrate_command_writes_a_profile_that_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "mine.yaml"
    code = main(["calibrate", str(gemm_csv(tmp_path)), "--base", "h100", "--name", "mine", "--output", str(output),
                 "--format", "json"])  # fmt: skip
    shown = json.loads(capsys.readouterr().out)
    assert code == 0 and shown["schema"] == "autodeploy.calibrate/1"
    assert [fit["curve"] for fit in shown["fits"]] == ["gemm.bf16"] and shown["fits"][0]["median_ape_frac"] < 0.05
    mine, base = load_hardware(output), load_hardware("h100-sxm")
    assert mine.name == "mine" and mine.device.attention == base.device.attention
    ratio = mine.device.gemm["bf16"].efficiency_max_frac / base.device.gemm["bf16"].efficiency_max_frac
    assert ratio == pytest.approx(0.5, rel=0.1)
    again = tmp_path / "second.yaml"
    assert main(["calibrate", str(gemm_csv(tmp_path)), "--base", str(output), "--output", str(again)]) == 0
    assert load_hardware(again).name == "mine-calibrated"


def test_the_commands_refuse_bad_input_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.txt").write_text("nothing", encoding="utf-8")
    for arguments in (["calibrate", str(tmp_path / "x.txt"), "--base", "h100"], ["hardware", "h101"],
                      ["calibrate", str(gemm_csv(tmp_path)), "--base", "h101"],
                      ["hardware", "h100", "--format", "xml"]):  # fmt: skip
        assert main(arguments) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_the_hardware_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hardware"]) == 0
    assert "atlas-800t-a2" in capsys.readouterr().out
    assert main(["hardware", "b200", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["profile"]["name"] == "b200"
    for name in ("mi300x", "ascend-910c-die"):
        assert main(["hardware", name]) == 0
        assert "derived" in capsys.readouterr().out
        assert main(["hardware", name, "--format", "csv"]) == 0
        assert capsys.readouterr().out.startswith("curve,data,derived,rows")


def test_tables_that_determine_nothing_say_why() -> None:
    tiny = GemmTable(dtype="bf16", m=np.ones(2), n=np.ones(2), k=np.ones(2), seconds=np.ones(2), source="tiny.csv")
    document, _ = read_document(find_profile("h100"))
    with pytest.raises(InputError, match="tiny.csv: 2 rows"):
        calibrate([tiny], document)


def test_prints_of_several_group_sizes_are_fitted_together(tmp_path: Path) -> None:
    tier = load_hardware("h100-sxm").tiers[0]
    curve = tier.curves["all_gather"]
    message = 2.0 ** np.arange(16, 30)
    tables = []
    for ranks in (2.0, 4.0, 8.0):
        table = CollectiveTable(op="all_gather", ranks=np.full(14, ranks), nodes=1, message_bytes=message,
                                seconds=message, source=f"{ranks:.0f}.txt")  # fmt: skip
        seconds = intra_collective_s(curve, table, tier.bandwidth_bytes_per_s, tier.cards, False)
        tables.append(dataclasses.replace(table, seconds=seconds))
    document, _ = read_document(find_profile("h100"))
    (fitted,) = calibrate(tables, document).fitted
    assert fitted.error.rows == 42 and fitted.error.median_ape_frac < 0.01
    assert fitted.entry["latency_per_rank_us"] == pytest.approx(curve.latency_per_rank_s * 1e6, rel=0.1)


def test_a_training_log_gives_one_factor_on_computing(tmp_path: Path) -> None:
    """A step twice as long as the twin's own prediction is met by slower computing."""
    arguments = {
        "bf16": True, "context_parallel_size": 1, "expert_model_parallel_size": 1, "ffn_hidden_size": 14336,
        "global_batch_size": 64, "group_query_attention": True, "hidden_size": 4096, "kv_channels": 128,
        "micro_batch_size": 1, "num_attention_heads": 32, "num_experts": None, "num_layers": 32, "num_query_groups": 8,
        "overlap_grad_reduce": True, "padded_vocab_size": 128256, "pipeline_model_parallel_size": 1,
        "recompute_granularity": None, "seq_length": 8192, "sequence_parallel": True, "swiglu": True,
        "tensor_model_parallel_size": 2, "untie_embeddings_and_output_weights": True, "use_distributed_optimizer": True,
        "world_size": 8,
    }  # fmt: skip
    lines = [f"  {name} {'.' * (48 - len(name))} {value}" for name, value in arguments.items()]
    lines += [f" iteration {i:>8}/ 20 | elapsed time per iteration (ms): 9000.0 |" for i in range(1, 21)]
    (tmp_path / "train.log").write_text("\n".join(lines), encoding="utf-8")
    document, _ = read_document(find_profile("h100"))
    result = calibrate(read_measurements([tmp_path / "train.log"]), document)
    assert result.skipped == () and ("gemm", "bf16") in {fitted.path for fitted in result.fitted}
    assert all(fitted.error.rows == 1 and fitted.error.median_ape_frac < 0.01 for fitted in result.fitted)
    cut = [line for line in lines if "hidden_size" not in line]
    (tmp_path / "train.log").write_text("\n".join(cut), encoding="utf-8")
    with pytest.raises(InputError, match="median step 9 s, not fitted"):
        calibrate(read_measurements([tmp_path / "train.log"]), document)


def test_rendered_fits_keep_the_facts_above() -> None:
    fits = {"gemm": {"bf16": {"k_half": 3.0, "data": "a: b"}}}
    text = with_fits("# a comment\nname: x\n\nfits:\n  old: 1\n", fits)
    assert text.startswith("# a comment\nname: x\n\n# ---") and "old" not in text and "data: 'a: b'" in text
    assert with_fits(text, fits) == text and render_fits(fits) in text
    assert user_profile("mine", "h100-sxm", fits).startswith("name: mine\nextends: h100-sxm\n")


# ------------------------------------------------------------------------------------------------------- shared data

NCCL_TABLES = {
    "a100_sxm": "a100-80g-sxm", "h100_sxm": "h100-sxm", "h200_sxm": "h200", "b200_sxm": "b200", "b300_sxm": "b300",
    "gb200": "gb200-nvl72", "gb300": "gb300-nvl72",
}  # fmt: skip
GEMM_TABLES = {system: name for system, name in NCCL_TABLES.items() if name != "b200"}  # B200's bf16 is SimuMax's


@pytest.mark.shared
@pytest.mark.parametrize(("system", "name"), NCCL_TABLES.items())
def test_collective_tables_against_the_shipped_curves(system: str, name: str, shared: Path) -> None:
    tier = load_hardware(name).tiers[0]
    for table in read_measurements([shared / "operators" / f"{system}_nccl.csv"]):
        assert isinstance(table, CollectiveTable)
        predicted = intra_collective_s(
            tier.curves[table.op], table, tier.bandwidth_bytes_per_s, tier.cards, tier.full_mesh
        )
        error = apes(predicted, table.seconds)
        large = np.flatnonzero(table.message_bytes >= 2**20)
        assert np.median(error) < 0.10, (table.source, table.op)
        assert np.median(error[large]) < 0.10, (table.source, table.op)


@pytest.mark.shared
@pytest.mark.parametrize(("system", "name"), GEMM_TABLES.items())
def test_gemm_tables_against_the_shipped_curves(system: str, name: str, shared: Path) -> None:
    device = load_hardware(name).device
    for table in read_measurements([shared / "operators" / f"{system}_gemm.csv"]):
        assert isinstance(table, GemmTable)
        if "sglang" in table.source:
            continue
        peak = device.peak_flop_per_s[table.dtype]
        predicted = gemm_s(
            device.gemm[table.dtype], table, peak, device.hbm_bandwidth_bytes_per_s, device.compute_units
        )
        error = apes(predicted, table.seconds)
        assert np.median(error) < 0.055 and np.quantile(error, 0.9) < 0.16, table.source
        large = np.flatnonzero(2 * table.m * table.n * table.k >= 1e12)
        signed = predicted[large] / take(table, large).seconds - 1
        assert abs(np.median(signed)) < 0.07, table.source  # the droop takes the bias out of the large ones


@pytest.mark.shared
def test_the_script_reproduces_the_shipped_fits(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 3% rather than to the last digit: another scipy may stop a step earlier."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    script: Any = importlib.import_module("fit_profiles")
    fitter = script.Fitter(shared)
    for name in script.RECIPES:
        document, _ = read_document(profiles_folder() / f"{name}.yaml")
        differences = list(_differences(fitter.fits(name), document["fits"]))
        assert differences == [], name
    for module in ("fit_profiles", "fit_rules", "fit_ascend", "fit_published"):
        sys.modules.pop(module, None)


def _differences(fresh: Any, shipped: Any, path: str = "") -> Any:
    """Paths whose numbers differ by more than 3% (or 0.02 of a share, or 0.5 of a microsecond near zero)."""
    if isinstance(fresh, dict):
        for key, value in fresh.items():
            if key not in ("derived", "note", "data", "at_bound"):
                yield from _differences(value, shipped.get(key) if isinstance(shipped, dict) else None, f"{path}.{key}")
    elif isinstance(fresh, float | int) and not isinstance(fresh, bool):
        near_zero = 0.5 if path.endswith("_us") else 0.02
        if shipped is None or abs(fresh - shipped) > max(0.03 * abs(shipped), near_zero):
            yield path, fresh, shipped
