"""From strategies to the event simulator and back: price lists become segments, simulated steps become seconds.

    from autodeploy.replay import simulate_strategy, simulated_step_s, price_items

`simulate_strategy`: one strategy with its events. `simulated_step_s`: seconds of many, the seam of the search.
`price_items`: the layers of a model as the layer balancer takes them.
"""

from autodeploy.replay.batch import simulated_step_s
from autodeploy.replay.items import price_items
from autodeploy.replay.step import SimulatedStep, simulate_strategy

__all__ = ["SimulatedStep", "price_items", "simulate_strategy", "simulated_step_s"]
