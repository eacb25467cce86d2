"""One training step: its price list, the effects on its stages, its time and its memory.

    from cost_models.step import evaluate
    cost = evaluate(case, batch)

`group.py` prices strategies that share layout and schedule; the closed form here and the replay of `autodeploy.replay`
are two clocks over the same groups and the same `effects.py`. `price` is `evaluate` without causes, for screening;
`bounds` is exact memory and a lower bound of the time, for far more strategies still.
"""

from cost_models.step.bounds import Bounds, bounds
from cost_models.step.evaluate import StepCost, StepPrice, evaluate, price
from cost_models.step.times import STEP_CAUSES

__all__ = ["STEP_CAUSES", "Bounds", "StepCost", "StepPrice", "bounds", "evaluate", "price"]
