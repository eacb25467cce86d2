"""A migration whose prices are stated: an expert of 44 M parameters and a card that works 10 ms a layer and step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autodeploy.balance.experts.choose import Task
from autodeploy.balance.experts.migrate import Links
from autodeploy.balance.experts.placement import Topology


@pytest.fixture
def task_factory() -> Callable[..., Task]:
    """Expert 0.7 GB, 400 GB/s inside a node, 50 GB/s between; ``card_s`` seconds for ``tokens`` on a card."""

    def build(
        nodes: int = 2, cards_per_node: int = 8, card_s: float = 10e-3, tokens: float = 4096, groups: int = 1
    ) -> Task:
        links = Links(bytes_per_expert=0.7e9, intra_bytes_per_s=400e9, inter_bytes_per_s=50e9)
        topology = Topology(nodes=nodes, cards_per_node=cards_per_node)
        return Task(topology=topology, links=links, seconds_per_token=card_s / tokens, groups=groups)

    return build
