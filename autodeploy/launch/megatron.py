"""Arguments of Megatron-LM and MindSpeed-LLM -> model, batch, strategy, stack.

Names and defaults: Megatron-LM megatron/training/arguments.py, MindSpeed mindspeed/features_manager, MindSpeed-LLM.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import Any

from autodeploy.errors import InputError
from autodeploy.launch.launch import Launch
from autodeploy.launch.program_table import Args, read_program, value
from autodeploy.strategy.layout import Placing, default_layout, parse_layout
from autodeploy.strategy.layout_text import parse_layout_text, print_layout_text
from autodeploy.strategy.notation import Strategy
from cost_models.inputs import ModelSpec
from cost_models.schedules import SCHEDULE_TABLE

MINDSPEED_MARKS = (
    "use-fused-rmsnorm", "use-fused-swiglu", "use-fused-rotary-pos-emb", "moe-fb-overlap", "schedules-method",
    "moe-tp-extend-ep", "noop-layers", "num-layer-list", "swap-attention", "swap-optimizer", "use-ascend-mc2",
    "use-ascend-coc", "context-parallel-algo", "moe-permutation-async-comm", "reuse-fp32-param",
    "first-k-dense-replace", "enable-recompute-layers-per-pp-rank", "moe-alltoall-overlap-comm", "mla-mm-split",
    "npu-deterministic", "mla-fa-without-pad",
)  # fmt: skip
USUAL_VOCAB = 131072
SHARDING = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
FP8_RECIPES = {"delayed": "fp8", "tensorwise": "fp8", "blockwise": "fp8_block", "mxfp8": "mxfp8"}
MODULES = ("core_attn", "moe_act", "mla_up_proj", "layernorm", "mlp", "moe")


@dataclass(slots=True)
class Reading:
    """Arguments on their way to a ``Launch``, with what there is to tell."""

    args: Args
    dialect: str
    defaults: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    def count(self, name: str, default: int) -> int:
        text = value(self.args, name)
        if text is None:
            return default
        if not text.isdecimal() or len(text) > 12:
            remedy = "a shell variable that the file does not set" if "$" in text else ""
            raise InputError(f"--{name}", text, "a whole number >= 0", remedy)
        return int(text)

    def size(self, name: str, default: int) -> int:
        return max(self.count(name, default), 1)

    def flag(self, *names: str) -> bool:
        return any(name in self.args for name in names)


def dialect_of(args: Args) -> str:
    """``mindspeed`` where an argument is MindSpeed's own."""
    return "mindspeed" if any(name in args for name in MINDSPEED_MARKS) else "megatron"


def launch_of(args: Args, source: str, *, mindspeed: bool = False, backend: str = "", vocab: int = 0) -> Launch:
    """The run that the arguments start. ``mindspeed``: the file says so elsewhere; ``backend``: another program that
    takes Megatron's settings; ``vocab``: where the arguments leave it to the tokenizer."""
    reading = Reading(args=args, dialect="megatron" if backend else "mindspeed" if mindspeed else dialect_of(args))
    backend = backend or reading.dialect
    model = _model(reading, source, vocab)
    moe = any(half.is_moe for kind in model.kinds for half in kind.feed_forwards)
    strategy = _strategy(reading, model, moe, backend)
    devices = _devices(reading)
    return Launch(
        source=source,
        backend=backend,
        model=model,
        strategy=strategy,
        devices=devices,
        seq_length=_stated(reading, "seq-length", "encoder-seq-length"),
        global_batch=_global_batch(reading, strategy, devices),
        precision=_precision(reading),
        stated=read_program(args, reading.dialect, moe=moe),
        defaults=tuple(reading.defaults),
        ignored=tuple(reading.ignored),
    )


def _stated(reading: Reading, *names: str) -> int | None:
    for name in names:
        if name in reading.args:
            return reading.size(name, 1)
    return None


# ------------------------------------------------------------------------------------------------------ model


