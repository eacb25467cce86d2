"""Exports held against the real configuration classes (extra ``megatron``: megatron-core and a torch for CPUs)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import yaml

from autodeploy.export import Job, export_text
from tests.export import sample

torch = pytest.importorskip("torch")
config = pytest.importorskip("megatron.core.transformer.transformer_config")

EACH = 20  # strategies of a model


def settings(job: Job) -> tuple[type, dict[str, Any]]:
    """The configuration class and its arguments, from the YAML that is exported."""
    document = yaml.safe_load(export_text(job, "megatron-bridge"))
    model = document["model"] | document.get("comm_overlap", {})
    kind = config.MLATransformerConfig if model.get("multi_latent_attention") else config.TransformerConfig
    known = {field.name for field in fields(kind)}
    model.setdefault("mtp_num_layers", None)
    model.pop("transformer_impl", None)
    chosen = {name: value for name, value in model.items() if name in known}
    kernel = chosen.get("attention_backend")
    if isinstance(kernel, str):
        chosen.pop("attention_backend")
    if isinstance(chosen.get("moe_layer_freq"), str):
        chosen["moe_layer_freq"] = eval(chosen["moe_layer_freq"])  # noqa: S307 - our own text, as Megatron reads it
    activation = torch.nn.functional.silu if model.get("gated_linear_unit") else torch.nn.functional.gelu
    return kind, chosen | {"bf16": True, "pipeline_dtype": torch.bfloat16, "activation_func": activation}


@pytest.mark.extra
@pytest.mark.parametrize("model", sample.MODELS)
def test_the_real_configuration_accepts_what_is_exported(model: str) -> None:
    for job in sample.jobs(model, "megatron-bridge", EACH):
        kind, arguments = settings(job)
        try:
            built = kind(**arguments)
        except (ValueError, AssertionError) as error:
            if "TE" in str(error) or "transformer-engine" in str(error).lower():
                continue  # the class asks for a release of Transformer Engine, which needs a GPU
            raise AssertionError(f"{job.strategy}: {error}") from error
        layout = built.pipeline_model_parallel_layout
        if layout is not None:
            assert layout.virtual_pipeline_model_parallel_size == job.strategy.vpp
            assert len(layout.layout) == job.strategy.pp
        assert built.expert_tensor_parallel_size == (job.strategy.etp if job.moe else job.strategy.tp)
