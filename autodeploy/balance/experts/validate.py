"""Checks of load arrays, shared by everything that takes one."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from autodeploy.balance.experts.placement import F64
from autodeploy.errors import InputError

AXES = {2: "[layers, experts]", 3: "[steps, layers, experts]"}


def check_loads(loads: ArrayLike, dimensions: int = 2) -> F64:
    """``loads`` as float64 with ``dimensions`` axes; an InputError says where a bad value stands."""
    array = np.asarray(loads)
    if array.dtype.kind not in "biuf":
        raise InputError("loads", str(array.dtype), "numbers: tokens per expert")
    array = array.astype(np.float64, copy=False)
    if array.size == 0:
        raise InputError(
            "loads", array.shape, "at least one step, layer and expert", "give a history that is not empty"
        )
    if array.ndim != dimensions:
        raise InputError("loads", array.shape, f"an array {AXES[dimensions]}")
    bad = ~np.isfinite(array) | (array < 0)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        names = ("step", "layer", "expert")[-dimensions:]
        place = ", ".join(f"{name} {i}" for name, i in zip(names, where, strict=True))
        raise InputError(
            f"loads at {place}",
            float(array[where]),
            "a finite number of tokens >= 0",
            f"{int(bad.sum())} of {bad.size} values are bad; drop or recount those steps",
        )
    return array
