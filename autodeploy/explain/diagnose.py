"""``diagnose``: a run's measured step against the predicted one, what would explain the gap, and what to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autodeploy.errors import InputError
from autodeploy.explain.log_facts import GIB, Measured
from autodeploy.explain.pricing import Setting, price
from autodeploy.stacks import Program, settle
from autodeploy.stacks.apply import context_of
from autodeploy.stacks.fields import stack_fields
from autodeploy.strategy.notation import Strategy
from cost_models.case import Case

CHANGES = 3
LEAST_FRAC = 0.002  # of the step: smaller effects explain nothing
# What may differ from what the file says or leaves open: (words, field of the stack, value).
SUPPOSED: tuple[tuple[str, str, Any], ...] = (
    ("gradients are reduced after the backward, not under it", "overlap_grad_reduce", False),
    ("gradients are reduced under the backward", "overlap_grad_reduce", True),
    ("parameters are gathered before the forward, not under it", "overlap_param_gather", False),
    ("pipeline transfers wait", "overlap_p2p", False),
    ("tensor-parallel collectives are not overlapped", "overlap_tp", False),
    ("tensor-parallel collectives are overlapped", "overlap_tp", True),
    ("norms are not fused", "fused_norm", False),
    ("rotary embedding is not fused", "fused_rope", False),
    ("the activation is not fused", "fused_activation", False),
    ("the loss is not fused", "fused_cross_entropy", False),
    ("the optimizer is not one kernel", "fused_optimizer", False),
    ("experts are not one grouped product", "grouped_gemm", False),
    ("attention is not a fused kernel", "attention_kernel", "unfused"),
    ("the host issues twice as slowly", "host_cost_factor", 2.0),
    ("CUDA_LAUNCH_BLOCKING is set", "launch_blocking", True),
    ("kernels are launched as graphs", "cuda_graphs", True),
)
IMBALANCES = (1.0, 1.5, 2.0, 3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The run as priced, with the program that its case was settled from."""

    strategy: Strategy
    setting: Setting
    program: Program


def diagnose_document(
    run: Run, measured: Measured, head: Mapping[str, Any], entry: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """``autodeploy.diagnose/1``. ``steps``: those of ``explain``; ``explains_frac``: share of the gap, 1 all of it."""
    gap_s = measured.step_s - entry["step_time_s"]
    band = entry.get("step_time_error_frac")
    inside = band is not None and abs(gap_s) <= band * measured.step_s
    explanations = _explanations(run, entry["step_time_s"], gap_s)
    return {
        **head,
        "schema": "autodeploy.diagnose/1",
        "strategy": str(run.strategy),
        "measured": {
            "step_time_s": measured.step_s, "step_time_p10_s": measured.low_s, "step_time_p90_s": measured.high_s,
            "steps": measured.steps, "peak_memory_gib": measured.peak_reserved_bytes / GIB or None,
            "time_s": measured.timers_s,
        },
        "estimate": entry,
        "gap_s": gap_s,
        "gap_frac": gap_s / measured.step_s,
        "inside_band": inside,
        "explanations": explanations,
        "changes": [dict(row) for row in steps if row["better"]][:CHANGES],
        "verdict": _verdict(measured, gap_s, inside, explanations),
    }  # fmt: skip


def _explanations(run: Run, now_s: float, gap_s: float) -> list[dict[str, Any]]:
    """Single suppositions that move the step towards what was measured, those that explain most first."""
    rows = []
    for words, case in _suppositions(run):
        then = price(run.strategy, replace(run.setting, case=case))
        moved = 0.0 if then.refused else then.step_s - now_s
        if moved * gap_s > 0 and abs(moved) >= LEAST_FRAC * now_s:
            rows.append({"what": words, "step_time_s": then.step_s, "moves_s": moved, "explains_frac": moved / gap_s})
    return sorted(rows, key=lambda row: abs(1.0 - row["explains_frac"]))


def _suppositions(run: Run) -> Iterator[tuple[str, Case]]:
    case, fields = run.setting.case, stack_fields()
    stated = run.program.values(context_of(case.model, case.hardware, case.workload.precision))
    for words, name, value in SUPPOSED:
        if stated.get(name, fields[name].default) == value:
            continue
        program = replace(run.program, chosen={**run.program.chosen, name: value})
        try:
            yield f"{words} ({name}={str(value).lower()})", _settled(program, case)
        except InputError:
            continue  # no such kernel on this machine
    if any(half.is_moe for kind in case.model.kinds for half in kind.feed_forwards):
        for load in IMBALANCES:
            workload = replace(case.workload, expert_imbalance=load, imbalance_by_ep=False)
            yield (
                f"the fullest expert rank has {load:g} times the mean load (--imbalance {load:g})",
                replace(case, workload=workload),
            )


def _settled(program: Program, case: Case) -> Case:
    work = case.workload
    settled = settle(
        program, case.model, case.hardware, seq_length=work.seq_length, global_batch=work.global_batch,
        precision=work.precision, imbalance=None if work.imbalance_by_ep else work.expert_imbalance,
    )  # fmt: skip
    return Case(model=settled.model, hardware=settled.hardware, workload=settled.workload)


def _verdict(measured: Measured, gap_s: float, inside: bool, explanations: Sequence[Mapping[str, Any]]) -> str:
    spread = measured.high_s / measured.step_s - 1
    predicted_s = measured.step_s - gap_s
    said = f"measured {abs(gap_s) / predicted_s:.1%} {'slower' if gap_s > 0 else 'faster'} than predicted"
    if inside:
        said += ": inside the band of runs like it, nothing needs explaining"
    elif explanations:
        best = explanations[0]
        said += f": best explained by one thing: {best['what']}, {best['explains_frac']:.0%} of the gap"
    else:
        said += (
            ": no single supposition moves the step that way; look at the machine (clocks, links, input, checkpoints)"
        )
    if spread > 0.05:
        said += f"; one step in ten is {spread:.0%} or more over the median: look for stragglers, input or checkpoints"
    return said
