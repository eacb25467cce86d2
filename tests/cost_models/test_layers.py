"""Saved activations and FLOPs of one layer against published formulas."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models.flops import model_flop_per_token
from cost_models.inputs import SoftwareStack
from cost_models.layers import layer_ops
from cost_models.operators import FusedAttention, Gemm, GroupedGemm
from cost_models.strategies import recompute_mask
from tests.cost_models.helpers import core, gpt, moe, pangu_718b, workload

KORTHIKANTI = SoftwareStack(attention_kernel="fused_softmax", dropout=True)


def saved(model, work, modules=(), **axes) -> float:
    point = core(model, work, **axes)
    mask = recompute_mask(modules)
    ops = layer_ops(model.layers[-1][0], model, work, point)
    return float(sum(item.size_bytes[0] for item in ops.saved if not mask & item.modules))


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_saved_bytes_follow_korthikanti(tp: int) -> None:
    """arXiv 2205.05198, equations 2 and 4 and table 2; bytes of one GPT layer and micro-batch."""
    model, s, b, h, a = gpt(), 1024, 2, 1024, 16
    work = workload(stack=KORTHIKANTI)
    sbh = s * b * h
    scores = 5 * a * s / h
    axes = {"tp": tp, "micro_batch": b}
    assert saved(model, work, sequence_parallel=False, **axes) == pytest.approx(sbh * (10 + 24 / tp + scores / tp))
    assert saved(model, work, sequence_parallel=True, **axes) == pytest.approx(sbh * (34 + scores) / tp)
    assert saved(model, work, ("core_attn",), sequence_parallel=True, **axes) == pytest.approx(sbh * 34 / tp)
    assert saved(model, work, ("full",), sequence_parallel=True, **axes) == pytest.approx(2 * sbh / tp)
    assert saved(model, work, ("full",), sequence_parallel=False, **axes) == pytest.approx(2 * sbh)


def test_flash_attention_leaves_selective_recompute_little_to_save() -> None:
    """Users expect 70% and see 2%: with a fused kernel the scores are not saved in the first place (user case 12)."""
    model, work = gpt(), workload()
    without, with_it = saved(model, work), saved(model, work, ("core_attn",))
    assert 0.97 < with_it / without < 1.0


def test_expert_rows_follow_top_k_imbalance_and_folding() -> None:
    """Rows of a card = T/t x top_k x ETP x imbalance, whatever EP is."""
    model = moe(experts=32, top_k=4)
    for imbalance, etp in ((1.0, 1), (1.5, 1), (1.0, 2)):
        work = workload(expert_imbalance=imbalance)
        point = core(model, work, tp=2, ep=8, etp=etp, dp=8)
        ops = layer_ops(model.layers[-1][0], model, work, point)
        rows = [op.rows[0] for op in ops.computes if isinstance(op, GroupedGemm)]
        assert rows == pytest.approx([1024 / 2 * 4 * etp * imbalance] * 2)


def test_forward_products_add_up_to_the_model_flop() -> None:
    """The operators of a layer and the FLOPs that MFU counts are two statements of one thing."""
    for model in (gpt(), moe(), pangu_718b()):
        work = workload(seq_length=2048)
        point = core(model, work)
        forward = 0.0
        for kind, count in model.layers:
            for op in layer_ops(kind, model, work, point).computes:
                if isinstance(op, (Gemm, GroupedGemm)):
                    forward += count * 2.0 * float(op.rows[0] * op.cols[0] * op.depth[0])
                elif isinstance(op, FusedAttention):
                    forward += count * 2.0 * float(op.pairs[0] * (op.qk_dim + op.v_dim) * op.heads[0])
        head = 2.0 * model.hidden * model.vocab
        mtp = 0.0
        if model.mtp_modules:
            kind = model.mtp_layer_kind
            layer = sum(
                2.0 * float(op.rows[0] * op.cols[0] * op.depth[0])
                for op in layer_ops(kind, model, work, point).computes
                if isinstance(op, Gemm | GroupedGemm)
            )
            layer += sum(
                2.0 * float(op.pairs[0] * (op.qk_dim + op.v_dim) * op.heads[0])
                for op in layer_ops(kind, model, work, point).computes
                if isinstance(op, FusedAttention)
            )
            mtp = layer / 2048 + head + 4.0 * model.hidden**2
        assert 3 * (forward / 2048 + head + mtp) == pytest.approx(model_flop_per_token(model, work), rel=1e-9)


def test_gpt3_flop_matches_the_closed_formula() -> None:
    """Narayanan et al. 2021, eq. 3 without recompute: 72 L s h^2 (1 + s/(6h) + V/(12 h L)) per sequence, full attention."""
    model = gpt(layers=96, hidden=12288, heads=96)
    work = workload(seq_length=2048, attention_mask="full")
    layers, s, h, v = 96, 2048, 12288, 51200
    expected = 72 * layers * h * h * (1 + s / (6 * h) + v / (12 * h * layers))
    assert model_flop_per_token(model, work) == pytest.approx(expected, rel=1e-6)


def test_sequence_parallel_divides_norms_and_plain_tensor_parallel_does_not() -> None:
    model, work = gpt(), workload()
    shared = core(model, work, tp=8, sequence_parallel=True)
    whole = core(model, work, tp=8, sequence_parallel=False)
    assert np.allclose(whole.tokens_norm, 8 * shared.tokens_norm)
