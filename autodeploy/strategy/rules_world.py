"""Rules of division: cards, batch, heads, experts, sequence.

Cases by number are those of users of Megatron-LM, Megatron-Bridge, torchtitan, DeepSpeed and others.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from autodeploy.strategy.rule import Proposal, Rule
from cost_models.inputs import Attention, FeedForward, HardwareProfile
from cost_models.mixers.table import mixer_of
from cost_models.strategies import I64, Bool


def node_cards(hardware: HardwareProfile | None) -> int:
    """Cards joined by the innermost switch or mesh."""
    if hardware is None:
        return 1 << 30
    inner = hardware.tiers[0].cards if len(hardware.tiers) > 1 else 0
    return max(hardware.cards_per_node, inner)


def sequence_factor(cp: I64, tp: I64, sequence_parallel: Bool) -> I64:
    """What the sequence must divide by: CP lcm(2, TP) with context parallel, TP with sequence parallel alone."""
    tp = np.where(sequence_parallel, tp, 1)
    return np.where(cp > 1, cp * np.lcm(2, tp), tp)


def _attentions(case: Proposal) -> list[Attention]:
    return [attention for kind in case.model.kinds for attention in kind.attentions]


def _feed_forwards(case: Proposal) -> list[FeedForward]:
    return [ffn for kind in case.model.kinds for ffn in kind.feed_forwards]


def _any_of(case: Proposal, conditions: list[Bool]) -> Bool:
    return reduce(np.logical_or, conditions, case.everywhere(False))


def _world(case: Proposal) -> Bool:
    b = case.batch
    cards = b.tp * b.cp * b.pp * b.dp
    return (b.dp < 1) | (cards < 1 if case.devices is None else cards != case.devices)


def _expert_world(case: Proposal) -> Bool:
    b = case.batch
    if not case.moe:
        return case.everywhere(False)
    return (b.dp >= 1) & (b.tp * b.cp * b.dp % (b.etp * b.ep) != 0)


def _heads(case: Proposal) -> Bool:
    tp = case.batch.tp
    counts = {a.query_heads for a in _attentions(case)} | {a.value_heads for a in _attentions(case) if a.value_heads}
    return _any_of(case, [heads % tp != 0 for heads in counts])


def _kv_groups(case: Proposal) -> Bool:
    tp = case.batch.tp
    groups = {a.kv_heads for a in _attentions(case) if mixer_of(a).grouped_heads}
    replicates = case.backend.replicates_kv
    return _any_of(case, [(g % tp != 0) & ((tp % g != 0) if replicates else True) for g in groups])


def _ffn_width(case: Proposal) -> Bool:
    widths = {f.shared_width if f.is_moe else f.width for f in _feed_forwards(case)} - {0}
    return _any_of(case, [width % case.batch.tp != 0 for width in widths])


def _experts(case: Proposal) -> Bool:
    return _any_of(case, [f.experts % case.batch.ep != 0 for f in _feed_forwards(case) if f.is_moe])


def _expert_width(case: Proposal) -> Bool:
    return _any_of(case, [f.width % case.batch.etp != 0 for f in _feed_forwards(case) if f.is_moe])


def _sequence(case: Proposal) -> Bool:
    b = case.batch
    return case.workload.seq_length % sequence_factor(b.cp, b.tp, b.sequence_parallel) != 0


def _recurrent(case: Proposal) -> Bool:
    return (case.batch.cp > 1) & any(not mixer_of(a).splits_context for a in _attentions(case))


WORLD_RULES = (
    Rule(
        name="world",
        text="TP x CP x PP x DP must equal the number of cards (cases 16, 56)",
        remedy="choose TP x CP x PP that divides the cards",
        broken=_world,
    ),
    Rule(
        name="ep-needs-experts",
        text="EP or ETP above 1 needs a mixture-of-experts model (case 56)",
        remedy="set EP1 and ETP1",
        broken=lambda c: (c.batch.ep > 1) | (c.batch.etp > 1) if not c.moe else c.everywhere(False),
    ),
    Rule(
        name="expert-world",
        text="ETP x EP x PP must divide the number of cards (cases 54, 56)",
        remedy="lower EP, ETP or PP",
        broken=_expert_world,
    ),
    Rule(
        name="batch",
        text="MBS x DP must divide the global batch",
        remedy="change the global batch, the micro-batch or DP",
        broken=lambda c: c.workload.global_batch % np.maximum(c.batch.micro_batch * c.batch.dp, 1) != 0,
    ),
    Rule(
        name="heads",
        text="TP must divide the attention heads (cases 51, 52)",
        remedy="choose TP among the divisors of the heads",
        broken=_heads,
    ),
    Rule(
        name="kv-groups",
        text="TP must divide the KV groups, or be a multiple of them where the back end replicates them (case 50)",
        remedy="lower TP to the number of KV groups; MLA is exempt",
        broken=_kv_groups,
    ),
    Rule(
        name="ffn-width",
        text="TP must divide the widths of dense and shared feed-forward layers",
        remedy="choose a smaller TP",
        broken=_ffn_width,
    ),
    Rule(
        name="experts",
        text="EP must divide the number of experts",
        remedy="choose EP among the divisors of the experts",
        broken=_experts,
    ),
    Rule(
        name="expert-width",
        text="ETP must divide the width of an expert",
        remedy="choose a smaller ETP",
        broken=_expert_width,
    ),
    Rule(
        name="tp-in-node",
        text="TP stays inside a node (case 74)",
        remedy="name the TP you want: --tp 16",
        broken=lambda c: c.batch.tp > node_cards(c.hardware),
        soft=True,
    ),
    Rule(
        name="sp-needs-tp",
        text="sequence parallel needs TP above 1 (case 56)",
        remedy="drop SP or raise TP",
        broken=lambda c: c.batch.sequence_parallel & (c.batch.tp == 1),
    ),
    Rule(
        name="moe-needs-sp",
        text="a mixture of experts with TP above 1 needs sequence parallel (case 57)",
        remedy="drop noSP",
        broken=lambda c: ~c.batch.sequence_parallel & (c.batch.tp > 1) & c.moe,
    ),
    Rule(
        name="sequence",
        text="the sequence must divide by CP x lcm(2, TP), or by TP with sequence parallel alone (case 62)",
        remedy="pad the sequence, or lower CP or TP",
        broken=_sequence,
    ),
    Rule(
        name="cp-recurrent",
        text="no release splits gated-delta or lightning attention over CP (case 64)",
        remedy="set CP1",
        broken=_recurrent,
        backends=("megatron", "megatron-bridge", "mindspeed", "torchtitan"),
    ),
)
