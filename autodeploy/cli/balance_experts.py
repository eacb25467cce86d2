"""``autodeploy balance experts``: which experts to move where, and whether that pays."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from autodeploy.balance.experts import (
    Links,
    Placement,
    Task,
    Topology,
    coactivation,
    contiguous,
    make_plan,
    nodes_per_token,
    read_choices,
    read_history,
    read_placement,
    reduce_traffic,
    replay,
)
from autodeploy.balance.experts.loads import widened
from autodeploy.balance.experts.place import hierarchical
from autodeploy.balance.experts.placement import F64
from autodeploy.balance.experts.plan import Plan
from autodeploy.balance.experts.report import MOVE_COLUMNS, plan_document, replay_document
from autodeploy.balance.experts.report_place import PlaceRequest
from autodeploy.balance.live.maps import FORMATS as MAP_FORMATS
from autodeploy.balance.live.maps import write_maps
from autodeploy.balance.live.records import read_record
from autodeploy.cli import options as opt
from autodeploy.cli.balance_place import check_shares, placed, render_place
from autodeploy.cli.balance_twin import TwinFacts, twin_facts
from autodeploy.cli.output import check_format, check_report, check_writable, emit, write_report
from autodeploy.errors import InputError
from autodeploy.hardware import load_hardware
from cost_models.inputs import HardwareProfile

BYTES_PER_PARAMETER = 14.0  # what moves: bf16 weight 2, fp32 master copy 4, two fp32 Adam moments 8; no gradients
FLOP_PER_PARAMETER = 6.0  # of a token: 2 forward, 4 backward


def experts(
    model: Annotated[str | None, typer.Argument(help="With STRATEGY: prices, cards and horizon from the twin.")] = None,
    strategy: Annotated[
        str | None, typer.Argument(help="Such as PP16/EP64; --devices are the cards of the job.")
    ] = None,
    *,
    history: Annotated[Path, typer.Option("--input", help="Load history: npz, CSV or JSON lines.")],
    nodes: Annotated[int, typer.Option("--nodes", help="Nodes of the expert-parallel group.")] = 1,
    cards_per_node: Annotated[
        int, typer.Option("--cards-per-node", help="Cards in a node; 0: --devices / --nodes.")
    ] = 0,
    devices: Annotated[int, typer.Option("--devices", help="Cards in all, instead of --cards-per-node.")] = 0,
    placement: Annotated[
        Path | None, typer.Option("--placement", help="Placement now (JSON or npz). [contiguous]")
    ] = None,
    slots: Annotated[int, typer.Option("--slots", help="Expert slots over all cards. [experts + replicas]")] = 0,
    replicas: Annotated[int, typer.Option("--replicas", help="Redundant experts over all cards.")] = 0,
    groups: Annotated[int, typer.Option("--groups", help="Router groups; every copy stays on its group's node.")] = 1,
    relaxed: Annotated[
        bool, typer.Option("--relaxed", help="With --groups: copies beyond the first may leave the node.")
    ] = False,
    place: Annotated[bool, typer.Option("--place", help="Only place for the given loads: no prices needed.")] = False,
    shares: Annotated[
        str, typer.Option("--shares", help="With --place, tokens of copies: even, fixed or step (a linear program).")
    ] = "even",
    experts_count: Annotated[
        int, typer.Option("--experts", help="Experts of a layer, where the file may lack idle ones.")
    ] = 0,
    token_bytes: Annotated[
        float, typer.Option("--token-bytes", help="Bytes a token moves to another node and back, both passes.")
    ] = 0.0,
    bytes_per_expert: Annotated[float, typer.Option("--bytes-per-expert", help="Weights and optimizer state.")] = 0.0,
    hardware: Annotated[str, typer.Option("--hardware", help="Profile that gives bandwidths and the rate.")] = "",
    intra_bandwidth: Annotated[float, typer.Option("--intra-bandwidth", help="Bytes/s of a card inside a node.")] = 0.0,
    inter_bandwidth: Annotated[float, typer.Option("--inter-bandwidth", help="Bytes/s of a card between nodes.")] = 0.0,
    seconds_per_token: Annotated[
        float,
        typer.Option("--seconds-per-token", help="One token through one expert, forward and backward. [by hardware]"),
    ] = 0.0,
    horizon: Annotated[
        int, typer.Option("--horizon", help="Steps within which a migration must pay. [100; with MODEL: 10 minutes]")
    ] = 0,
    seq_length: opt.SeqLength = None,
    global_batch: opt.GlobalBatch = None,
    choices: Annotated[
        Path | None, typer.Option("--choices", help="npz of token-level choices: adds cross-node traffic.")
    ] = None,
    with_replay: Annotated[bool, typer.Option("--replay", help="Run the history: static, EPLB style, ours.")] = False,
    interval: Annotated[int, typer.Option("--interval", help="Steps between EPLB-style plans. [the horizon]")] = 0,
    maps: Annotated[
        Path | None, typer.Option("--maps", help="Write the placement after as other systems read it.")
    ] = None,
    map_format: Annotated[
        str, typer.Option("--map-format", help="Of --maps: sglang, vllm, eplb or vllm-ascend.")
    ] = "sglang",
    input_format: Annotated[
        str, typer.Option("--input-format", help="npz, csv, jsonl or record (of SGLang or vLLM); guessed.")
    ] = "",
    output_format: Annotated[str, typer.Option("--format", help="table, json or csv (csv: the moves).")] = "table",
    report: opt.Report = None,
    output: Annotated[Path | None, typer.Option("--output", help="File for the result.")] = None,
) -> None:
    """Predict expert loads and list the moves that pay for themselves within the horizon."""
    given = dict(locals())
    check_format(output_format)
    check_writable("--output", output)
    check_writable("--maps", maps)
    check_report(report)
    if horizon < 0:
        raise InputError("--horizon", horizon, "a whole number of steps > 0")
    if interval < 0:
        raise InputError("--interval", interval, "a whole number of steps > 0, or 0 for the horizon")
    loads = _history(history, input_format, experts_count)
    twin = _twin(given) if model is not None else None
    topology = twin.topology if twin else _topology(nodes, cards_per_node, devices)
    now = _placement_now(loads.shape[1:], topology, placement, slots, replicas, groups)
    check_shares(shares)
    if place:
        across = inter_bandwidth or (twin.links.inter_bytes_per_s if twin else 0.0)
        across = across or (_bandwidths(load_hardware(hardware), topology)[1] if hardware else 0.0)
        request = PlaceRequest(
            topology=topology,
            groups=groups,
            relaxed=relaxed,
            shares=shares,
            token_bytes=token_bytes or (twin.token_bytes if twin else 0.0),
            inter_bytes_per_s=across,
        )
        document = placed(loads, now, request)
        _write_maps(document, loads.shape[2], maps, map_format)
        write_report(report, document)
        emit(render_place(document, output_format), output)
        return
    if shares != "even":
        raise InputError("--shares", shares, "given with --place", "add --place")
    if twin:
        task = Task(topology=topology, links=twin.links, seconds_per_token=twin.seconds_per_token(loads), groups=groups)
    else:
        task = _task(topology, groups, bytes_per_expert, hardware, intra_bandwidth, inter_bandwidth, seconds_per_token)
    task = replace(task, relaxed=relaxed)
    horizon = horizon or (twin.horizon() if twin else 100)
    plan = make_plan(loads, now, task, horizon)
    document = plan_document(plan, task)
    document["plan"]["horizon_steps"] = horizon
    if twin:
        document["twin"] = _twin_document(twin, task)
    _write_maps(document, loads.shape[2], maps, map_format)
    if choices is not None:
        document["traffic"] = _traffic(choices, plan, task)
    if with_replay:
        document["replay"] = replay_document(replay(loads, now, task, horizon, interval))
    write_report(report, document)
    emit(_render(document, output_format), output)


def _twin(given: dict[str, Any]) -> TwinFacts:
    for name in ("bytes_per_expert", "seconds_per_token", "intra_bandwidth", "inter_bandwidth"):
        if given[name]:
            raise InputError(f"--{name.replace('_', '-')}", given[name], "not given with MODEL", "the twin prices it")
    return twin_facts(given)


def _twin_document(twin: TwinFacts, task: Task) -> dict[str, float]:
    """What was taken from the twin."""
    return {
        "step_s": twin.step_s,
        "seconds_per_token": task.seconds_per_token,
        "bytes_per_expert": task.links.bytes_per_expert,
        "intra_bytes_per_s": task.links.intra_bytes_per_s,
        "inter_bytes_per_s": task.links.inter_bytes_per_s,
        "nodes": task.topology.nodes,
        "cards_per_node": task.topology.cards_per_node,
    }


def _history(path: Path, input_format: str, experts: int) -> F64:
    """Loads [T, L, E] of a history, or of a record of SGLang (.pt) or vLLM (npz with its window and map)."""
    if input_format != "record" and path.suffix != ".pt":
        return read_history(path, input_format, experts)
    return widened(read_record(path), experts)


def count_of(loads: F64) -> int:
    """Experts of a layer."""
    return int(loads.shape[2])


def _write_maps(document: dict[str, Any], experts: int, path: Path | None, map_format: str) -> None:
    if map_format not in MAP_FORMATS:
        raise InputError("--map-format", map_format, f"one of {', '.join(MAP_FORMATS)}")
    if path is not None:
        slots = np.array(document["after"]["placement"], dtype=np.int64)
        write_maps(Placement(slots, experts), path, map_format)


def _placement_now(
    shape: tuple[int, int], topology: Topology, path: Path | None, slots: int, replicas: int, groups: int
) -> Placement:
    """The placement given, or neighbouring experts on a card."""
    layers, count = shape
    if slots and replicas and slots != count + replicas:
        raise InputError("--slots", slots, f"experts + --replicas ({count + replicas})", "give one of the two")
    if replicas < 0 or slots < 0:
        raise InputError("--replicas" if replicas < 0 else "--slots", min(replicas, slots), "a whole number >= 0")
    if groups < 1 or count % groups:
        raise InputError("--groups", groups, f"a divisor of the {count} experts")
    wanted = slots or count + replicas
    if path is None:
        own = topology.nodes if hierarchical(topology, groups, count) else 1
        return contiguous(layers, count, topology.cards, wanted, own)
    now = read_placement(path, layers, count, topology.cards)
    if (slots or replicas) and now.slots != wanted:
        raise InputError("--placement", f"{now.slots} slots", f"{wanted} slots", "drop --slots")
    return now


def _topology(nodes: int, cards_per_node: int, devices: int) -> Topology:
    if nodes < 1:
        raise InputError("--nodes", nodes, "a whole number > 0")
    if devices:
        if devices < 1 or devices % nodes:
            up = -(-max(devices, 1) // nodes) * nodes
            raise InputError("--devices", devices, f"a multiple of --nodes ({nodes})", f"use {up} devices")
        if cards_per_node and cards_per_node * nodes != devices:
            raise InputError("--cards-per-node", cards_per_node, f"--devices / --nodes ({devices // nodes})")
        return Topology(nodes=nodes, cards_per_node=devices // nodes)
    if cards_per_node < 1:
        raise InputError("--cards-per-node", cards_per_node, "a whole number > 0", "give it, or --devices")
    return Topology(nodes=nodes, cards_per_node=cards_per_node)


def _bandwidths(profile: HardwareProfile, topology: Topology) -> tuple[float, float]:
    """Bytes/s of a card inside a node and between nodes."""
    inside = [tier for tier in profile.tiers if tier.cards >= topology.cards_per_node]
    across = [tier for tier in profile.tiers if tier.cards >= topology.cards]
    near, far = ((found or profile.tiers[-1:])[0].bandwidth_bytes_per_s for found in (inside, across))
    return near, far


def _task(
    topology: Topology, groups: int, bytes_per_expert: float, hardware: str, intra: float, inter: float, rate_s: float
) -> Task:
    """The prices: what is given, the rest from the hardware profile."""
    if not bytes_per_expert > 0:
        raise InputError(
            "--bytes-per-expert", bytes_per_expert, "a number > 0", "parameters of one expert x 14 with Adam in bf16"
        )
    if hardware:
        profile = load_hardware(hardware)
        inside, across = _bandwidths(profile, topology)
        intra, inter = intra or inside, inter or across
        rate_s = rate_s or _seconds_per_token(profile, bytes_per_expert)
    for name, value in (("--intra-bandwidth", intra), ("--inter-bandwidth", inter), ("--seconds-per-token", rate_s)):
        if not value > 0:
            raise InputError(name, value, "a number > 0", "give it, or --hardware")
    links = Links(bytes_per_expert=bytes_per_expert, intra_bytes_per_s=intra, inter_bytes_per_s=inter)
    return Task(topology=topology, links=links, seconds_per_token=rate_s, groups=groups)


def _seconds_per_token(profile: HardwareProfile, bytes_per_expert: float) -> float:
    """Forward and backward of one token through one expert at the profile's grouped-GEMM rate in bf16."""
    curve = profile.device.grouped_gemm.get("bf16")
    if curve is None:
        raise InputError("--seconds-per-token", 0.0, "given where the profile has no bf16 grouped GEMM", "give it")
    rate = profile.device.peak_flop_per_s["bf16"] * curve.efficiency_max_frac
    return FLOP_PER_PARAMETER * bytes_per_expert / BYTES_PER_PARAMETER / rate


