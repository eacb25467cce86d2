"""Rules by which a curve without a measurement of its own is taken over from a relative. Used by fit_profiles.py."""

from __future__ import annotations

from typing import Any

from autodeploy.calibrate.entries import rounded

Fits = dict[str, Any]
RING_OPS = ("all_reduce", "all_gather", "reduce_scatter")


def derived(node: Fits, rule: str, **changes: Any) -> Fits:
    """A curve taken over: its constants, what changes, the rule, and the data behind the original."""
    errors = {
        "rows",
        "median_ape_frac",
        "p90_ape_frac",
        "held_out_median_ape_frac",
        "held_out_p90_ape_frac",
        "at_bound",
    }
    kept = {key: value for key, value in node.items() if key not in errors | {"data", "derived"}}
    return {**kept, **{key: rounded(value) for key, value in changes.items()}, "data": node["data"], "derived": rule}


def scaled(node: Fits, factor: float, rule: str) -> Fits:
    """A curve taken over with its efficiencies times ``factor``."""
    names = ("efficiency_max_frac", "forward_efficiency_frac", "backward_efficiency_frac")
    return derived(node, rule, **{name: node[name] * factor for name in names if name in node})


def rebalanced(node: Fits, ratio: float, rule: str) -> Fits:
    """A curve of a card whose units multiply ``ratio`` times as fast but are fed and launched as fast as the relative's.

    Of a FLOP's time on the relative, 1 / (P e) = 1 / P + c, the part c that is not multiplying stays: with P x ratio the
    efficiency is 1 / (1 + ratio (1 / e - 1)), the depth at which a product is half as fast shrinks to ``ratio`` of it, and
    a card with so little to multiply does not run into its power limit.
    """
    names = ("efficiency_max_frac", "forward_efficiency_frac", "backward_efficiency_frac")
    changes = {name: 1 / (1 + ratio * (1 / node[name] - 1)) for name in names if name in node}
    changes |= {
        name: node[name] * ratio for name in ("k_half", "rows_half", "seq_half", "backward_seq_half") if name in node
    }
    if "droop_frac" in node:
        changes["droop_frac"] = 0.0
    return derived(node, rule, **changes)


def older_kernels(flash2: Fits) -> Fits:
    """flash1 and the Triton kernel from flash2, by the FlashAttention-2 paper (arXiv 2307.08691, section 4)."""
    paper = "FlashAttention-2 paper: 1.7-3.0x faster than FlashAttention, 1.3-2.5x than Triton, forward and backward"
    return {
        "flash1": derived(
            flash2,
            f"flash2 x 0.60: {paper}; the least gain, as at long sequences",
            forward_efficiency_frac=flash2["forward_efficiency_frac"] * 0.60,
            backward_efficiency_frac=flash2["backward_efficiency_frac"] * 0.60,
        ),
        "triton": derived(
            flash2,
            f"flash2 x 0.71 forward, 0.50 backward: {paper}",
            forward_efficiency_frac=flash2["forward_efficiency_frac"] * 0.71,
            backward_efficiency_frac=flash2["backward_efficiency_frac"] * 0.50,
        ),
    }


SMALL_ALL_REDUCE_US = 24.0  # 16 ranks on 2 DGX H100: 40 us for 1 to 4 KiB, less about 16 us of the NVLink tier
TREE_NODE_US = 9.4  # what an all-reduce adds per node: two hops of the ring


def inter_entries(ring: Fits) -> Fits:
    """All operations of a NIC tier from the fitted all-reduce."""
    hop = ring["latency_per_rank_us"] / 16  # two passes over the ring, eight ranks to a node
    small = "latency: 40 us measured for small all-reduces of 16 ranks on two DGX H100, less the NVLink part"
    note = f"hops: {hop:.2f} us each in SimAI's rings of 8 ranks a node; here one rank of each node takes part"
    efficiency, ramp = ring["efficiency_frac"], ring["ramp_sqrt_us"]
    fitted = (
        f"{ring['rows']} rows, median error {ring['median_ape_frac']} with latency {ring['latency_us']} us "
        f"and {ring['latency_per_rank_us']} us per node"
    )
    common = {"efficiency_frac": efficiency, "ramp_sqrt_us": ramp}
    half = {**common, "latency_us": SMALL_ALL_REDUCE_US / 2, "latency_per_rank_us": rounded(hop)}
    rule = f"from the fitted all-reduce; {small}; {note}"
    data = ring["data"]
    return {
        "all_reduce": {
            **common,
            "latency_us": SMALL_ALL_REDUCE_US,
            "latency_per_rank_us": rounded(2 * hop),
            "data": data,
            "derived": f"efficiency and ramp fitted ({fitted}); {small}; {note}",
        },
        "all_gather": {**half, "data": data, "derived": rule},
        "reduce_scatter": {**half, "data": data, "derived": rule},
        "all_to_all": {
            "latency_us": SMALL_ALL_REDUCE_US / 2,
            "efficiency_frac": 0.94,
            "latency_per_rank_us": 4.3,
            "data": "SimAI ata_ratio tables: 0.94 of the NIC at 4 and 8 nodes; 4.2 to 4.6 us per remote rank",
            "derived": "read off",
        },
        "p2p": {**common, "latency_us": SMALL_ALL_REDUCE_US / 2, "data": data, "derived": rule},
    }
