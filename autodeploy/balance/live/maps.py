"""Placements as serving and training systems hold them: from physical to logical experts, and back.

Names and shapes as in deepseek-ai/EPLB (``rebalance_experts`` returns phy2log [L, S], log2phy [L, E, X], logcnt [L, E])
and in vLLM's ``EplbState`` (physical_to_logical_map, logical_to_physical_map, logical_replica_count). SGLang reads a JSON
object with ``physical_to_logical_map`` in ``--init-expert-location``; vllm-ascend a JSON of layers and devices.
A physical expert is a slot; slot s lies on card s // C. X is the most copies of an expert, the rest is -1.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autodeploy.balance.experts.placement import I64, Placement
from autodeploy.errors import InputError
from autodeploy.files.write import write_text


@dataclass(frozen=True, slots=True, kw_only=True)
class EplbMaps:
    """The three maps of a placement; int64."""

    physical_to_logical_map: I64  # [L, S]; phy2log
    logical_to_physical_map: I64  # [L, E, X]; log2phy
    logical_replica_count: I64  # [L, E]; logcnt


def eplb_maps(placement: Placement, copies: int = 0) -> EplbMaps:
    """Maps of a placement; ``copies`` widens X, which vLLM keeps at redundant experts + 1."""
    flat, counts = placement.flat(), placement.counts()
    width = max(copies, int(counts.max()))
    order = np.argsort(flat, axis=1, kind="stable")  # slots by expert
    expert = np.take_along_axis(flat, order, axis=1)
    first = np.cumsum(counts, axis=1) - counts
    turn = np.arange(flat.shape[1]) - np.take_along_axis(first, expert, axis=1)
    back = np.full((placement.layers, placement.experts, width), -1, dtype=np.int64)
    back[np.arange(placement.layers)[:, None], expert, turn] = order
    return EplbMaps(
        physical_to_logical_map=flat.astype(np.int64), logical_to_physical_map=back, logical_replica_count=counts
    )


def placement_from_map(physical_to_logical_map: I64, cards: int) -> Placement:
    """The placement [L, G, C] of a map [L, S]."""
    slots = np.asarray(physical_to_logical_map, dtype=np.int64)
    if slots.ndim != 2 or slots.size == 0 or slots.shape[1] % cards:
        raise InputError("physical_to_logical_map", slots.shape, f"[layers, slots], slots a multiple of {cards} cards")
    return Placement(slots.reshape(len(slots), cards, -1), int(slots.max()) + 1)


def _sglang(placement: Placement) -> dict[str, Any]:
    return {"physical_to_logical_map": placement.flat().tolist()}


def _vllm(placement: Placement) -> dict[str, Any]:
    maps = eplb_maps(placement, placement.slots - placement.experts + 1)
    return {
        "physical_to_logical_map": maps.physical_to_logical_map.tolist(),
        "logical_to_physical_map": maps.logical_to_physical_map.tolist(),
        "logical_replica_count": maps.logical_replica_count.tolist(),
    }


def _eplb(placement: Placement) -> dict[str, Any]:
    maps = eplb_maps(placement)
    return {
        "phy2log": maps.physical_to_logical_map.tolist(),
        "log2phy": maps.logical_to_physical_map.tolist(),
        "logcnt": maps.logical_replica_count.tolist(),
    }


def _vllm_ascend(placement: Placement) -> dict[str, Any]:
    layers = [
        {
            "layer_id": layer,
            "device_count": placement.cards,
            "device_list": [
                {"device_id": card, "device_expert": experts} for card, experts in enumerate(by_card.tolist())
            ],
        }
        for layer, by_card in enumerate(placement.slot_expert)
    ]
    return {"moe_layer_count": placement.layers, "layer_list": layers}


FORMATS: dict[str, Callable[[Placement], dict[str, Any]]] = {
    "sglang": _sglang,
    "vllm": _vllm,
    "eplb": _eplb,
    "vllm-ascend": _vllm_ascend,
}


def write_maps(placement: Placement, path: str | Path, map_format: str = "sglang") -> None:
    """Writes the placement in one of ``FORMATS``."""
    if map_format not in FORMATS:
        raise InputError("map format", map_format, f"one of {', '.join(FORMATS)}")
    write_text(Path(path), json.dumps(FORMATS[map_format](placement)), "--map")


def read_maps(path: str | Path, cards: int) -> Placement:
    """The placement of a file in any of ``FORMATS``."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if "layer_list" in data:
            rows = [[d["device_expert"] for d in layer["device_list"]] for layer in data["layer_list"]]
            slots = np.array(rows, dtype=np.int64)
            return placement_from_map(slots.reshape(len(slots), -1), slots.shape[1])
        name = next((key for key in ("physical_to_logical_map", "phy2log") if key in data), "physical_to_logical_map")
        return placement_from_map(np.array(data[name], dtype=np.int64), cards)
    except (OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            "maps", str(path), f"a JSON file in one of the formats {', '.join(FORMATS)}", str(error)
        ) from (error)
