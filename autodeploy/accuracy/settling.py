"""Cases settled once: rows that share model, machine, program and sizes share the settled objects, and so a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autodeploy.stacks import Program, settle
from cost_models.case import Case
from cost_models.inputs import HardwareProfile, ModelSpec


class Settler:
    """``settle`` with a memory. Objects are told apart by identity, so the ones handed in must stay alive."""

    def __init__(self) -> None:
        self._found: dict[tuple, Case] = {}
        self._changed: dict[tuple, Any] = {}
        self._kept: list[Any] = []

    def settle(
        self,
        program: Program,
        model: ModelSpec,
        hardware: HardwareProfile,
        sizes: tuple[int, int, str],
        imbalance: float | None = None,
    ) -> Case:
        """``sizes``: sequence length, global batch, precision."""
        key = (program.stack.name, tuple(sorted(program.chosen.items())), id(model), id(hardware), sizes, imbalance)
        if key not in self._found:
            self._kept += [model, hardware]
            seq_length, global_batch, precision = sizes
            settled = settle(
                program,
                model,
                hardware,
                seq_length=seq_length,
                global_batch=global_batch,
                precision=precision,
                imbalance=imbalance,
            )
            shared_model = self._shared("model", model, settled.model)
            shared_hardware = self._shared("hardware", hardware, settled.hardware)
            self._found[key] = replace(settled, model=shared_model, hardware=shared_hardware)
        return self._found[key]

    def _shared(self, kind: str, before: Any, after: Any) -> Any:
        """One changed object for each original: a stack changes a model or a machine in one way only."""
        return before if after is before else self._changed.setdefault((kind, id(before)), after)
