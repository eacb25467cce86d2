"""From strategies to the event simulator and back: price lists become segments, simulated steps become seconds.

    from autodeploy.replay import simulate_strategy, simulated_step_s

`simulate_strategy`: one strategy with its events. `simulated_step_s`: seconds of many, the seam of the search.
`items.price_items`: the layers of a model as the layer balancer takes them.
"""

from autodeploy.replay.batch import simulated_step_s
from autodeploy.replay.step import SimulatedStep, simulate_strategy

__all__ = ["SimulatedStep", "simulate_strategy", "simulated_step_s"]
