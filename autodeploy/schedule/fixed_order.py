"""Orders that do not depend on the costs, scored under any: one walk over their operations."""

from __future__ import annotations

import numpy as np

from autodeploy.schedule.blocks import build_graph
from autodeploy.schedule.operations import F, I, OrderCosts, PipelineShape, W
from autodeploy.schedule.placing import placed


class FixedOrder:
    """Operations of each rank, one a slot, levelled once: what each waits for."""

    def __init__(self, rank_of: list[int], micro_batches: int, orders: list[list[int]]) -> None:
        shape = PipelineShape(pp=max(rank_of) + 1, micro_batches=micro_batches)
        graph = build_graph(placed("in units", shape, rank_of, orders))
        self.orders = orders
        self.previous, self.source = graph.previous.tolist(), graph.source[:, 0].tolist()
        self.hops = (graph.hop[:, 0] > 0).astype(np.float64)
        kinds = np.zeros(4, dtype=np.int64)
        kinds[[F, I, W]] = 0, 1, 2
        self.cost = kinds[graph.ops[:, 0, 0]] * len(rank_of) + graph.ops[:, 0, 1]
        self.first, self.last = graph.first_of_rank.tolist(), graph.last_of_rank.tolist()

    def score_s(self, costs: OrderCosts) -> float:
        """As `Placer.score_s` after playing the orders."""
        seconds = np.array([costs.forward_s, costs.backward_input_s, costs.backward_weight_s]).reshape(-1)[self.cost]
        ends, starts = [0.0], [0.0]
        rows = zip(self.previous, self.source, (self.hops * costs.p2p_s).tolist(), seconds.tolist(), strict=True)
        for previous, source, hop, length in rows:
            start, arrives = ends[previous], ends[source] + hop
            if arrives > start:
                start = arrives
            starts.append(start)
            ends.append(start + length)
        period = max(ends[last] - starts[first] for first, last in zip(self.first, self.last, strict=True))
        return period + 0.01 * max(ends[last] for last in self.last)
