"""A pipeline layout in the texts that programs read."""

from __future__ import annotations

from autodeploy.strategy.layout_text import StageText, print_layout_text
from cost_models.strategies import Layout


def stage_layers(layout: Layout) -> list[int]:
    """Decoder layers of each virtual stage."""
    return [round(float(count)) for count in layout.layers_per_stage]


def grammar(layout: Layout) -> str:
    """Megatron's --pipeline-model-parallel-layout: embedding, MTP modules and loss on their stages."""
    rows = zip(stage_layers(layout), layout.counts[:, -3:], strict=True)
    return print_layout_text([StageText(layers, *(round(float(c)) for c in ends)) for layers, ends in rows])


def is_even(layout: Layout) -> bool:
    """Every stage holds as many layers."""
    return len(set(stage_layers(layout))) == 1


def noop_slots(layout: Layout) -> list[int]:
    """Numbers of the no-op layers of a ``noop:`` text."""
    text = layout.text.removeprefix("noop:")
    return [int(part) for part in text.split(",")] if layout.text.startswith("noop:") else []
