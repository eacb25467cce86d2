"""Megatron-Bridge: a YAML that overrides its ConfigContainer, section by section."""

from __future__ import annotations

from typing import Any

import yaml

from autodeploy.export.flags import flat, header
from autodeploy.export.job import Job
from autodeploy.export.megatron import sections, variables
from autodeploy.launch.bridge_names import RECIPES, as_setting


def megatron_bridge(job: Job) -> str:
    """Megatron's arguments under the names of Megatron-Bridge's configuration."""
    document: dict[str, dict[str, Any]] = {"model": {}}
    for one in flat(sections(job)):
        found = as_setting(one.name, one.values)
        if found is not None:
            section, key, value = found
            document.setdefault(section, {})[key] = value
    model = document["model"]
    model.setdefault("share_embeddings_and_output_weights", True)
    model.setdefault("add_bias_linear", True)
    if job.strategy.vpp > 1:
        model["virtual_pipeline_model_parallel_size"] = job.strategy.vpp
    settings = {**document, "mixed_precision": RECIPES[job.precision], "dist": {"world_size": job.devices}}
    lines = [f"# {line}" for line in header(job, "Megatron-Bridge")]
    lines += [f"# export {v.name}={v.value}: {v.note}" for v in variables(job)]
    notes = [f"# {one.text}: {one.comment}" for one in flat(sections(job)) if one.comment]
    return "\n".join([*lines, *notes, yaml.safe_dump(settings, sort_keys=False, default_flow_style=False)])
