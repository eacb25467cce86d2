"""Balancing inside a trainer: experts while it runs, the order of its data, and the files other systems read.

Plain numpy: nothing here imports torch but ``sampler.torch_batch_sampler``, which returns a torch ``Sampler``.
"""

from autodeploy.balance.live.balancer import ExpertBalancer, Rearrangement
from autodeploy.balance.live.maps import EplbMaps, eplb_maps, placement_from_map, read_maps, write_maps
from autodeploy.balance.live.records import LoadRecorder, logical_loads, read_record
from autodeploy.balance.live.sampler import BalancedBatchSampler, torch_batch_sampler

__all__ = [
    "BalancedBatchSampler",
    "EplbMaps",
    "ExpertBalancer",
    "LoadRecorder",
    "Rearrangement",
    "eplb_maps",
    "logical_loads",
    "placement_from_map",
    "read_maps",
    "read_record",
    "torch_batch_sampler",
    "write_maps",
]
