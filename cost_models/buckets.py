"""Parameter counts in three buckets by how they are sharded, and the weights of a norm."""

from __future__ import annotations

from cost_models.records import record


@record(kw_only=False)
class LayerParameters:
    """Parameter counts by how they are sharded."""

    tp_sharded: int = 0
    replicated: int = 0  # norms, router, shared-expert gate, MLA down-projections, biases of row-parallel layers
    routed_experts: int = 0

    @property
    def total(self) -> int:
        return self.tp_sharded + self.replicated + self.routed_experts

    def __add__(self, other: LayerParameters) -> LayerParameters:
        return LayerParameters(
            self.tp_sharded + other.tp_sharded,
            self.replicated + other.replicated,
            self.routed_experts + other.routed_experts,
        )

    def times(self, count: int) -> LayerParameters:
        return LayerParameters(self.tp_sharded * count, self.replicated * count, self.routed_experts * count)

    def on_card(self, *, tp: int = 1, ep: int = 1, etp: int = 1) -> float:
        """Parameters that one card holds."""
        return self.tp_sharded / tp + self.replicated + self.routed_experts / (ep * etp)


def norm_weights(width: int, norm_bias: bool) -> int:
    """RMSNorm has a weight for each element, LayerNorm a bias too."""
    return width * (2 if norm_bias else 1)