def _model(reading: Reading, source: str, vocab: int) -> ModelSpec:
    from autodeploy.models.megatron import parse_arguments

    words = dict(reading.args)
    _sentinels(words)
    if vocab:
        words.pop("padded-vocab-size", None)
        words["vocab-size"] = (str(vocab),)
    text = "\n".join(" ".join([f"--{name}", *map(shlex.quote, values)]) for name, values in words.items())
    if "vocab-size" not in words and "padded-vocab-size" not in words:
        text = f"{text}\n--vocab-size {_known_vocab(reading, text)}"
    return parse_arguments(text, source)


def _sentinels(words: dict[str, tuple[str, ...]]) -> None:
    """MindSpeed-LLM: -1 means that every layer is a mixture of experts, or that nothing is set."""
    if words.get("moe-layer-freq") == ("-1",):
        words["moe-layer-freq"] = ("1",)
    for name in ("first-k-dense-replace", "n-shared-experts", "moe-router-num-groups"):
        if words.get(name, ("",))[0].startswith("-"):
            del words[name]


def _known_vocab(reading: Reading, text: str) -> int:
    """The vocabulary that the arguments leave to the tokenizer: the tokenizer's own where its folder is here, else that
    of a shipped model with the same layers, else a usual one. What was taken is told."""
    from autodeploy.launch.tokenizer import tokenizer_vocab
    from autodeploy.models.load import load_model
    from autodeploy.models.megatron import parse_arguments
    from autodeploy.models.zoo import zoo_names

    own = tokenizer_vocab(reading.args)
    if own:
        reading.defaults.append(f"vocabulary {own}: the tokenizer's")
        return own
    shape = parse_arguments(f"{text}\n--vocab-size 1", "shape")
    for name in zoo_names():
        model = load_model(name)
        if model.hidden == shape.hidden and model.layers == shape.layers:
            reading.defaults.append(
                f"vocabulary {model.vocab}: that of {name}, which has the same layers; --vocab-size wins"
            )
            return model.vocab
    reading.defaults.append(f"vocabulary {USUAL_VOCAB}: it is the tokenizer's, which is not here; give --vocab-size")
    return USUAL_VOCAB


# ---------------------------------------------------------------------------------------------------- workload


def _devices(reading: Reading) -> int | None:
    """Cards: --world-size of a log, or nodes x processes of torchrun's arguments."""
    if "world-size" in reading.args:
        return reading.size("world-size", 1)
    numbers = []
    for name in ("nnodes", "nproc-per-node"):
        text = value(reading.args, name)
        if text is None or not text.isdecimal():
            return None
        numbers.append(int(text))
    return numbers[0] * numbers[1]


def _global_batch(reading: Reading, strategy: Strategy, devices: int | None) -> int | None:
    found = _stated(reading, "global-batch-size")
    inner = strategy.tp * strategy.cp * strategy.pp
    if found is None and devices and devices % inner == 0:
        found = strategy.micro_batch * devices // inner
        reading.defaults.append(f"global batch {found}: MBS x DP, as Megatron has it where nothing is said")
    return found


def _precision(reading: Reading) -> str:
    if reading.flag("fp4-format"):
        return "nvfp4"
    if reading.flag("fp8-format", "fp8-hybrid", "fp8-e4m3"):
        return FP8_RECIPES.get(value(reading.args, "fp8-recipe") or "delayed", "fp8")
    if not reading.flag("bf16", "fp16"):
        reading.defaults.append("precision bf16: neither --bf16 nor --fp16 is given (fp32 is not priced)")
    return "fp16" if reading.flag("fp16") else "bf16"


# ---------------------------------------------------------------------------------------------------- strategy


