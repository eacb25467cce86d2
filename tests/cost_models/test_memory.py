"""Memory by moment: values worked out by hand, and invariants of the four moments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cost_models.inputs import SoftwareStack
from cost_models.layers import layer_ops
from cost_models.step.memory import late_optimizer_bytes, static_bytes
from cost_models.step.memory_peaks import Held, Workspace, fullest
from cost_models.step.memory_peaks import moments as moments_of
from cost_models.strategies import recompute_mask
from cost_models.weight_shapes import layer_weights, vocabulary_weight
from tests.cost_models.helpers import core, gpt, workload

NAMES = ("loss", "layer", "embedding", "step", "kept")


def _peak(activations=10.0, optimizer=12.0, head=2.0, one=4.0, moments=0.0, **work):
    whole = {name: np.full((1, 1), work.get(name, 0.0)) for name in NAMES}
    figures = {
        "activations": activations,
        "optimizer": optimizer,
        "head": head,
        "one_micro_batch": one,
        "late": moments,
    }
    held = Held(**{name: np.full((1, 1), value) for name, value in figures.items()})
    return sum(float(np.sum(part)) for part in fullest(moments_of(held, Workspace(**whole))))


@pytest.mark.parametrize(
    ("work", "moments", "total"),
    [
        ({"loss": 3.0}, 0.0, 10 + 12 + 3),  # everything is saved, the logits' buffers beside it
        ({"layer": 6.0}, 0.0, 10 - 2 + 12 + 6),  # the head's tensors have gone
        ({"embedding": 9.0}, 0.0, 10 - 4 + 12 + 9),  # one micro-batch has gone
        ({"step": 11.0}, 0.0, 12 + 11),  # nothing saved is left
        ({"loss": 1.0}, 8.0, 10 + 4 + 1),  # read after one step: 15 before it, 12 in it
        ({"loss": 1.0, "kept": 2.0}, 0.0, 10 + 12 + 1 + 2),
    ],
)
def test_the_fullest_moment_wins(work, moments, total) -> None:
    assert _peak(moments=moments, **work) == pytest.approx(total)


def test_a_first_step_lacks_adams_moments_only() -> None:
    """12 B of fp32 master and two moments: 8 of them come with the first optimizer step."""
    from cost_models.strategies import Layout, single

    model, work = gpt(), replace(workload(), peak_of_first_step=True, master_grad_bytes=4.0)
    layout = Layout(pp=1, vpp=1, counts=np.ones((1, 4), dtype=np.int64))
    batch = single(tp=1, pp=1, dp=4, zero_stage=1, micro_batch=1, layout=layout)
    parameters = np.full((1, 1), 1000.0)
    none = np.zeros((1, 1))
    assert late_optimizer_bytes(parameters, none, batch, work)[0, 0] == pytest.approx(8 * 1000 / 4)
    assert static_bytes(parameters, none, batch, work)["optimizer"][0, 0] == pytest.approx(16 * 1000 / 4)
    assert late_optimizer_bytes(parameters, none, batch, workload()).sum() == 0
    dense, expert = layer_weights(model.layers[0][0], model, batch, work)
    h = model.hidden  # qkv 3 h^2, out h^2, up and down 4 h^2 each
    assert [float(w[0]) for w in dense] == [3 * h * h, h * h, 4 * h * h, 4 * h * h] and not expert
    assert vocabulary_weight(model, batch)[0] == 51200 * h


def test_unfused_norms_keep_an_fp32_input_and_a_result_before_the_weight() -> None:
    """torch's RMSNorm in five steps saves 6 B more per element and norm than one kernel does."""
    model = replace(gpt(), norm_bias=False)

    def saved(fused: bool, modules=()) -> float:
        work = workload(stack=SoftwareStack(fused_norm=fused))
        point = core(model, work)
        mask = recompute_mask(modules)
        return sum(
            float(s.size_bytes[0])
            for s in layer_ops(model.layers[0][0], model, work, point).saved
            if not mask & s.modules
        )

    elements = float(core(model, workload()).tokens_norm[0]) * model.hidden
    assert saved(False) - saved(True) == pytest.approx(2 * 6 * elements)
    assert saved(False, ("layernorm",)) == pytest.approx(saved(True, ("layernorm",)))
