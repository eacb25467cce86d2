"""The JSON document of ``trials`` (``autodeploy.trials/1``) and its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autodeploy.decide.plan_trials import STEPS, Trial, TrialPlan, worth
from autodeploy.report.documents import head
from autodeploy.report.table import heading, seconds, terminal_width, wrap

if TYPE_CHECKING:
    from autodeploy.report.entry import Case


def trials_document(
    case: Case,
    entries: Sequence[Mapping[str, Any]],
    plan: TrialPlan,
    settings: Mapping[int, Mapping[str, Any]],
    seed: int,
) -> dict[str, Any]:
    """``entries``: the ranked rows; ``settings``: launch settings by row."""
    document = head("autodeploy.trials/1", case, seed, int(entries[0]["devices"]))
    document["choice"] = _named(entries[plan.choice]) | {"expected_regret_frac": plan.regret_frac}
    document["trials"] = [_trial(one, entries) | dict(settings.get(one.row or 0, {})) for one in plan.runs]
    document["microbenchmarks"] = [_trial(one, entries) for one in plan.microbenchmarks]
    document["worth"] = bool(worth(plan.runs) or worth(plan.microbenchmarks))
    document["advice"] = _advice(document, plan)
    return document


def _named(entry: Mapping[str, Any]) -> dict[str, Any]:
    keys = (
        "rank",
        "strategy",
        "step_time_s",
        "expected_step_time_s",
        "fit_probability",
        "best_probability",
        "evidence",
    )
    return {key: entry[key] for key in keys}


def _trial(one: Trial, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    named = {} if one.row is None else _named(entries[one.row])
    settles = f"the cost of {one.cause} in every row"
    if one.row is not None and one.against is not None:
        settles = f"row {entries[one.row]['rank']} against row {entries[one.against]['rank']}"
    return named | {
        "kind": "run" if one.row is not None else "microbenchmark",
        "what": one.what if one.row is None else f"{STEPS} steps",
        "cause": one.cause,
        "settles": settles,
        "expected_gain_frac": one.gain_frac,
        "expected_gain_device_hours": one.gain_device_hours,
        "cost_device_hours": one.cost_device_hours,
        "net_device_hours": one.net_device_hours,
        "worth": bool(worth([one])),
    }


def _advice(document: Mapping[str, Any], plan: TrialPlan) -> str:
    choice = document["choice"]
    if not document["worth"]:
        return f"No trial is worth its cost: run row {choice['rank']}, {choice['strategy']}."
    first = next((one for one in document["trials"] if one["worth"]), None)
    said = f"Now row {choice['rank']} would be run, expected to be {plan.regret_frac:.1%} behind the fastest. "
    if first is not None:
        said += f"Run {first['strategy']} for {STEPS} steps, then give its log to --measured and ask again."
    else:
        said += (
            f"Take the microbenchmark of {document['microbenchmarks'][0]['cause']}, give it to calibrate and ask again."
        )
    return said


def trials_text(document: Mapping[str, Any]) -> str:
    """For people."""
    width = terminal_width()
    lines = [heading(document, width), "", wrap(document["advice"], width), ""]
    for number, one in enumerate(document["trials"], start=1):
        lines.append(wrap(f"{number}. {one['strategy']} (row {one['rank']}): {_numbers(one)}", width, "   "))
        about = f"   expected {seconds(one['expected_step_time_s'])} s, fits {one['fit_probability']:.0%}, {one['evidence']}"
        lines.append(wrap(f"{about}; settles {one['settles']}", width, "   "))
        if one.get("settings_file"):
            lines.append(f"   {one['settings_file']}")
        elif one.get("settings_refused"):
            lines.append(wrap(f"   no launch settings: {one['settings_refused']}", width, "   "))
    if document["microbenchmarks"]:
        lines += ["", "Microbenchmarks:"]
    for one in document["microbenchmarks"]:
        lines.append(wrap(f"- {one['what']}: {_numbers(one)}", width, "  "))
    return "\n".join(lines)


def _numbers(one: Mapping[str, Any]) -> str:
    gain = f"expected gain {one['expected_gain_frac']:.2%} of the job"
    if one["expected_gain_device_hours"] is None:
        return f"{gain}, costs {one['cost_device_hours']:,.0f} card-hours"
    net = f"{one['expected_gain_device_hours']:,.0f} card-hours for {one['cost_device_hours']:,.0f}"
    return f"{gain}, {net}" + ("" if one["worth"] else ": not worth it")
