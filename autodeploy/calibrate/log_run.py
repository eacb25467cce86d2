"""A training log as a measured run: the arguments Megatron prints at its start say what was trained, and how."""

from __future__ import annotations

from typing import Any

from autodeploy.calibrate.measurements import IterationLog
from autodeploy.errors import InputError


class _Arguments:
    """The printed arguments, by type. ``None`` and absent are the same."""

    def __init__(self, log: IterationLog) -> None:
        self._values, self._source = log.arguments, log.source

    def text(self, name: str) -> str | None:
        value = self._values.get(name)
        return None if value in (None, "None", "") else value

    def whole(self, name: str, default: int | None = None) -> int:
        text = self.text(name)
        if text is None and default is not None:
            return default
        try:
            return int(float(text or ""))
        except ValueError:
            remedy = "keep the head of the log, where the program lists its arguments"
            raise InputError(f"{self._source}: {name}", text, "a whole number", remedy) from None

    def flag(self, name: str) -> bool:
        return self.text(name) == "True"


def run_of_log(log: IterationLog, device: str) -> tuple[Any, dict[str, Any]]:
    """(autodeploy.accuracy.Run, model shape) of a log on ``device`` (a profile's name)."""
    from autodeploy.accuracy import Run

    read = _Arguments(log)
    shape = model_shape(read)
    world, tp, pp = (
        read.whole(name) for name in ("world_size", "tensor_model_parallel_size", "pipeline_model_parallel_size")
    )
    cp, ep = read.whole("context_parallel_size", 1), read.whole("expert_model_parallel_size", 1)
    run = Run(
        id=log.source, group=log.program, family=log.source, source=log.source, model=log.source,
        kind="moe" if shape.get("num_experts") else "dense", complete=True, device=device,
        seq_length=read.whole("seq_length"), num_devices=world, tp=tp, pp=pp, vpp=_vpp(read, pp), cp=cp, ep=ep,
        etp=read.whole("expert_tensor_parallel_size", tp) if ep > 1 or shape.get("num_experts") else 1,
        dp=world // (tp * pp * cp),
        micro_batch=read.whole("micro_batch_size"), global_batch=read.whole("global_batch_size"),
        sequence_parallel=read.flag("sequence_parallel"), recompute=_recompute(read),
        zero_stage=1 if read.flag("use_distributed_optimizer") else 0, precision=_precision(read),
        schedule="none" if pp == 1 else ("interleaved" if _vpp(read, pp) > 1 else "1f1b"),
        tp_overlap=read.flag("tp_comm_overlap"), grad_reduce_overlap=read.flag("overlap_grad_reduce"),
        param_gather_overlap=read.flag("overlap_param_gather"), moe_dispatcher=read.text("moe_token_dispatcher_type"),
        step_time_s=log.median_s, step_time_from="iteration lines",
    )  # fmt: skip
    return run, shape


def model_shape(read: _Arguments) -> dict[str, Any]:
    """The model in the keys of a ``models.yaml`` entry."""
    heads, hidden = read.whole("num_attention_heads"), read.whole("hidden_size")
    shape: dict[str, Any] = {
        "num_layers": read.whole("num_layers"),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_kv_heads": read.whole("num_query_groups", heads) if read.flag("group_query_attention") else heads,
        "head_dim": read.whole("kv_channels", hidden // heads),
        "ffn_hidden_size": read.whole("ffn_hidden_size", 4 * hidden),
        "gated_mlp": read.flag("swiglu"),
        "vocab_size": read.whole("padded_vocab_size"),
        "untied_embeddings": read.flag("untie_embeddings_and_output_weights"),
    }
    if read.text("num_experts"):
        shape["num_experts"] = read.whole("num_experts")
        shape["moe_topk"] = read.whole("moe_router_topk", 2)
        shape["moe_ffn_hidden_size"] = read.whole("moe_ffn_hidden_size", shape["ffn_hidden_size"])
    return shape


def _vpp(read: _Arguments, pp: int) -> int:
    stated = read.whole("virtual_pipeline_model_parallel_size", 0)
    per_stage = read.whole("num_layers_per_virtual_pipeline_stage", 0)
    return stated or (read.whole("num_layers") // (pp * per_stage) if per_stage else 1)


def _recompute(read: _Arguments) -> str:
    return read.text("recompute_granularity") or "none"


def _precision(read: _Arguments) -> str:
    if read.text("fp8"):
        return "fp8"
    return "fp16" if read.flag("fp16") else "bf16"
