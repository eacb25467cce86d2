"""Fitted curves as entries of a profile's ``fits`` section: units of the file, provenance beside the numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from autodeploy.calibrate.fitting import FitError

Entry = dict[str, Any]

DIGITS = 4  # significant digits kept: well below any fit's error
_TO_FILE = (("ramp_sqrt_s", "ramp_sqrt_us", 1e3), ("_s", "_us", 1e6))


def entry(curve: Any, error: FitError | None, data: str, **more: Any) -> Entry:
    """One curve (a dataclass or its fields) with its error and the data it was fitted to. Defaults are left out."""
    return {**numbers(curve), **(error_entry(error) if error else {}), "data": data, **more}


def numbers(curve: Any) -> Entry:
    """The curve's constants in the units of the file."""
    if dataclasses.is_dataclass(curve) and not isinstance(curve, type):
        defaults = {f.name: f.default for f in dataclasses.fields(curve) if f.default is not dataclasses.MISSING}
        fields = {f.name: getattr(curve, f.name) for f in dataclasses.fields(curve)}
        fields = {key: value for key, value in fields.items() if not (key in defaults and defaults[key] == value)}
        if fields.get("droop_frac", 0) == 0:
            fields.pop("droop_half_flop", None)
    else:
        fields = dict(curve)
    return dict(_in_file(key, value) for key, value in fields.items() if value is not None and value != {})


def _in_file(key: str, value: Any) -> tuple[str, Any]:
    for suffix, file_suffix, factor in _TO_FILE:
        if key.endswith(suffix):
            return key.removesuffix(suffix) + file_suffix, rounded(value * factor)
    return key, rounded(value)


def rounded(value: Any) -> Any:
    """``DIGITS`` significant digits; below 1e-6 is 0."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if not isinstance(value, float | np.floating):
        return value
    number = float(value)
    return 0.0 if abs(number) < 1e-6 else float(f"{number:.{DIGITS}g}")


def error_entry(error: FitError) -> Entry:
    """The error's fields, absent ones left out."""
    fields = dataclasses.asdict(error)
    fields["at_bound"] = list(error.at_bound)
    return {key: rounded(value) for key, value in fields.items() if value is not None and value != []}
