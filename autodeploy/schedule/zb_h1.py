"""ZB-H1: 1F1B with the weight part held back, at the memory of 1F1B (Qi et al. 2023, arXiv 2401.10241, section 2.3)."""

from __future__ import annotations

from autodeploy.schedule.operations import (
    F,
    I,
    PipelineShape,
    Schedule,
    Slot,
    W,
    loop_placement,
    one_direction,
    require_single_chunk,
)


def zero_bubble_h1(shape: PipelineShape) -> Schedule:
    """Bubble (p-1)(F+B-2W), B the full backward; at most p micro-batches held on any rank, as rank 0 of 1F1B."""
    require_single_chunk("zb-h1", shape)
    return one_direction("zb-h1", shape, loop_placement(shape.pp, 1), handcrafted_orders(shape, depth=1))


def handcrafted_orders(shape: PipelineShape, depth: int) -> list[list[Slot]]:
    """ZB-H1 (depth 1, p micro-batches held) or ZB-H2 (depth 2, twice that, no wait before the first backward)."""
    return [_rank_order(shape, rank, depth) for rank in range(shape.pp)]


def _rank_order(shape: PipelineShape, rank: int, depth: int) -> list[Slot]:
    """As 1F1B; rank r holds back `depth` r weight parts, so that it fills its wait for the next rank at the end."""
    m = shape.micro_batches
    warm_up = min(m, depth * (shape.pp - rank - 1))
    order: list[Slot] = [((F, rank, i),) for i in range(warm_up)]
    weights = 0
    for i in range(m):
        if warm_up + i < m:
            order.append(((F, rank, warm_up + i),))
        order.append(((I, rank, i),))
        if i >= depth * rank:
            order.append(((W, rank, weights),))
            weights += 1
    return order + [((W, rank, i),) for i in range(weights, m)]
