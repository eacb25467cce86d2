"""A torchtitan TOML -> model, batch, strategy, stack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autodeploy.errors import InputError
from autodeploy.launch.launch import Launch
from autodeploy.launch.torchtitan_names import BACKENDS, CONVERTERS, FLAVORS, RESHARD, op_wise
from autodeploy.strategy.layout import Placing, default_layout, parse_layout
from autodeploy.strategy.notation import Strategy
from cost_models.inputs import ModelSpec
from cost_models.schedules import SCHEDULE_TABLE

SINGLE = ("1F1B", "GPipe")


class Toml:
    """Keys of a table with their defaults; what is of the wrong kind is an InputError."""

    def __init__(self, document: dict[str, Any], table: str) -> None:
        found: Any = document
        for part in table.split("."):
            found = found.get(part, {}) if isinstance(found, dict) else {}
        self.table, self.name = found if isinstance(found, dict) else {}, table

    def count(self, key: str, default: int, least: int = 1) -> int:
        found = self.table.get(key, default)
        if isinstance(found, bool) or not isinstance(found, int) or (found < least and found != default):
            raise InputError(f"{self.name}.{key}", found, f"a whole number >= {least}")
        return found

    def text(self, key: str, default: str) -> str:
        found = self.table.get(key, default)
        if not isinstance(found, str):
            raise InputError(f"{self.name}.{key}", found, "text")
        return found

    def on(self, key: str, default: bool) -> bool:
        found = self.table.get(key, default)
        if not isinstance(found, bool):
            raise InputError(f"{self.name}.{key}", found, "true or false")
        return found


def is_torchtitan(document: dict[str, Any]) -> bool:
    return "parallelism" in document or ("model" in document and "training" in document)


def torchtitan_launch(document: dict[str, Any], source: str) -> Launch:
    defaults: list[str] = []
    model, mtp = _model(document)
    sizes, training = Toml(document, "parallelism"), Toml(document, "training")
    strategy = _strategy(document, model)
    shard = sizes.count("data_parallel_shard_degree", -1)
    replicas = sizes.count("data_parallel_replicate_degree", 1)
    ignored = [f"{replicas} replicas of the shards (HSDP): priced as one sharded group"] if replicas > 1 else []
    inner = strategy.tp * strategy.cp * strategy.pp
    devices = inner * shard * replicas if shard > 0 else None
    batch = _global_batch(training, shard * replicas if shard > 0 else 0, defaults)
    if "seq_len" not in training.table:
        defaults.append("sequence length 2048, torchtitan's")
    return Launch(
        source=source, backend="torchtitan", model=model, strategy=strategy, devices=devices,
        seq_length=training.count("seq_len", 2048), global_batch=batch, precision=_precision(document),
        stated=_stated(document, mtp), defaults=tuple(defaults), ignored=tuple(ignored),
    )  # fmt: skip


def _model(document: dict[str, Any]) -> tuple[ModelSpec, bool]:
    """The shipped model of name and flavor, and whether torchtitan leaves its MTP modules out."""
    from autodeploy.models.load import load_model

    table = Toml(document, "model")
    family, flavor = table.text("name", "llama3"), table.text("flavor", "debugmodel")
    for name, known in FLAVORS.items():
        if known == (family, flavor):
            return load_model(name), load_model(name).mtp_modules > 0
    allowed = f"one of {', '.join(sorted({' '.join(known) for known in FLAVORS.values()}))}"
    raise InputError("model.flavor", f"{family} {flavor}", allowed, "name a config.json as MODEL and give STRATEGY")


def _global_batch(training: Toml, dp: int, defaults: list[str]) -> int | None:
    found = training.count("global_batch_size", -1)
    if found > 0:
        return found
    if not dp:
        return None
    local = training.count("local_batch_size", training.count("batch_size", 8))
    defaults.append(f"global batch {local * dp}: local_batch_size x DP")
    return local * dp


def _precision(document: dict[str, Any]) -> str:
    wanted = Toml(document, "model").table.get("converters", [])
    names = {converter: precision for precision, converter in CONVERTERS.items()}
    return next((names[one] for one in wanted if one in names), "bf16")


def _stated(document: dict[str, Any], mtp: bool) -> dict[str, Any]:
    stated: dict[str, Any] = {
        "compiled": Toml(document, "compile").on("enable", Toml(document, "training").on("compile", False)),
        "overlap_tp": Toml(document, "parallelism").on("enable_async_tensor_parallel", False),
        "fused_optimizer": Toml(document, "optimizer").text("implementation", "fused") == "fused",
    }
    if _precision(document) == "fp8":
        stated["fp8_gather"] = Toml(document, "quantize.linear.float8").on("enable_fsdp_float8_all_gather", False)
    if Toml(document, "debug").on("moe_force_load_balance", False):
        stated["routing"] = "forced-balance"
    if mtp:
        stated["mtp"] = False
    return stated


def _strategy(document: dict[str, Any], model: ModelSpec) -> Strategy:
    sizes, training = Toml(document, "parallelism"), Toml(document, "training")
    tp, pp = sizes.count("tensor_parallel_degree", 1), sizes.count("pipeline_parallel_degree", 1)
    torch_class = sizes.text("pipeline_parallel_schedule", "1F1B")
    schedule = _schedule(torch_class) if pp > 1 else ""
    local = training.count("local_batch_size", training.count("batch_size", 8))
    recompute = _recompute(document, model)
    comm = {word: name for name, word in BACKENDS.items()} | {"hybridep": "hierarchical-dedup"}
    ep = sizes.count("expert_parallel_degree", 1)
    parts = sizes.table.get("module_fqns_per_model_part")
    plain = Strategy(
        tp=tp, pp=pp, vpp=_vpp(sizes, parts, model, pp, torch_class), cp=sizes.count("context_parallel_degree", 1), ep=ep,
        etp=sizes.count("expert_tensor_parallel_degree", 1),
        micro_batch=sizes.count("pipeline_parallel_microbatch_size", 1) if pp > 1 else local,
        zero_stage=_zero(sizes, pp), sequence_parallel=tp > 1 and sizes.on("enable_sequence_parallel", True),
        recompute=recompute, schedule=schedule,
        dispatcher=comm.get(sizes.text("expert_parallel_comm_backend", "standard"), "alltoall") if ep > 1 else "alltoall",
        ep_overlap=schedule == "dualpipev" and ep > 1 and sizes.on("pipeline_parallel_expert_parallel_overlap", True),
    )  # fmt: skip
    return replace(plain, layout=_layout(parts, plain, model)) if pp > 1 else plain


def _schedule(torch_class: str) -> str:
    for name, schedule in SCHEDULE_TABLE.items():
        if schedule.torch_class and schedule.torch_class.lower() == torch_class.lower():
            return name
    known = [schedule.torch_class for schedule in SCHEDULE_TABLE.values() if schedule.torch_class]
    raise InputError("parallelism.pipeline_parallel_schedule", torch_class, f"one of {', '.join(known)}")


def _zero(sizes: Toml, pp: int) -> int:
    policy = sizes.text("fsdp_reshard_after_forward", "default")
    stages = {word: stage for stage, word in RESHARD.items()} | {"default": 2 if pp > 1 else 3}
    if policy not in stages:
        raise InputError("parallelism.fsdp_reshard_after_forward", policy, f"one of {', '.join(stages)}")
    return stages[policy]


def _vpp(sizes: Toml, parts: Any, model: ModelSpec, pp: int, torch_class: str) -> int:
    if pp == 1:
        return 1
    if isinstance(parts, list):
        return max(len(parts) // pp, 1)
    per_stage = sizes.count("pipeline_parallel_layers_per_stage", 0, 1)
    if per_stage:
        return max(-(-(model.num_layers + 2) // per_stage) // pp, 1)
    return 1 if torch_class in SINGLE else 2


def _recompute(document: dict[str, Any], model: ModelSpec) -> tuple[str, ...]:
    table = Toml(document, "activation_checkpoint")
    mode = table.text("mode", "selective")
    if mode == "full":
        return ("full",)
    return op_wise(model) if mode == "selective" else ()


def _layout(parts: Any, plain: Strategy, model: ModelSpec) -> str:
    """Text of the layout; "" where it is torchtitan's own split."""
    if not isinstance(parts, list):
        return ""
    layers = [sum(str(name).startswith("layers.") for name in part) for part in parts]
    text = "fqn:" + ",".join(map(str, layers))
    given = parse_layout(text, model, plain.pp, plain.vpp)
    placing = Placing(SCHEDULE_TABLE[plain.schedule].v_shaped, bool(plain.ep_overlap))
    default = default_layout(model, plain.pp, plain.vpp, "torchtitan", placing)
    return "" if default.counts.tolist() == given.counts.tolist() else text
