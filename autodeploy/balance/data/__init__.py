"""D of EDPB: re-arrange the samples of a global batch over data-parallel ranks and micro-batches.

Axes of this package: D documents, N samples (sequences), B global batches, R data-parallel ranks,
E ranks of one expert-parallel group, G = R / E groups, J micro-batches of one step.
"""

from autodeploy.balance.data.cost import SampleCost, fit_sample_cost
from autodeploy.balance.data.gradient import GradientEffect, gradient_effect
from autodeploy.balance.data.imbalance import Imbalance, measure_imbalance
from autodeploy.balance.data.lengths import read_lengths
from autodeploy.balance.data.packing import first_fit_decreasing
from autodeploy.balance.data.rearrange import BatchShape, DataPlan, Samples, rearrange

__all__ = [
    "BatchShape",
    "DataPlan",
    "GradientEffect",
    "Imbalance",
    "SampleCost",
    "Samples",
    "first_fit_decreasing",
    "fit_sample_cost",
    "gradient_effect",
    "measure_imbalance",
    "read_lengths",
    "rearrange",
]
