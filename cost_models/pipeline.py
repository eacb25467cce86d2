"""Closed-form time of one step's pipeline, for screening; uneven stages included.

Axes: N strategies that share schedule, pp and vpp; P pipeline ranks; S = P x vpp virtual stages in model order.
Costs are one micro-batch's, in seconds: F forward, I backward for the input, W for the weights, B = I + W; t one hop.
Arrays inside are [P, N] or [S, N], so that every operation runs along contiguous strategies.

Each formula is the longest of a few families of paths through the step's operations. A path that stays on rank q takes
its whole work; it may start and end through the ranks before it (fill, drain) and after it (the first backward needs
every later stage); paths that go to and fro between two neighbours carry two hops. `tests/schedule` and
`scripts/closed_form_vs_simulator.py` hold the forms against the event simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models.errors import ConfigError
from cost_models.pipeline_interleaved import interleaved_s
from cost_models.pipeline_recurrence import dualpipe_s, dualpipev_s

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
BLOCK = 1024  # strategies worked on at a time: the arrays of a block stay in cache


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCosts:
    """A block of strategies; [S, N] costs, [N] the rest."""

    forward_s: F64
    input_s: F64
    weight_s: F64
    p2p_s: F64
    micro_batches: I64
    group: I64
    pp: int
    vpp: int


def closed_form_step_s(
    schedule: str,
    forward_s: F64,
    backward_input_s: F64,
    backward_weight_s: F64,
    p2p_s: F64,
    pp: int,
    vpp: int,
    micro_batches: ArrayLike,
    group: ArrayLike = 0,
) -> F64:
    """Seconds from the first operation of any rank to the last of any rank, [N].

    Costs [N, S] in model order; `p2p_s`, `micro_batches`, `group` (0: pp) broadcast to [N].
    """
    if schedule not in CLOSED_FORMS:
        raise ConfigError("schedule", schedule, f"one of {', '.join(CLOSED_FORMS)}")
    count, stages = forward_s.shape
    if stages != pp * vpp:
        raise ConfigError("forward_s", f"{stages} stages", f"pp x vpp = {pp} x {vpp} = {pp * vpp} stages")
    hop = np.broadcast_to(np.asarray(p2p_s, np.float64), count)
    m = np.broadcast_to(np.asarray(micro_batches, np.int64), count)
    size = np.broadcast_to(np.asarray(group, np.int64), count)
    size = np.where(size == 0, pp, size)
    out = np.empty(count)
    for at in range(0, count, BLOCK):
        part = slice(at, at + BLOCK)
        costs = PipelineCosts(
            forward_s=np.ascontiguousarray(forward_s[part].T),
            input_s=np.ascontiguousarray(backward_input_s[part].T),
            weight_s=np.ascontiguousarray(backward_weight_s[part].T),
            p2p_s=hop[part],
            micro_batches=m[part],
            group=size[part],
            pp=pp,
            vpp=vpp,
        )
        out[part] = _one_rank(costs) if pp == 1 else CLOSED_FORMS[schedule](costs)
        if vpp == 1 and pp > 1:
            out[part] = np.where(costs.micro_batches < pp, np.minimum(out[part], _unfilled(costs)), out[part])
    return out


def _unfilled(c: PipelineCosts) -> F64:
    """Fewer micro-batches than ranks: each follows the one before by the slowest stage, whatever the order, [N]."""
    both = c.forward_s + c.input_s + c.weight_s
    return np.asarray(both.sum(0) + 2 * (c.pp - 1) * c.p2p_s + (c.micro_batches - 1) * both.max(0))


def _one_rank(c: PipelineCosts) -> F64:
    """No pipeline: all work of all micro-batches."""
    return np.asarray(c.micro_batches * (c.forward_s + c.input_s + c.weight_s).sum(axis=0))


def _gpipe(c: PipelineCosts) -> F64:
    """All stages once, then the slowest forward and the slowest backward m-1 times.  Exact."""
    backward = c.input_s + c.weight_s
    once = c.forward_s.sum(0) + backward.sum(0) + 2 * (c.pp - 1) * c.p2p_s
    return np.asarray(once + (c.micro_batches - 1) * (c.forward_s.max(0) + backward.max(0)))


def _one_f_one_b(c: PipelineCosts) -> F64:
    """Paths on one rank, and to and fro between two neighbours; see `_steady_paths`."""
    return _steady_paths(c, c.forward_s, c.input_s + c.weight_s)


def _steady_paths(c: PipelineCosts, forward: F64, backward: F64) -> F64:
    """Longest path of the 1F1B order, [N].

    Rank q holds w = p-1-q more forwards than its successor needs. A path comes down to q (fill), does its w forwards or
    follows the first micro-batch to the end and back (D), then m-w turns of F and B, and likewise at the end. Between
    neighbours q-1 and q a turn of C(q-1) + C(q) + 2t serves two micro-batches.
    """
    p, m, hop = c.pp, c.micro_batches, c.p2p_s
    both = forward + backward
    before = np.zeros_like(m, dtype=np.float64)  # fill and drain: sum of F + B + 2t over the ranks before q
    after = both.sum(0) + 2 * p * hop
    best = np.zeros_like(before)
    for q in range(p):
        after = after - both[q] - 2 * hop
        w = np.minimum(m - 1, p - 1 - q)
        ends = np.maximum(w * forward[q], after) + np.maximum(w * backward[q], after)
        best = np.maximum(best, before + (m - w) * both[q] + ends)
        if q:
            turn = both[q - 1] + both[q] + 2 * hop
            turns, left = np.divmod(m - w - 1, 2)
            pair = (1 + turns) * turn + left * np.maximum(both[q - 1], both[q])
            best = np.maximum(best, before - both[q - 1] - 2 * hop + pair + ends)
        before = before + both[q] + 2 * hop
    return best


def _zero_bubble(depth: int, held_back: int) -> Callable[[PipelineCosts], F64]:
    """ZB orders with `depth` (p-1-q) warm-up forwards on rank q and `held_back` q weight parts for the end."""

    def seconds(c: PipelineCosts) -> F64:
        p, m, hop = c.pp, c.micro_batches, c.p2p_s
        both = c.forward_s + c.input_s
        fill, drain = np.zeros_like(hop), np.zeros_like(hop)
        after = both.sum(0) + 2 * p * hop
        best = np.zeros_like(hop)
        for q in range(p):
            after = after - both[q] - 2 * hop
            forward, backward, weight = c.forward_s[q], c.input_s[q], c.weight_s[q]
            w, late = np.minimum(m - 1, depth * (p - 1 - q)), np.minimum(m, held_back * q + 1)
            start = fill + np.maximum(0.0, after - w * forward)
            whole = start + m * (both[q] + weight)
            last_input = start + m * both[q] + (m - late) * weight + drain + c.weight_s[0]
            return_trip = start + m * both[q] + np.maximum(0, m - w - late) * weight + drain
            return_trip = return_trip + np.maximum(0.0, after - w * backward)
            best = np.maximum(best, np.maximum(whole, np.maximum(last_input, return_trip)))
            fill, drain = fill + forward + hop, drain + backward + hop
        shallow = _steady_paths(c, c.forward_s, c.input_s) if depth == 1 else _two_deep_paths(c)
        return np.maximum(best, shallow + c.weight_s[0])

    return seconds


def _two_deep_paths(c: PipelineCosts) -> F64:
    """Longest path on one rank with 2(p-1-q) warm-up forwards; neighbours no longer hold each other up."""
    p, m, hop = c.pp, c.micro_batches, c.p2p_s
    both = c.forward_s + c.input_s
    before, best = np.zeros_like(hop), np.zeros_like(hop)
    after = both.sum(0) + 2 * p * hop
    for q in range(p):
        after = after - both[q] - 2 * hop
        w = np.minimum(m - 1, 2 * (p - 1 - q))
        ends = np.maximum(w * c.forward_s[q], after) + np.maximum(w * c.input_s[q], after)
        best = np.maximum(best, before + (m - w) * both[q] + ends)
        before = before + both[q] + 2 * hop
    return best


def _interleaved(c: PipelineCosts) -> F64:
    if c.vpp == 1:
        return _one_f_one_b(c)
    backward = c.input_s + c.weight_s
    return _by_shape(
        c,
        lambda at, m, g: interleaved_s(
            c.forward_s[:, at],
            backward[:, at],
            backward[:, at],
            c.p2p_s[at],
            pp=c.pp,
            micro_batches=m,
            group=g,
            extra=0,
        ),
    )


def _adaptive_pipe(c: PipelineCosts) -> F64:
    """Interleaved with one more warm-up chunk; the gradient leaves before the weight part."""
    backward = c.input_s + c.weight_s
    return _by_shape(
        c,
        lambda at, m, g: interleaved_s(
            c.forward_s[:, at],
            backward[:, at],
            c.input_s[:, at],
            c.p2p_s[at],
            pp=c.pp,
            micro_batches=m,
            group=g,
            extra=1,
        ),
    )


def _by_shape(c: PipelineCosts, price: Callable[[I64 | slice, int, int], F64]) -> F64:
    """Applies `price` to the strategies of each (micro-batches, group) in turn."""
    m, g = c.micro_batches, c.group
    if (m == m[0]).all() and (g == g[0]).all():
        return price(slice(None), int(m[0]), int(g[0]))
    out = np.empty(len(m))
    for shape in sorted(set(zip(m.tolist(), g.tolist(), strict=True))):
        at = np.flatnonzero((m == shape[0]) & (g == shape[1]))
        out[at] = price(at, *shape)
    return out


def _dualpipe(c: PipelineCosts) -> F64:
    return dualpipe_s(c.forward_s, c.input_s, c.weight_s, c.p2p_s, c.micro_batches)


def _dualpipev(c: PipelineCosts) -> F64:
    return dualpipev_s(c.forward_s, c.input_s, c.weight_s, c.p2p_s, c.micro_batches)


def _v_shaped(limit: Callable[[int], int], ends: float, latency: float) -> Callable[[PipelineCosts], F64]:
    """ZB-V and its kin, stages r and 2p-1-r on rank r, at most `limit(p)` chunks held.

    Rank q starts after the way down to it; it waits if its first backward comes back later than the forwards it may hold
    take, and mirrored at the end (`ends`: the share of these waits that weight parts do not fill). A micro-batch costs
    at least the work of the rank, and `latency` x the time its chunks are held / limit (memory binds V-Min). `ends`
    and `latency` are fitted to the simulator: 150 random shapes each, see `scripts/closed_form_vs_simulator.py`.
    """

    def seconds(c: PipelineCosts) -> F64:
        p, m, hop = c.pp, c.micro_batches, c.p2p_s
        forward, backward = _suffix_sums(c.forward_s), _suffix_sums(c.input_s)
        work = c.forward_s + c.input_s + c.weight_s
        held = np.minimum(limit(p), 2 * m) - 1
        fill, best = np.zeros_like(hop), np.zeros_like(hop)
        for q in range(p):
            second = 2 * p - 1 - q
            hops = 2 * (p - 1) * hop  # from q to the last stage, and from there to `second`
            out = forward[q + 1] + backward[second + 1] + hops
            back = backward[q + 1] + forward[second + 1] + hops
            waits = np.maximum(0.0, out - held * (c.forward_s[q] + c.forward_s[second]) / 2)
            waits = waits + np.maximum(0.0, back - held * (c.input_s[q] + c.input_s[second]) / 2)
            lives = forward[q] + backward[q] + forward[second] + backward[second] + 2 * hops
            pace = np.maximum(work[q] + work[second], latency * lives / limit(p))
            best = np.maximum(best, fill + ends * waits + m * pace)
            fill = fill + c.forward_s[q] + hop
        return best

    return seconds


def _suffix_sums(costs: F64) -> F64:
    """[S + 1, N]: row s sums the costs from stage s on."""
    sums = np.zeros((len(costs) + 1, costs.shape[1]))
    for stage in range(len(costs) - 1, -1, -1):
        np.add(sums[stage + 1], costs[stage], out=sums[stage])
    return sums


CHUNK_LIMITS: dict[str, Callable[[int], int]] = {
    "zb-h1": lambda p: p,
    "zb-1p": lambda p: p,
    "zb-2p": lambda p: 2 * p,
    "zb-v": lambda p: 2 * p,
    "zb-v-half": lambda p: p + 2,
    "zb-v-min": lambda p: 2 * -(-(p + 4) // 3),
    "dualpipe": lambda p: p + 1,
    "dualpipev": lambda p: 2 * p + 1,
}

CLOSED_FORMS: dict[str, Callable[[PipelineCosts], F64]] = {
    "gpipe": _gpipe,
    "1f1b": _one_f_one_b,
    "interleaved": _interleaved,
    "zb-h1": _zero_bubble(1, 1),
    "zb-1p": _zero_bubble(1, 2),
    "zb-2p": _zero_bubble(2, 4),
    "zb-v": _v_shaped(CHUNK_LIMITS["zb-v"], ends=0.5, latency=0.0),
    "zb-v-half": _v_shaped(CHUNK_LIMITS["zb-v-half"], ends=1.0, latency=0.0),
    "zb-v-min": _v_shaped(CHUNK_LIMITS["zb-v-min"], ends=1.0, latency=1.4),
    "dualpipe": _dualpipe,
    "dualpipev": _dualpipev,
    "adaptive-pipe": _adaptive_pipe,
}


def in_flight_chunks(
    schedule: str, pp: int, vpp: int, micro_batches: ArrayLike, group: ArrayLike = 0, ep_overlap: ArrayLike = False
) -> F64:
    """Most chunks (micro-batches x virtual stages) that each rank holds, [N, P]; the limit for automatic schedules.

    `ep_overlap`: forward/backward overlap of expert communication adds one chunk to interleaved; adaptive-pipe has it.
    Sources: Megatron-LM (interleaved), Qi et al. 2401.10241 and 2405.15362 (ZB, V), DeepSeek-V3 (DualPipe).
    """
    m, g, extra = np.broadcast_arrays(
        np.atleast_1d(micro_batches), np.atleast_1d(group), np.atleast_1d(ep_overlap).astype(np.int64)
    )
    m, g, extra = m[:, None], np.where(g == 0, pp, g)[:, None], extra[:, None]
    rank = np.arange(pp)[None, :]
    if schedule == "adaptive-pipe":
        extra = np.ones_like(extra)
    if schedule in ("interleaved", "adaptive-pipe") and vpp > 1:
        limit = 2 * (pp - rank - 1) + (vpp - 1) * g + 1 + extra
    elif schedule in ("1f1b", "interleaved", "adaptive-pipe"):
        limit = pp - rank + extra
    elif schedule == "gpipe":
        limit = m * np.ones_like(rank)
    elif schedule in CHUNK_LIMITS:
        limit = CHUNK_LIMITS[schedule](pp) * np.ones_like(rank)
    else:
        raise ConfigError("schedule", schedule, f"one of {', '.join(CLOSED_FORMS)}")
    return np.minimum(m * vpp, limit).astype(np.float64)
