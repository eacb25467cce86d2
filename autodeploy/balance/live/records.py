"""Loads as trainers and servers record them, brought to tokens per expert [T, L, E].

``LoadRecorder`` is what a hook in a router calls (docs/balance.md has the lines for Megatron-LM and MindSpeed).
``read_record`` reads what SGLang's expert distribution recorder dumps (a .pt with ``logical_count``, needs torch) and
what vLLM's ``EplbState`` holds (``expert_load_window`` by physical expert with ``physical_to_logical_map``), saved as npz.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from autodeploy.balance.experts.placement import F64, I64
from autodeploy.balance.experts.validate import check_loads
from autodeploy.errors import InputError

LOGICAL = ("loads", "logical_count")
PHYSICAL = ("expert_load_window", "expert_load_pass", "physical_count")


def logical_loads(physical: ArrayLike, physical_to_logical_map: I64, experts: int = 0) -> F64:
    """Loads [T, L, E] of loads by slot [T, L, S] or [L, S] and the map [L, S]: copies of an expert are summed."""
    loads = np.asarray(physical, dtype=np.float64)
    loads = loads[None] if loads.ndim == 2 else loads
    slots = np.asarray(physical_to_logical_map, dtype=np.int64)
    if loads.ndim != 3 or slots.shape != loads.shape[1:]:
        raise InputError("physical_to_logical_map", slots.shape, f"{loads.shape[1:]}: a logical expert for every slot")
    steps, layers, _ = loads.shape
    experts = experts or int(slots.max()) + 1
    result = np.zeros((steps, layers, experts))
    for layer in range(layers):
        np.add.at(result[:, layer].T, slots[layer], loads[:, layer].T)
    return result


def read_record(path: str | Path) -> F64:
    """Tokens per expert [T, L, E] of a record of SGLang (.pt) or of arrays (npz); unused rows of a window are left out."""
    path = Path(path)
    if not path.is_file():
        raise InputError("record", str(path), "a file that exists")
    arrays = _torch_file(path) if path.suffix == ".pt" else _npz_file(path)
    name = next((key for key in (*LOGICAL, *PHYSICAL) if key in arrays), None)
    if name is None:
        raise InputError("record", sorted(arrays), f"one of the arrays {', '.join((*LOGICAL, *PHYSICAL))}")
    loads = np.asarray(arrays[name], dtype=np.float64)
    loads = loads[None] if loads.ndim == 2 else loads
    if name in PHYSICAL:
        if "physical_to_logical_map" not in arrays:
            raise InputError("record", sorted(arrays), "physical_to_logical_map beside loads by physical expert")
        loads = logical_loads(loads, np.asarray(arrays["physical_to_logical_map"]))
    filled = loads[loads.sum(axis=(1, 2)) > 0] if loads.ndim == 3 else loads
    return check_loads(filled, dimensions=3)


def _npz_file(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError) as error:
        raise InputError("record", str(path), "an npz file that numpy can read", str(error)) from error


def _torch_file(path: Path) -> dict[str, Any]:
    try:
        import torch
    except ImportError as error:
        raise InputError("record", str(path), "an npz file where torch is absent", "pip install torch") from error
    try:
        data = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError) as error:
        raise InputError("record", str(path), "a file that torch.load reads", str(error).splitlines()[0]) from error
    if not isinstance(data, dict):
        raise InputError("record", type(data).__name__, "a dict with logical_count")
    return {name: value.numpy() if isinstance(value, torch.Tensor) else value for name, value in data.items()}


class LoadRecorder:
    """Collects tokens per expert while a step runs and keeps the steps: ``add`` in each router, ``end_step`` once."""

    def __init__(self, layers: int, experts: int) -> None:
        self._step = np.zeros((layers, experts))
        self._steps: list[F64] = []

    def add(self, layer: int, tokens_per_expert: ArrayLike) -> None:
        """Tokens of one micro-batch [E] of MoE layer ``layer``; anything that numpy takes (a CPU tensor, too)."""
        self._step[layer] += np.asarray(tokens_per_expert, dtype=np.float64)

    def step_loads(self) -> F64:
        """The present step so far [L, E], to be all-reduced before ``end_step``."""
        return self._step

    def end_step(self, reduced: ArrayLike | None = None) -> F64:
        """Closes the step with its loads [L, E], ``reduced`` over the ranks where given; returns them."""
        loads = self._step if reduced is None else np.asarray(reduced, dtype=np.float64)
        self._steps.append(loads.astype(np.float32))
        self._step = np.zeros_like(self._step)
        return loads

    def save(self, path: str | Path) -> None:
        """The history as ``balance experts --input`` reads it."""
        if not self._steps:
            raise InputError("LoadRecorder", 0, "at least one step", "call end_step after each step")
        np.savez(path, loads=np.stack(self._steps))