def _traffic(path: Path, plan: Plan, task: Task) -> dict[str, Any]:
    """Nodes a token visits before, after, and after swaps that gather experts chosen together (2% of load allowed)."""
    choices = read_choices(path, plan.before.experts)
    if choices.shape[1] != plan.before.layers:
        raise InputError("--choices", choices.shape, f"{plan.before.layers} layers, as the history")
    gathered = reduce_traffic(plan.after, plan.expected, coactivation(choices, plan.before.experts), task.topology)
    placements = {"before": plan.before, "after": plan.after, "gathered": gathered}
    document: dict[str, Any] = {
        f"{name}_nodes_per_token": [float(v) for v in nodes_per_token(choices, placed, task.topology)]
        for name, placed in placements.items()
    }
    return document | {"gathered_placement": gathered.slot_expert.tolist()}


def _render(document: dict[str, Any], output_format: str) -> str:
    if output_format == "json":
        return json.dumps(document, allow_nan=False)
    text = io.StringIO()
    if output_format == "csv":
        writer = csv.DictWriter(text, MOVE_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(document["plan"]["moves"])
        return text.getvalue()
    console = Console(file=text, width=100)
    console.print(_state_table(document))
    plan = document["plan"]
    console.print(f"{plan['reason']}.")
    if "twin" in document:
        twin = document["twin"]
        console.print(
            f"From the twin: a step of {twin['step_s']:.4g} s, horizon {plan['horizon_steps']} steps, an expert of "
            f"{twin['bytes_per_expert'] / 1e6:.4g} MB, {twin['nodes']} x {twin['cards_per_node']} expert ranks."
        )
    console.print(
        f"{len(plan['moves'])} moves, {plan['moved_bytes'] / 1e9:.3f} GB, {plan['migration_s']:.4g} s "
        f"({plan['migration_intra_s']:.4g} inside nodes, {plan['migration_inter_s']:.4g} between); "
        f"net saving {plan['net_saving_s']:.4g} s."
    )
    if plan["prediction"]:
        console.print(_prediction_line(plan["prediction"]))
    if "traffic" in document:
        console.print(_traffic_line(document["traffic"]))
    if "replay" in document:
        console.print(_replay_table(document["replay"]))
    return text.getvalue()


def _state_table(document: dict[str, Any]) -> Table:
    table = Table(title=f"{document['experts']} experts in {document['slots']} slots on {document['cards']} cards")
    for name in ("layer", "before", "after", "expected before", "after", "over the bound", "nodes after", "repeats"):
        table.add_column(name, justify="right")
    before, after = document["before"], document["after"]
    for layer in range(document["layers"]):
        table.add_row(
            str(layer),
            f"{before['observed_max_over_mean'][layer]:.3f}",
            f"{after['observed_max_over_mean'][layer]:.3f}",
            f"{before['max_over_mean'][layer]:.3f}",
            f"{after['max_over_mean'][layer]:.3f}",
            f"{after['gap_to_bound_frac'][layer]:.2%}",
            f"{after['node_max_over_mean'][layer]:.3f}",
            str(after["duplicate_slots"][layer]),
        )
    keys = ("observed_max_over_mean", "max_over_mean")
    means = [sum(state[key]) / document["layers"] for key in keys for state in (before, after)]
    table.add_row("mean", *(f"{value:.3f}" for value in means), "", "", "")
    table.caption = "max/mean card load: mean of the latest steps as they were, then of the loads expected"
    return table


def _prediction_line(prediction: dict[str, Any]) -> str:
    def mean(name: str) -> str:
        known = [value for value in prediction[name] if value is not None]
        return f"{sum(known) / len(known):.1%}" if known else "unknown"

    return (
        f"Prediction over {prediction['horizon']} steps: error {mean('error_frac')} of the mean load, "
        f"naive persistence {mean('naive_error_frac')}; trust {mean('trust')}."
    )


def _traffic_line(traffic: dict[str, Any]) -> str:
    values = [
        sum(traffic[f"{name}_nodes_per_token"]) / len(traffic["before_nodes_per_token"])
        for name in ("before", "after", "gathered")
    ]
    return f"Nodes a token visits: before {values[0]:.3f}, after {values[1]:.3f}, experts gathered {values[2]:.3f}."


def _replay_table(replayed: dict[str, Any]) -> Table:
    table = Table(title="Replay of the history")
    for name in ("policy", "max/mean", "exposed s", "migration s", "total / static", "moved GB"):
        table.add_column(name, justify="left" if name == "policy" else "right")
    for name, row in replayed.items():
        table.add_row(
            name,
            f"{row['max_over_mean_mean']:.3f}",
            f"{row['exposed_s']:.4g}",
            f"{row['migration_s']:.4g}",
            f"{row['total_over_static']:.3f}",
            f"{row['moved_bytes'] / 1e9:.3f}",
        )
    return table
