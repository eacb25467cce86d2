"""Our model YAML, as a plain mapping, to and from ``ModelSpec``. README.md beside this file explains the fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from autodeploy.errors import InputError
from cost_models.inputs import Attention, FeedForward, LayerKind, ModelSpec
from cost_models.mixers.table import MIXERS

BLOCK_COUNTS = ("extra_parameters", "side_elements", "reused_parameters")  # of a run

MODEL_FLAGS = (
    "tied_embeddings",
    "norm_bias",
    "learned_positions",
    "embedding_norm",
    "head_bias",
    "extra_embedding",
    "extra_head",
    "max_seq_length",
)
BLOCK_COUNTS = ("extra_parameters", "side_elements", "reused_parameters")  # of a run
NO_HALF = "none"  # a block without attention, or without feed-forward

# ------------------------------------------------------------------------------------------- mapping -> ModelSpec


def build_model(document: Mapping[str, Any]) -> ModelSpec:
    """A ModelSpec from a mapping whose fields are already checked (or which we ship)."""
    hidden = document["hidden"]
    attentions = _named(document["attention"], "query_heads")
    feed_forwards = _named(document.get("feed_forward") or {}, "width")
    mixers = {name: _attention(name, entry, hidden) for name, entry in attentions.items()}
    mlps = {name: FeedForward(**entry) for name, entry in feed_forwards.items()}
    norms = document.get("norms", 2)
    mtp = document.get("mtp") or {}
    return ModelSpec(
        name=document["name"],
        hidden=hidden,
        vocab=document["vocab"],
        layers=tuple(_runs(document["layers"], mixers, mlps, norms)),
        mtp_modules=mtp.get("modules", 1 if mtp else 0),
        mtp_kind=_block(mtp, mixers, mlps, norms) if {"attention", "feed_forward", "norms"} & set(mtp) else None,
        notes=tuple(document.get("notes") or ()),
        **{name: document[name] for name in MODEL_FLAGS if name in document},
    )


def _named(entry: Mapping[str, Any], mark: str) -> dict[str, Mapping[str, Any]]:
    """Either one description, recognised by the field ``mark``, or several by name."""
    return {"": entry} if mark in entry else dict(entry)


def _attention(name: str, entry: Mapping[str, Any], hidden: int) -> Attention:
    """Fills in what follows from the rest: head sizes and the number of key/value heads."""
    filled = dict(entry)
    prefix = f"attention.{name}" if name else "attention"
    heads = filled["query_heads"]
    for field in _needs(filled.get("kind", "softmax")):
        if not filled.get(field):
            raise InputError(f"{prefix}.{field}", filled.get(field), f"a whole number > 0 for kind {filled['kind']}")
    filled.setdefault("kv_heads", heads)
    if filled.get("kind") == "mla":
        filled.setdefault("head_dim", filled.get("qk_nope_head_dim", 0) + filled.get("qk_rope_head_dim", 0))
    elif "head_dim" not in filled:
        if heads <= 0 or hidden % heads:
            raise InputError(f"{prefix}.query_heads", heads, f"a divisor of hidden ({hidden})", "or state head_dim")
        filled["head_dim"] = hidden // heads
    filled.setdefault("v_head_dim", filled.get("qk_nope_head_dim") or filled["head_dim"])
    return Attention(**filled)


def _needs(kind: str) -> tuple[str, ...]:
    """What the kind cannot do without, beside query_heads; an unknown kind is reported where the value is built."""
    mixer = MIXERS.get(kind)
    return mixer.needs if mixer else ()


def _runs(
    layers: int | list[Any], mixers: Mapping[str, Attention], mlps: Mapping[str, FeedForward], norms: int
) -> list[tuple[LayerKind, int]]:
    if isinstance(layers, int):
        return [(_block({}, mixers, mlps, norms), layers)]
    runs: list[tuple[LayerKind, int]] = []
    for entry in layers:
        if "blocks" in entry:
            runs += _runs(entry["blocks"], mixers, mlps, norms) * entry.get("repeat", 1)
        else:
            runs.append((_block(entry, mixers, mlps, norms), entry.get("count", 1)))
    return runs


def _block(
    entry: Mapping[str, Any], mixers: Mapping[str, Attention], mlps: Mapping[str, FeedForward], norms: int
) -> LayerKind:
    return LayerKind(
        attention=_pick("attention", entry.get("attention"), mixers),
        feed_forward=_pick("feed_forward", entry.get("feed_forward"), mlps),
        norms=entry.get("norms", norms),
        more=tuple(_either(name, mixers, mlps) for name in entry.get("more") or ()),
        **{name: entry[name] for name in BLOCK_COUNTS if name in entry},
    )


def _either(name: str, mixers: Mapping[str, Attention], mlps: Mapping[str, FeedForward]) -> Attention | FeedForward:
    """A further half of a block, by the name that it has under attention or feed_forward."""
    if name not in mixers and name not in mlps:
        choices = ", ".join(label for label in [*mixers, *mlps] if label)
        raise InputError("layers.more", name, f"names among {choices}")
    return mixers[name] if name in mixers else mlps[name]


def _pick(field: str, name: str | None, known: Mapping[str, Any]) -> Any:
    """The half of a block that ``name`` means; without a name, the only one there is."""
    if name == NO_HALF:
        return None
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name is None and not known:
        return None
    if name is None or name not in known:
        choices = ", ".join([label for label in known if label] + [NO_HALF])
        raise InputError(f"layers.{field}", name, f"one of {choices}", f"name it under {field}:")
    return known[name]


# ------------------------------------------------------------------------------------------- ModelSpec -> mapping


def to_document(model: ModelSpec, source: str = "") -> dict[str, Any]:
    """The mapping that ``build_model`` reads back to an equal ModelSpec. Defaults are left out."""
    kinds = list(dict.fromkeys([kind for kind, _ in model.layers] + ([model.mtp_kind] if model.mtp_kind else [])))
    mixers = _label([half for kind in kinds for half in kind.attentions], _mixer_label)
    mlps = _label([half for kind in kinds for half in kind.feed_forwards], lambda h: "moe" if h.is_moe else "dense")
    norms = kinds[0].norms if len({kind.norms for kind in kinds}) == 1 else 2
    document: dict[str, Any] = {"name": model.name}
    if source:
        document["source"] = source
    document |= {"hidden": model.hidden, "vocab": model.vocab}
    document |= {name: value for name, value in _stated(model).items() if name in MODEL_FLAGS}
    if norms != 2:
        document["norms"] = norms
    named = any(kind.more for kind in kinds)  # a half that is listed under ``more`` needs a name
    document["attention"] = _halves(mixers, named)
    if mlps:
        document["feed_forward"] = _halves(mlps, named)
    entries = [_run_entry(kind, count, mixers, mlps, norms, named) for kind, count in model.layers]
    plain = len(entries) == 1 and set(entries[0]) <= {"count"}
    document["layers"] = model.layers[0][1] if plain else _fold(entries)
    if model.mtp_modules or model.mtp_kind:
        document["mtp"] = {"modules": model.mtp_modules}
        if model.mtp_kind:
            document["mtp"] |= _run_entry(model.mtp_kind, 1, mixers, mlps, norms, named) | {
                "norms": model.mtp_kind.norms
            }
    if model.notes:
        document["notes"] = list(model.notes)
    return document


def _mixer_label(attention: Attention) -> str:
    if attention.kind != "softmax":
        return attention.kind
    return "sliding" if attention.window_tokens else "full"


def _label(halves: list[Any], label: Any) -> dict[Any, str]:
    """A distinct name for each distinct half, by kind, numbered from the second on."""
    named: dict[Any, str] = {}
    for half in dict.fromkeys(half for half in halves if half is not None):
        base, number = label(half), 2
        name = base
        while name in named.values():
            name, number = f"{base}_{number}", number + 1
        named[half] = name
    return named


def _stated(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their default."""
    items = ((item.name, getattr(value, item.name), item.default) for item in fields(value))
    return {name: current for name, current, default in items if default is MISSING or current != default}


