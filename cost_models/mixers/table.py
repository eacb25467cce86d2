"""The token mixers by the name that ``Attention.kind`` has. To add one: a file beside this one, and a row here."""

from __future__ import annotations

from cost_models.errors import ConfigError
from cost_models.inputs import Attention
from cost_models.mixers.compressed import COMPRESSED
from cost_models.mixers.gated_delta import GATED_DELTA
from cost_models.mixers.kda import KDA
from cost_models.mixers.lightning import LIGHTNING
from cost_models.mixers.mamba import MAMBA
from cost_models.mixers.mamba1 import MAMBA1
from cost_models.mixers.mla import MLA
from cost_models.mixers.mlstm import MLSTM
from cost_models.mixers.record import Mixer
from cost_models.mixers.rg_lru import RG_LRU
from cost_models.mixers.rwkv import RWKV
from cost_models.mixers.short_conv import SHORT_CONV
from cost_models.mixers.softmax import SOFTMAX

MIXERS: dict[str, Mixer] = {
    "softmax": SOFTMAX,
    "mla": MLA,
    "compressed": COMPRESSED,
    "gated_delta": GATED_DELTA,
    "kda": KDA,
    "lightning": LIGHTNING,
    "mlstm": MLSTM,
    "mamba": MAMBA,
    "mamba1": MAMBA1,
    "rg_lru": RG_LRU,
    "rwkv": RWKV,
    "short_conv": SHORT_CONV,
}


def mixer_of(attention: Attention) -> Mixer:
    """The record of the attention's kind; an unknown kind is an error."""
    mixer = MIXERS.get(attention.kind)
    if mixer is None:
        raise ConfigError("Attention.kind", attention.kind, f"one of {', '.join(MIXERS)}")
    return mixer


def check(attention: Attention) -> None:
    """Raises what an ``Attention`` lacks for its kind."""
    mixer = mixer_of(attention)
    for name in mixer.needs:
        if getattr(attention, name) <= 0:
            raise ConfigError(f"Attention.{name}", getattr(attention, name), f"> 0 for kind {attention.kind}")
    if mixer.grouped_heads and attention.query_heads % attention.kv_heads:
        allowed = f"a divisor of query_heads ({attention.query_heads})"
        raise ConfigError("Attention.kv_heads", attention.kv_heads, allowed)
