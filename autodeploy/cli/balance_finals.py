"""What the simulator said of layer placements, for ``balance layers MODEL STRATEGY``."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from autodeploy.balance.layers.report import plan_to_dict

if TYPE_CHECKING:
    from autodeploy.replay.finalists import Finalist, Finals

GIB = 2**30


def finals_document(finals: Finals) -> dict[str, Any]:
    """The JSON of the chosen plan, with the simulated step before and after and every finalist."""
    document = plan_to_dict(finals.plan) | {"finalists": [_row(f) for f in finals.finalists]}
    for name, finalist in (("before", finals.start), ("after", finals.chosen)):
        document[name] |= {"step_s": finalist.step_s, "fits": finalist.fits}
    document["plan"]["launchable"] = finals.chosen.launchable and finals.chosen.fits
    finite: dict[str, Any] = _finite(document)
    return finite


def _row(finalist: Finalist) -> dict[str, Any]:
    return {
        "name": finalist.name,
        "layout": finalist.evaluated.layout,
        "step_s": finalist.step_s,
        "fits": finalist.fits,
        "launchable": finalist.launchable,
        "largest_rank_s": finalist.evaluated.largest_rank_s,
        "largest_chunk_s": finalist.evaluated.largest_chunk_s,
        "excess_gib": finalist.evaluated.excess_bytes / GIB,
    }


def _finite(value: Any) -> Any:
    """Numbers that JSON has no word for as null."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def finals_text(finals: Finals) -> str:
    """The step before and after, and the best that can be launched where the choice cannot."""
    start, chosen = finals.start, finals.chosen
    lacks = f"short of {start.evaluated.excess_bytes / GIB:.0f} GiB, all ranks together"
    lines = [
        f"Step, simulated: now {start.step_s:.4g} s ({'fits' if start.fits else lacks}); "
        f"{chosen.name}: {chosen.step_s:.4g} s ({'fits' if chosen.fits else 'does not fit'})."
    ]
    launchable = [f for f in finals.finalists if f.fits and f.launchable]
    if launchable and not chosen.launchable:
        best = min(launchable, key=lambda f: f.step_s)
        lines.append(f"Best that a back end can write: {best.step_s:.4g} s ({best.name}).")
        lines.append(f"Its layout: {best.evaluated.layout}")
    return "\n".join(lines) + "\n"
