"""What is exported reads back as the same strategy, model, batch and stack."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autodeploy.cli.launch_file import with_stated
from autodeploy.errors import InputError
from autodeploy.export import TARGETS, Job, export_text
from autodeploy.launch.read import launch_of_text
from autodeploy.stacks import settle
from tests.export import sample

EACH = 6  # strategies of a model and target


def expected(job: Job, target: str) -> None:
    text = export_text(job, target)
    launch = launch_of_text(text, f"{job.model.name}{TARGETS[target].suffix}")
    assert launch.strategy == job.strategy, text
    assert (launch.devices, launch.seq_length, launch.global_batch) == (job.devices, job.seq_length, job.global_batch)
    assert launch.precision == job.precision and launch.backend == TARGETS[target].backend
    assert (launch.model.layers, launch.model.vocab) == (job.model.layers, job.model.vocab)
    usual = replace(sample.program_of(target), chosen={})
    program = with_stated(usual, launch, launch.model, job.hardware, job.precision)
    assert {"mtp": False, **program.chosen} == {"mtp": False, **sample.program_of(target).chosen}, text
    numbers = {"seq_length": job.seq_length, "global_batch": job.global_batch, "precision": job.precision}
    case = sample.case_of(job.model.name, target)
    assert settle(program, job.model, case.hardware, **numbers).workload == case.workload


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("model", sample.MODELS)
def test_import_of_an_export_is_the_same(model: str, target: str) -> None:
    if target == "torchtitan" and model not in sample.SHIPPED_BY_TORCHTITAN:
        with pytest.raises(InputError, match="torchtitan ships"):
            export_text(sample.jobs(model, target, 1)[0], target)
        return
    for job in sample.jobs(model, target, EACH):
        expected(job, target)