def _strategy(reading: Reading, model: ModelSpec, moe: bool, backend: str) -> Strategy:
    tp, pp = reading.size("tensor-model-parallel-size", 1), reading.size("pipeline-model-parallel-size", 1)
    ep, etp = _expert_sizes(reading, tp) if moe else (1, 1)
    schedule = "dualpipev" if value(reading.args, "schedules-method") == "dualpipev" else ""
    vpp = 2 if schedule else _vpp(reading, model, pp)
    recompute, layers = _recompute(reading)
    plain = Strategy(
        tp=tp, pp=pp, vpp=vpp, cp=reading.size("context-parallel-size", 1), ep=ep, etp=etp,
        micro_batch=_micro_batch(reading),
        micro_batch_group=reading.count("microbatch-group-size-per-virtual-pipeline-stage", 0),
        zero_stage=_zero(reading), sequence_parallel=reading.flag("sequence-parallel") and tp > 1,
        recompute=recompute, recompute_layers=layers, schedule=schedule,
        dispatcher=_dispatcher(reading, ep) if moe else "alltoall",
        ep_overlap=reading.flag("overlap-moe-expert-parallel-comm", "moe-fb-overlap"),
        offload_frac=_offload(reading), swap_frac=_swap(reading),
    )  # fmt: skip
    return replace(plain, layout=_layout(reading, plain, model, backend))


def _micro_batch(reading: Reading) -> int:
    if "micro-batch-size" not in reading.args:
        reading.defaults.append("micro-batch 1")
    return reading.size("micro-batch-size", 1)


def _expert_sizes(reading: Reading, tp: int) -> tuple[int, int]:
    ep = reading.size("expert-model-parallel-size", 1)
    if reading.flag("moe-tp-extend-ep"):
        return ep * tp, 1  # experts of a TP group are whole, and spread over it
    if "expert-tensor-parallel-size" not in reading.args and tp > 1:
        reading.defaults.append(
            f"expert tensor parallel {tp}: that of attention, as Megatron has it where nothing is said"
        )
    return ep, reading.size("expert-tensor-parallel-size", tp)


def _dispatcher(reading: Reading, ep: int) -> str:
    kind = value(reading.args, "moe-token-dispatcher-type") or "allgather"
    if ep == 1:
        return "alltoall"
    if reading.flag("moe-hierarchical-alltoallv"):
        return "hierarchical-allgather"
    if kind == "flex" or reading.flag("moe-enable-deepep"):
        return "hierarchical-dedup"
    return "allgather" if kind == "allgather" else "alltoall"


