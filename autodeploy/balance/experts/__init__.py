"""Balance experts: predict loads, place and replicate experts, and move them where that pays."""

from autodeploy.balance.experts.balancer import Balancer
from autodeploy.balance.experts.choose import Task, Trigger
from autodeploy.balance.experts.eplb import eplb_style
from autodeploy.balance.experts.expected import place_expected
from autodeploy.balance.experts.generators import GENERATORS, Shape, generate
from autodeploy.balance.experts.hindsight import best_fixed, best_in_hindsight
from autodeploy.balance.experts.loads import read_choices, read_history, read_placement
from autodeploy.balance.experts.migrate import Links, Move, migration_cost
from autodeploy.balance.experts.place import place
from autodeploy.balance.experts.placement import (
    Placement,
    Topology,
    card_loads,
    contiguous,
    load_bound,
    max_over_mean,
)
from autodeploy.balance.experts.plan import Plan, make_plan
from autodeploy.balance.experts.predict import Predictor
from autodeploy.balance.experts.replay import PolicyResult, replay
from autodeploy.balance.experts.shares import fixed_fractions, shared_card_loads, split_step
from autodeploy.balance.experts.traffic import coactivation, nodes_per_token, reduce_traffic

__all__ = [
    "GENERATORS",
    "Balancer",
    "Links",
    "Move",
    "Placement",
    "Plan",
    "PolicyResult",
    "Predictor",
    "Shape",
    "Task",
    "Topology",
    "Trigger",
    "best_fixed",
    "best_in_hindsight",
    "card_loads",
    "coactivation",
    "contiguous",
    "eplb_style",
    "fixed_fractions",
    "generate",
    "load_bound",
    "make_plan",
    "max_over_mean",
    "migration_cost",
    "nodes_per_token",
    "place",
    "place_expected",
    "read_choices",
    "read_history",
    "read_placement",
    "reduce_traffic",
    "replay",
    "shared_card_loads",
    "split_step",
]
