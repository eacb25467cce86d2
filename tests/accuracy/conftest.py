"""A stand-in for the cost models: times by FLOPs at a fixed rate, memory by parameters."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from autodeploy.accuracy import Report, RunSet, compare, read_runs
from autodeploy.accuracy.cases import Cases, build_cases


def fake_evaluate(case, batch, *, per_rank=False):
    model, workload = case.model, case.workload
    parameters = 12 * model.num_layers * model.hidden**2
    flop = 6.0 * parameters * workload.global_batch * workload.seq_length
    step_s = flop / (batch.devices * 1.5e14)
    allocated = 18.0 * parameters / (batch.tp * batch.pp)
    ranks = int(batch.pp.max())
    by_rank = {
        "weights": np.repeat(allocated[:, None], ranks, axis=1),
        "reserved_overhead": np.full((len(batch), ranks), 1e9),
    }
    return SimpleNamespace(
        step_s=step_s, peak_allocated_bytes=allocated, peak_reserved_bytes=allocated + 1e9,
        model_flop=np.full(len(batch), flop), time_s={"attention": step_s},
        rank_memory_bytes=by_rank if per_rank else None,
    )  # fmt: skip


@pytest.fixture(scope="session")
def run_set() -> RunSet:
    return read_runs()


@pytest.fixture(scope="session")
def cases(run_set: RunSet) -> Cases:
    return build_cases(run_set)


@pytest.fixture(scope="session")
def fake_report(run_set: RunSet) -> Report:
    return compare(run_set, fake_evaluate)
