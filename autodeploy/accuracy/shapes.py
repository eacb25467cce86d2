"""The model and the machine of a run: a zoo shape or a profile, and what the row states about it differently."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from autodeploy.accuracy.loader import Run
from autodeploy.hardware import load_hardware
from autodeploy.hardware.network import with_network
from autodeploy.models.reference import from_reference
from autodeploy.models.run_models import with_changes
from cost_models.inputs import HardwareProfile, ModelSpec

GBIT_BYTES = 1e9 / 8


class Shapes:
    """Models and machines by what distinguishes them, each built once: runs that share them can share a batch."""

    def __init__(self, models: Mapping[str, Mapping[str, Any]]) -> None:
        self._entries = models
        self._models: dict[tuple, ModelSpec] = {}
        self._machines: dict[tuple, HardwareProfile] = {}

    def model(self, run: Run) -> ModelSpec:
        changes = model_changes(run)
        key = (run.model, tuple(sorted(changes.items())))
        if key not in self._models:
            self._models[key] = with_changes(from_reference(self._entries[run.model]), changes)
        return self._models[key]

    def machine(self, run: Run) -> HardwareProfile:
        bandwidth = node_bandwidth_bytes_per_s(run)
        key = (run.device, bandwidth)
        if key not in self._machines:
            self._machines[key] = with_network(load_hardware(run.device), bandwidth)
        return self._machines[key]


def model_changes(run: Run) -> dict[str, Any]:
    """What the row says of its model beyond the shape in models.yaml."""
    extra = run.extra
    changes: dict[str, Any] = {}
    if "vocab_size_built" in extra:
        changes["vocab"] = int(extra["vocab_size_built"])
    if str(extra.get("norm", "")).startswith("LayerNorm"):
        changes["norm_bias"] = True
    if str(extra.get("position_embedding", "")).startswith("learned"):
        changes["learned_positions"] = run.seq_length or 0
        changes["norm_bias"] = True  # the GPT architecture of those sources: LayerNorm with bias
    if extra.get("embedding_norm"):
        changes.update(embedding_norm=True, norm_bias=True)
    if extra.get("tied_embeddings"):
        changes["tied_embeddings"] = True
    if extra.get("sliding_window"):
        changes["window_tokens"] = int(extra["sliding_window"])
    if extra.get("interleave_sliding_window"):
        changes["alternate_window_tokens"] = int(extra["interleave_sliding_window"])
    return changes


def node_bandwidth_bytes_per_s(run: Run) -> float | None:
    """What one card can send to other nodes, where the row states its node's network: a fact about that cluster."""
    per_node = run.extra.get("network_gbps_per_node")
    text = run.network or ""
    stated = re.search(r"(\d+) Gb/s (?:RoCE )?per node", text) if per_node is None else None
    per_card = re.search(r"(\d+) Gb/s per GPU", text)
    if stated:
        per_node = float(stated.group(1))
    elif text == "AWS p4d EFA":
        per_node = 400.0  # p4d.24xlarge: 4 x 100 Gb/s (AWS instance specification)
    if per_node is not None and run.devices_per_node:
        return float(per_node) * GBIT_BYTES / run.devices_per_node
    return float(per_card.group(1)) * GBIT_BYTES if per_card else None
