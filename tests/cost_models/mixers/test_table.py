"""Laws of every token mixer in the table, and one that is added to a temporary table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cost_models.case import Case
from cost_models.errors import ConfigError
from cost_models.flops import layer_flop
from cost_models.inputs import Attention, LayerKind, ModelSpec
from cost_models.layer_price import price_layers
from cost_models.mixers.core_attention import score_flop
from cost_models.mixers.record import Mixer, Projection
from cost_models.mixers.softmax import SOFTMAX
from cost_models.mixers.table import MIXERS, mixer_of
from cost_models.operators import FusedAttention, Gemm
from cost_models.parameters import layer_parameters
from cost_models.weight_shapes import layer_weights
from tests.cost_models.helpers import core, machine, strategy, workload

HIDDEN = 256


def example(kind: str) -> Attention:
    """A mixer of this kind with every field that some kind needs."""
    return Attention(
        kind=kind, query_heads=8, kv_heads=8, head_dim=32, v_head_dim=32, kv_lora_rank=64, q_lora_rank=96,
        qk_nope_head_dim=16, qk_rope_head_dim=16, value_heads=8, state_dim=32, state_groups=8, conv_kernel=4,
        dt_rank=16, o_lora_rank=32, o_groups=2,
    )  # fmt: skip


def model_of(attention: Attention) -> ModelSpec:
    return ModelSpec(
        name="m", hidden=HIDDEN, vocab=1024, layers=((LayerKind(attention=attention, feed_forward=None, norms=1), 2),)
    )


@pytest.mark.parametrize("kind", MIXERS)
def test_projections_are_stated_once(kind: str) -> None:
    """Weights of the GEMMs = weight shapes = parameters without the others; FLOPs = what the operators do."""
    a, work = example(kind), workload(seq_length=512)
    model = model_of(a)
    point = core(model, work)
    mixer = mixer_of(a)
    ops = mixer.ops(a, model, work, point).computes
    gemms = [op for op in ops if isinstance(op, Gemm)]
    fused = [op for op in ops if isinstance(op, FusedAttention)]
    elements = sum(float(op.cols[0] * op.depth[0]) for op in gemms)
    dense, _ = layer_weights(model.layers[0][0], model, strategy(model), work)
    assert sum(float(w[0]) for w in dense) == pytest.approx(elements)
    others = mixer.others(a, HIDDEN, False).total
    assert mixer.parameters(a, HIDDEN, False).total == elements + others
    flop = sum(2.0 * float(op.rows[0] * op.cols[0] * op.depth[0]) for op in gemms)
    flop += sum(2.0 * float(op.heads[0] * op.pairs[0] * (op.qk_dim + op.v_dim)) for op in fused)
    assert flop / 512 == pytest.approx(layer_flop(model.layers[0][0], model, work))


@pytest.mark.parametrize("kind", MIXERS)
def test_tensor_parallel_divides_the_sharded_projections(kind: str) -> None:
    a, work = example(kind), workload()
    model = model_of(a)
    mixer = mixer_of(a)
    for projection, whole, half in zip(
        mixer.projections(a, HIDDEN), mixer.weights(a, HIDDEN, np.ones(1)), mixer.weights(a, HIDDEN, np.full(1, 2.0)),
        strict=True,
    ):  # fmt: skip
        assert half[0] == whole[0] / (1 if projection.split == "whole" else 2)
    one, two = core(model, work), core(model, work, tp=2, sequence_parallel=True)
    flop = [
        sum(float(op.rows[0] * op.cols[0] * op.depth[0]) for op in mixer.ops(a, model, work, point).computes
            if isinstance(op, Gemm))
        for point in (one, two)
    ]  # fmt: skip
    assert flop[1] == pytest.approx(flop[0] / 2)


@pytest.mark.parametrize("kind", [kind for kind in MIXERS if kind not in ("softmax", "mla", "compressed")])
def test_linear_kinds_grow_with_the_sequence_and_not_with_its_square(kind: str) -> None:
    a, kinds = example(kind), model_of(example(kind))
    short, long = (layer_flop(kinds.layers[0][0], kinds, workload(seq_length=s)) for s in (1024, 65536))
    assert short == long  # per token
    assert (
        layer_flop(
            LayerKind(attention=replace(a, kind="softmax"), feed_forward=None), kinds, workload(seq_length=65536)
        )
        > long
    )


def test_context_parallelism_of_a_recurrence_exchanges_heads() -> None:
    """Two cards each send half of z, x, B, C, dt and of the output of their tokens: bytes of the columns, nothing at CP1."""
    a, work = example("mamba"), workload(seq_length=512)
    model = model_of(a)
    mixer = mixer_of(a)
    one, two = (mixer.ops(a, model, work, core(model, work, cp=cp)).collectives for cp in (1, 2))
    assert not [op for op in one if op.group == "cp" and op.forward_bytes[0] > 0]
    (exchange,) = [op for op in two if op.group == "cp"]
    inner, keys = 8 * 32, 2 * 8 * 32
    assert exchange.op == "all_to_all" and exchange.forward_bytes[0] == 2 * 256 * (3 * inner + keys + 8)


def test_unknown_kind_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"Attention.kind = 'rotating': must be one of softmax, mla"):
        Attention(kind="rotating", query_heads=1, kv_heads=1, head_dim=8, v_head_dim=8)


def test_a_mixer_is_added_by_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A softmax attention whose output goes through a bottleneck: parameters, weights, FLOPs and prices follow."""

    def projections(a: Attention, hidden: int) -> tuple[Projection, ...]:
        narrow = Projection(name="narrow", inputs=hidden, outputs=64, split="whole")
        return (*SOFTMAX.projections(a, hidden), narrow)

    added = Mixer(projections=projections, mixing_flop=score_flop, add_mixing=SOFTMAX.add_mixing)
    monkeypatch.setitem(MIXERS, "bottleneck", added)
    a = Attention(kind="bottleneck", query_heads=8, kv_heads=8, head_dim=32, v_head_dim=32)
    plain = replace(a, kind="softmax")
    model, work = model_of(a), workload()
    assert layer_parameters(model.layers[0][0], HIDDEN, False).replicated == HIDDEN * 64 + HIDDEN  # and the norm
    more = layer_flop(model.layers[0][0], model, work) - layer_flop(model_of(plain).layers[0][0], model, work)
    assert more == 2 * HIDDEN * 64
    seconds = [
        price_layers(Case(model=each, hardware=machine(), workload=work), core(each, work), (0,)).forward_s[0, 0].sum()
        for each in (model, model_of(plain))
    ]
    assert seconds[0] > seconds[1]