def _halves(halves: Mapping[Any, str], named: bool) -> dict[str, Any]:
    entries = {name: _stated(half) for half, name in halves.items()}
    return next(iter(entries.values())) if len(entries) == 1 and not named else entries


def _run_entry(
    kind: LayerKind, count: int, mixers: Mapping[Any, str], mlps: Mapping[Any, str], norms: int, named: bool
) -> dict[str, Any]:
    entry: dict[str, Any] = {"count": count} if count != 1 else {}
    for field, half, names in (("attention", kind.attention, mixers), ("feed_forward", kind.feed_forward, mlps)):
        if half is None and names:
            entry[field] = NO_HALF
        elif half is not None and (len(names) > 1 or named):
            entry[field] = names[half]
    if kind.norms != norms:
        entry["norms"] = kind.norms
    if kind.more:
        entry["more"] = [mixers[half] if isinstance(half, Attention) else mlps[half] for half in kind.more]
    return entry | {name: getattr(kind, name) for name in BLOCK_COUNTS if getattr(kind, name)}


def _fold(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Writes a leading pattern of runs that repeats at least three times as ``repeat`` and ``blocks``."""
    for period in range(2, len(entries) // 3 + 1):
        repeats = 1
        while entries[repeats * period : (repeats + 1) * period] == entries[:period]:
            repeats += 1
        if repeats >= 3:
            return [{"repeat": repeats, "blocks": entries[:period]}, *entries[repeats * period :]]
    return entries
