"""How a model is cut into virtual stages."""

from __future__ import annotations

from cost_models.records import record


@record(kw_only=False)
class Split:
    """Decoder layers of each virtual stage in model order; the stages that hold the MTP modules, embedding and head
    (negative: from the end); the text that writes it, where one does."""

    layers: tuple[int, ...]
    mtp: int = -1
    text: str = ""
    embedding: int = 0
    head: int = -1
