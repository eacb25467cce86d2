"""Layer patterns: per-layer lists to runs, and the list expressions that configuration files carry."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import groupby

from autodeploy.errors import InputError
from cost_models.inputs import LayerKind

MOST_LAYERS = 100_000  # a longer list is a mistake, and would only cost memory


def runs_of(kinds: Iterable[LayerKind]) -> tuple[tuple[LayerKind, int], ...]:
    """Adjacent equal layers as runs (kind, count)."""
    return tuple((kind, sum(1 for _ in group)) for kind, group in groupby(kinds))


def layer_pattern(field: str, text: str, layers: int) -> list[int]:
    """Megatron's pattern strings to one number per layer: ``([0]*3+[1]*58)``, or ``2`` for every second layer.

    A whole number n marks layers 0, n, 2n, ... as 1 (Megatron-LM moe_layer_freq: every n-th layer is MoE).
    """
    wrong = InputError(
        field, text, f"a whole number > 0, or a list for {layers} layers such as ([0]*3+[1]*{layers - 3})"
    )
    try:
        value = _evaluate(ast.parse(str(text).strip(), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise wrong from None
    if isinstance(value, int) and value > 0:
        return [1 if i % value == 0 else 0 for i in range(layers)]
    if not isinstance(value, list) or len(value) != layers:
        raise wrong
    return value


def _evaluate(node: ast.expr) -> int | list[int]:
    """Whole numbers, lists of them, ``+`` of two lists and ``list * number``; nothing else."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.List):
        items = [_evaluate(item) for item in node.elts]
        if all(isinstance(item, int) for item in items):
            return items  # type: ignore[return-value]
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left), _evaluate(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        repeats = isinstance(node.op, ast.Mult) and isinstance(left, list) and isinstance(right, int)
        if repeats and 0 <= right * len(left) <= MOST_LAYERS:  # type: ignore[operator,arg-type]
            return left * right  # type: ignore[operator,return-value]
    raise ValueError("not a layer pattern")
