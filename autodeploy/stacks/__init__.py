"""The software of a run as a described, versioned thing: ``load_stack``, ``settle``, and the table of what can be set."""

from autodeploy.stacks.apply import Program, parse_sets, settle
from autodeploy.stacks.load import default_stack, load_stack, stack_names

__all__ = ["Program", "default_stack", "load_stack", "parse_sets", "settle", "stack_names"]
