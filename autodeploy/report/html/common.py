"""What the pages of ``search``, ``estimate`` and ``simulate`` share: the case, the assumptions, one row's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autodeploy.report.html.page import Markup, Section
from autodeploy.report.html.parts import facts, note


def case_line(document: Mapping[str, Any]) -> str:
    counts = document.get("devices_range") or [document["devices"]]
    cards = f"{min(counts)} to {max(counts)}" if len(counts) > 1 else str(counts[0])
    return (
        f"{document['model']['name']} on {cards} x {document['hardware']}, {document['seq_length']} tokens a sequence, "
        f"{document['global_batch']} sequences a step, {document['precision']}, {document['backend']}"
    )


def assumptions(document: Mapping[str, Any], row: Mapping[str, Any] | None) -> Section:
    """What the figures rest on: stack, profile, bands and the measured runs behind them."""
    pairs: list[tuple[str, Any]] = [
        ("Software stack", row.get("stack") if row else document["stack"]),
        ("Hardware profile", f"{document['hardware']}, sha256 {document['profile_sha256'] or ''}"),
        ("Memory that may be used", f"{document['memory_cap_gib']:.1f} GiB a card"),
        ("Expert imbalance", f"largest card load over the mean {document['expert_imbalance']:g}"),
        ("Model", _model(document["model"])),
        ("Not read of the model's file", ", ".join(map(str, document["model"].get("unread") or []))),
        ("Version, seed", f"{document['tool_version']}, {document['seed']}"),
    ]
    if row:
        pairs[1:1] = [
            ("Band of the step time", f"+-{row['step_time_error_frac']:.0%}: {row['step_time_error_group']}"),
            ("Band of the memory", f"+-{row['peak_memory_error_frac']:.0%}: {row['peak_memory_error_group']}"),
            ("Measured evidence", row.get("evidence")),
            ("MFU counts", row["flops_convention"]),
        ]
    parts: list[Markup] = [facts(pairs)]
    if row:
        parts.append(
            note("Bands and evidence are those of the first row. Nine of ten runs of its kind are meant to lie within.")
        )
    return Section("What this assumes", parts)


def _model(model: Mapping[str, Any]) -> str:
    return f"{model['name']}, {model['parameters'] / 1e9:.1f} billion parameters, {model['active_parameters'] / 1e9:.1f} active"


def by_cause(rows: Sequence[Mapping[str, Any]], key: str) -> dict[str, list[float]]:
    """Cause -> its value in each row, in the order of the document."""
    causes = dict.fromkeys(cause for row in rows for cause in row[key])
    return {cause: [float(row[key].get(cause, 0.0)) for row in rows] for cause in causes}
