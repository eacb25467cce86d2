"""The real GPT model, built on the meta device under a fake process group, holds on every pipeline rank the parameters
that the twin says (extra ``megatron``).

Without Transformer Engine, so without MLA: its down-projections are replicated over TP there, and sharded in the plain spec.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autodeploy.export import Job, job_of
from autodeploy.export.megatron_model import padded_vocab
from autodeploy.strategy.convert import strategy_to_batch
from cost_models.step import evaluate
from tests.export import sample

torch = pytest.importorskip("torch")
pytest.importorskip("megatron.core.transformer.transformer_config")

RUNS = [
    ("llama-3-8b", "TP2/PP2"),
    ("llama-3-8b", "TP8/PP4/VPP2"),
    ("qwen2.5-72b", "TP4/PP4"),
    ("qwen3-30b-a3b", "TP2/PP4/EP8"),
    ("qwen3-30b-a3b", "TP1/PP2/VPP2/EP16"),
    ("mixtral-8x22b", "TP2/PP4/EP8/ETP2"),
]


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the constructors ask of a card that is not there."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: "meta")
    monkeypatch.setattr(torch.cuda, "Stream", lambda *_, **__: None)


def rank_parameters(job: Job, rank: int) -> int:
    """Parameters that Megatron-Core builds on one pipeline rank."""
    from megatron.core import parallel_state
    from torch.testing._internal.distributed.fake_pg import FakeStore

    s = job.strategy
    start = {"rank": rank * (job.devices // s.pp), "world_size": job.devices, "store": FakeStore()}
    torch.distributed.init_process_group(backend="fake", **start)
    try:
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=s.tp, pipeline_model_parallel_size=s.pp, context_parallel_size=s.cp,
            virtual_pipeline_model_parallel_size=s.vpp if s.vpp > 1 else None, expert_model_parallel_size=s.ep,
            expert_tensor_parallel_size=s.etp, create_gloo_process_groups=False,
        )  # fmt: skip
        return sum(_chunk_parameters(job, chunk if s.vpp > 1 else None) for chunk in range(s.vpp))
    finally:
        parallel_state.destroy_model_parallel()
        torch.distributed.destroy_process_group()


def _chunk_parameters(job: Job, chunk: int | None) -> int:
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_mtp_block_spec

    config = _config(job)
    if chunk is not None:
        parallel_state.set_virtual_pipeline_model_parallel_rank(chunk)
    at = {"ignore_virtual": False, "vp_stage": chunk}
    spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False, vp_stage=chunk)
    mtp = None
    if config.mtp_num_layers:
        mtp = get_gpt_mtp_block_spec(config, spec, use_transformer_engine=False, vp_stage=chunk)
    with torch.device("meta"):
        model = GPTModel(
            config, spec, padded_vocab(job), job.seq_length, position_embedding_type="rope", mtp_block_spec=mtp,
            pre_process=parallel_state.is_pipeline_first_stage(**at),
            post_process=parallel_state.is_pipeline_last_stage(**at),
            share_embeddings_and_output_weights=job.model.tied_embeddings, vp_stage=chunk,
        )  # fmt: skip
    return sum(weight.numel() for weight in model.parameters())


def _config(job: Job) -> Any:
    """The exported configuration, less what needs a GPU's kernels and adds no parameter."""
    from tests.export.test_megatron_core import settings

    kind, arguments = settings(job)
    config = kind(**arguments)
    for name in ("sequence_parallel", "persist_layer_norm", "moe_grouped_gemm", "perform_initialization"):
        setattr(config, name, False)
    return config


@pytest.mark.extra
@pytest.mark.usefixtures("no_cuda")
@pytest.mark.parametrize(("model", "strategy"), RUNS)
def test_every_rank_holds_the_parameters_of_the_real_model(model: str, strategy: str) -> None:
    case = sample.case_of(model, "megatron-bridge")
    program = sample.program_of("megatron-bridge")
    job = job_of(strategy, case, devices=sample.DEVICES, backend="megatron-bridge", program=program)
    batch = strategy_to_batch(job.strategy, job.model, job.devices, "megatron-bridge", job.global_batch)
    cost = evaluate(case, batch, per_rank=True)
    assert cost.rank_memory_bytes is not None
    ours = np.round(cost.rank_memory_bytes["weights"][0, : job.strategy.pp] / case.workload.weight_bytes)
    assert ours.astype(int).tolist() == [rank_parameters(job, rank) for rank in range(job.strategy.pp)]