def _vpp(reading: Reading, model: ModelSpec, pp: int) -> int:
    if pp == 1:
        return 1
    layout = value(reading.args, "pipeline-model-parallel-layout")
    if layout:
        return max(len(parse_layout_text(layout)) // pp, 1)
    stages = reading.count("num-virtual-stages-per-pipeline-rank", 0)
    if stages:
        return stages
    per_stage = reading.count("num-layers-per-virtual-pipeline-stage", 0)
    return max(_slots(reading) // pp // per_stage, 1) if per_stage else 1


def _slots(reading: Reading) -> int:
    """Layers and what counts as one: no-op layers, the embedding, the loss."""
    extra = reading.flag("account-for-embedding-in-pipeline-split") + reading.flag("account-for-loss-in-pipeline-split")
    return reading.count("num-layers", 0) + extra


def _zero(reading: Reading) -> int:
    if reading.flag("use-torch-fsdp2"):
        return 3
    if reading.flag("use-megatron-fsdp", "use-custom-fsdp"):
        return SHARDING.get(value(reading.args, "data-parallel-sharding-strategy") or "optim_grads_params", 3)
    return int(reading.flag("use-distributed-optimizer"))


def _recompute(reading: Reading) -> tuple[tuple[str, ...], int]:
    """Modules, and layers of each stage under full recompute (0: all)."""
    kind = value(reading.args, "recompute-granularity")
    if kind == "full" or (kind is None and reading.flag("recompute-method")):
        block = value(reading.args, "recompute-method") == "block"
        return ("full",), reading.count("recompute-num-layers", 0) if block else 0
    modules = set()
    if kind == "selective" or reading.flag("recompute-activations"):
        modules = set(reading.args.get("recompute-modules", ("core_attn",)))
        unknown = modules - set(MODULES)
        reading.ignored += [f"recompute of {name}" for name in sorted(unknown)]
        modules &= set(MODULES)
    if reading.flag("moe-layer-recompute"):
        modules.add("moe")
    if reading.flag("recompute-norm"):
        modules.add("layernorm")
    if reading.flag("recompute-mla-up-proj"):
        modules.add("mla_up_proj")
    if reading.flag("recompute-activation-function"):
        modules.add("moe_act" if reading.count("num-experts", 0) > 1 else "mlp")
    return tuple(name for name in MODULES if name in modules), 0


def _offload(reading: Reading) -> float:
    if reading.flag("swap-optimizer"):
        return 1.0
    if not reading.flag("optimizer-cpu-offload"):
        return 0.0
    return float(value(reading.args, "optimizer-offload-fraction") or 1.0)


def _swap(reading: Reading) -> float:
    if reading.flag("swap-attention"):
        return 1.0
    if not reading.flag("fine-grained-activation-offloading"):
        return 0.0
    return float(value(reading.args, "activation-offload-fraction") or 1.0)


# ------------------------------------------------------------------------------------------------------ layout


def _layout(reading: Reading, plain: Strategy, model: ModelSpec, backend: str) -> str:
    """Text of the layout; "" where it is the back end's default."""
    if plain.pp == 1:
        return ""
    text = _layout_text(reading, plain, model)
    placing = Placing(SCHEDULE_TABLE[plain.schedule].v_shaped, bool(plain.ep_overlap))
    try:
        given = parse_layout(text, model, plain.pp, plain.vpp)
    except InputError as error:
        reading.defaults.append(f"the default layout: {text} is not {error.allowed}")
        return ""
    try:
        default = default_layout(model, plain.pp, plain.vpp, backend, placing)
    except InputError:
        return text
    return "" if default.counts.tolist() == given.counts.tolist() else text


def _layout_text(reading: Reading, plain: Strategy, model: ModelSpec) -> str:
    grammar = value(reading.args, "pipeline-model-parallel-layout")
    if grammar:
        return print_layout_text(parse_layout_text(grammar))
    idle = value(reading.args, "noop-layers")
    if idle:
        return f"noop:{idle}"
    listed = value(reading.args, "num-layer-list")
    if listed:
        return listed
    embedding = reading.flag("account-for-embedding-in-pipeline-split")
    loss = reading.flag("account-for-loss-in-pipeline-split")
    if embedding or loss:
        return "account-for-" + "-and-".join(name for name, on in (("embedding", embedding), ("loss", loss)) if on)
    first = reading.count("decoder-first-pipeline-num-layers", 0)
    last = reading.count("decoder-last-pipeline-num-layers", 0)
    return _uneven(model, plain, first, last) if first or last else "even"


def _uneven(model: ModelSpec, plain: Strategy, first: int, last: int) -> str:
    """--decoder-first/last-pipeline-num-layers: layers of the first and the last rank; the others share the rest."""
    from autodeploy.strategy.layout_text import StageText

    middle = plain.pp - (first > 0) - (last > 0)
    rest = model.num_layers - first - last
    allowed = f"counts that leave a multiple of {middle} x VPP{plain.vpp} layers to the {middle} other ranks"
    if middle <= 0 or rest < 0 or rest % (middle * plain.vpp) or first % plain.vpp or last % plain.vpp:
        raise InputError("--decoder-first/last-pipeline-num-layers", f"{first}, {last}", allowed)
    ranks = [first] * (first > 0) + [rest // middle] * middle + [last] * (last > 0)
    stages = [count // plain.vpp for _ in range(plain.vpp) for count in ranks]
    end = len(stages) - 1
    texts = [
        StageText(count, int(s == 0), model.mtp_modules if s == end else 0, int(s == end))
        for s, count in enumerate(stages)
    ]
    return print_layout_text(texts)


def stated_values(launch: Launch, usual: dict[str, Any]) -> dict[str, Any]:
    """Fields of the stack that the file states otherwise than the back end's usual stack."""
    return {name: one for name, one in launch.stated.items() if one != usual.get(name)}
