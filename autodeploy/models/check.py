"""``models --check``: our counts beside those of the modules that transformers builds on the meta device."""

from __future__ import annotations

import re
from typing import Any

from autodeploy.errors import InputError
from autodeploy.models.hf_meta import Weights, build, size
from cost_models.inputs import ModelSpec
from cost_models.parameters import embedding_parameters, feed_forward_parameters, head_parameters, layer_parameters

TOLERANCE_FRAC = 0.003
EXPERTS = re.compile(r"experts?\.|\.router|\.gate\.(weight|wg)|^mlp\.gate\.|moe")
FEED_FORWARD = re.compile(r"mlp|feed_forward|ffn|experts|moe|\bfc[12]\b")
# Where transformers itself has more than the model: a reason that is printed.
KNOWN_DIFFERENCES = {
    "longcat_flash": "transformers allocates input matrices for the zero-computation experts, which the release does not have"
}


def check_document(document: dict[str, Any], model: ModelSpec) -> dict[str, Any]:
    """Totals and parts. ``passed`` is within 0.3%, or a difference whose reason is known."""
    if "model_type" not in document:
        raise InputError("--check", model.name, "used with a Hugging Face config.json")
    weights = build(document)
    ours, theirs = model.parameters(), weights.total
    error = ours / theirs - 1.0
    reason = KNOWN_DIFFERENCES.get(str(document["model_type"]), "")
    return {
        "transformers": weights.version,
        "parameters": theirs,
        "error_frac": error,
        "passed": abs(error) <= TOLERANCE_FRAC or bool(reason),
        "reason": reason,
        "parts": _parts(model, weights),
    }


def _parts(model: ModelSpec, weights: Weights) -> list[dict[str, Any]]:
    """Ends, and mixers with norms against feed-forwards, summed over the layers."""
    ends = embedding_parameters(model).total + head_parameters(model).total
    feed_forward = whole = 0
    for kind, count in model.layers:
        feed_forward += count * sum(feed_forward_parameters(ffn, model.hidden).total for ffn in kind.feed_forwards)
        whole += count * (layer_parameters(kind, model.hidden, model.norm_bias).total - kind.reused_parameters)
    named = [(name, size(shape)) for layer in weights.layers for name, shape in layer]
    theirs = sum(elements for name, elements in named if FEED_FORWARD.search(name) and "norm" not in name)
    rows = {
        "embedding, head and what is outside the layers": (ends, sum(size(shape) for _, shape in weights.ends)),
        "mixers and norms": (whole - feed_forward, sum(elements for _, elements in named) - theirs),
        "feed-forwards": (feed_forward, theirs),
    }
    return [{"part": part, "ours": a, "transformers": b} for part, (a, b) in rows.items()]
