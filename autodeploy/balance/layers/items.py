"""What is placed: one embedding, the decoder layers in order, the MTP modules, one head; with time and memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autodeploy.errors import InputError

SYMBOLS = {"embedding": "E", "decoder": "t", "mtp": "m", "head": "L"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerItems:
    """I items in model order; O recompute options, the first is the default (the fewest seconds, as a rule).

    Seconds are of one micro-batch on one card; static bytes are weights, gradients and optimizer state;
    activation bytes are what one micro-batch in flight keeps.
    """

    kinds: tuple[str, ...]  # [I]: embedding, decoder..., mtp..., head
    labels: tuple[str, ...]  # [I]: for print: dense, moe, ...
    forward_s: np.ndarray  # [O, I]
    backward_s: np.ndarray  # [O, I], recomputed forward included
    static_bytes: np.ndarray  # [I]
    activation_bytes: np.ndarray  # [O, I]
    options: tuple[str, ...] = ("none",)  # [O]
    mtp_apart_bytes: float = 0.0  # static bytes more where the MTP modules sit on another rank than the head
    mtp_embedding_s: float = 0.0  # part of the first MTP module's seconds (each option) that its embedding takes
    mtp_embedding_bytes: float = 0.0  # part of its static bytes that is the embedding's copy
    prescription: str = ""  # not empty: no exporter can write this placement, and why

    def __post_init__(self) -> None:
        count = len(self.kinds)
        order = "".join(SYMBOLS.get(kind, "?") for kind in self.kinds)
        if order != "E" + "t" * order.count("t") + "m" * order.count("m") + "L" or "t" not in order:
            raise InputError("LayerItems.kinds", order, "E t...t m...m L: embedding, decoder, mtp, head, in order")
        if len(self.labels) != count:
            raise InputError("LayerItems.labels", len(self.labels), f"{count} labels, one an item")
        shapes = {
            "forward_s": (len(self.options), count),
            "backward_s": (len(self.options), count),
            "static_bytes": (count,),
            "activation_bytes": (len(self.options), count),
        }
        for name, shape in shapes.items():
            values = np.asarray(getattr(self, name), dtype=np.float64)
            if values.shape != shape:
                raise InputError(f"LayerItems.{name}", values.shape, f"of shape {shape}")
            if not (np.isfinite(values).all() and (values >= 0).all()):
                bad = values[~(np.isfinite(values) & (values >= 0))].flat[0]
                raise InputError(f"LayerItems.{name}", float(bad), "numbers >= 0")
            object.__setattr__(self, name, values)
        if not self.seconds.sum() > 0:
            raise InputError("LayerItems.forward_s", 0.0, "some item that takes time")

    @property
    def seconds(self) -> np.ndarray:
        """Forward and backward, [O, I]: what a chunk adds to its rank at every micro-batch."""
        return self.forward_s + self.backward_s

    @property
    def decoder(self) -> slice:
        return slice(1, 1 + self.kinds.count("decoder"))

    @property
    def mtp(self) -> slice:
        return slice(self.decoder.stop, len(self.kinds) - 1)

    @property
    def num_layers(self) -> int:
        return self.kinds.count("decoder")

    @property
    def mtp_modules(self) -> int:
        return self.kinds.count("mtp")


def uniform_items(
    *, embedding_s: float, layers: list[tuple[str, int, float]], mtp_s: list[float], head_s: float
) -> LayerItems:
    """Items without memory from total seconds (a third forward): ``layers`` are runs (label, count, seconds)."""
    runs = [("decoder", label, seconds) for label, count, seconds in layers for _ in range(count)]
    rows = [("embedding", "embedding", embedding_s), *runs]
    rows += [("mtp", "mtp", seconds) for seconds in mtp_s] + [("head", "head", head_s)]
    seconds = np.array([[row[2] for row in rows]])
    zeros = np.zeros_like(seconds)
    return LayerItems(
        kinds=tuple(row[0] for row in rows),
        labels=tuple(row[1] for row in rows),
        forward_s=seconds / 3,
        backward_s=seconds * 2 / 3,
        static_bytes=zeros[0],
        activation_bytes=zeros,
    )


def move_mtp_embedding(items: LayerItems) -> LayerItems:
    """The MTP embedding computed on the first stage and sent along: a prescription of the twin.

    The first stage looks up the shifted tokens too (its own table serves), the MTP stage drops its copy.
    """
    if not items.mtp_modules:
        raise InputError("--mtp-embedding-first", True, "false for a model without MTP modules")
    first = items.mtp.start
    change = np.zeros(len(items.kinds))
    change[0], change[first] = 1.0, -1.0
    share = items.forward_s[0, first] / max(items.seconds[0, first], 1e-300)
    static = items.static_bytes.copy()
    static[first] = max(0.0, static[first] - items.mtp_embedding_bytes)
    return replace(
        items,
        forward_s=np.maximum(0, items.forward_s + change * items.mtp_embedding_s * share),
        backward_s=np.maximum(0, items.backward_s + change * items.mtp_embedding_s * (1 - share)),
        static_bytes=static,
        mtp_embedding_s=0.0,
        mtp_embedding_bytes=0.0,
        prescription="the MTP embedding on the first stage: no Megatron or MindSpeed option writes this",
    )
