"""P of EDPB: layers, embedding, MTP modules and head to virtual stages, under a memory cap per pipeline rank.

Axes: I items in model order, O recompute options, P pipeline ranks, V chunks a rank, S = P * V virtual stages
(stage s sits on rank s % P), C cut points, K runs of equal layers.
"""

from autodeploy.balance.layers.balance import BalanceOptions, balance_layers
from autodeploy.balance.layers.items import LayerItems, move_mtp_embedding
from autodeploy.balance.layers.layout import format_layout, parse_layout
from autodeploy.balance.layers.memory import InFlight, in_flight_counts
from autodeploy.balance.layers.mindspeed import MindSpeedLayers, mindspeed_layers
from autodeploy.balance.layers.plan import LayerPlan, evaluate_layout, even_layout
from autodeploy.balance.layers.rules import RULES, check_layout

__all__ = [
    "RULES",
    "BalanceOptions",
    "InFlight",
    "LayerItems",
    "LayerPlan",
    "MindSpeedLayers",
    "balance_layers",
    "check_layout",
    "evaluate_layout",
    "even_layout",
    "format_layout",
    "in_flight_counts",
    "mindspeed_layers",
    "move_mtp_embedding",
    "parse_layout",
]
