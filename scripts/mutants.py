"""Deliberate faults in the price of a step, one by one, against its unit tests: which of them does no test see?

python scripts/mutants.py              applies each fault in a temporary copy and runs the tests; exit code 1 if one survives
python scripts/mutants.py --only 3,7   some of them
python scripts/mutants.py --list       what they are

The accuracy gate does not run: a unit test has to see each of them by itself.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("cost_models", "autodeploy", "hardware_profiles", "tests", "pyproject.toml")
STEP = "cost_models/step/"
UNIT = ("tests/cost_models/step", "tests/replay/test_by_hand.py", "tests/cost_models/test_step_end.py")


@dataclass(frozen=True, slots=True)
class Fault:
    """``old`` stands once in ``file``; ``new`` takes its place."""

    what: str
    file: str
    old: str
    new: str


FAULTS = (
    Fault("last gradient bucket free", STEP + "end.py", "last_bucket * wire_s)", "0.0 * wire_s)"),
    Fault("slack of later ranks dropped", STEP + "times.py", "end.exposed_s - slack", "end.exposed_s"),
    Fault("slack of a V", STEP + "geometry.py", 'one.ahead if one.placement != "v" else 0.0', "one.ahead"),
    Fault("P2P not split by CP", STEP + "stages.py", "workload.seq_length / batch.cp", "workload.seq_length"),
    Fault("P2P not split by TP", STEP + "stages.py", "np.where(split, size / batch.tp, size)", "size"),
    Fault("P2P of one sequence", STEP + "stages.py", "tokens = batch.micro_batch * ", "tokens = "),
    Fault("P2P without a pipeline", STEP + "stages.py", "np.where(batch.pp > 1, seconds, 0.0)", "seconds"),
    Fault("swap without host link", STEP + "swap.py", "np.maximum(costs.forward_s, link_s)", "costs.forward_s"),
    Fault("swap free in the backward", STEP + "swap.py", "np.maximum(costs.backward_s, link_s)", "costs.backward_s"),
    Fault("straggler dropped", STEP + "times.py", "total * straggler_frac(group)", "total * 0.0"),
    Fault(
        "straggler by cards", STEP + "end.py", "group.batch.devices / hardware.cards_per_node", "group.batch.devices"
    ),
    Fault("straggler dropped, replay", "autodeploy/replay/request.py", "* (1.0 + self.straggler_frac)", "* 1.0"),
    Fault(
        "constants dropped, replay", "autodeploy/replay/request.py", "(simulated_s + self.constant_s)", "(simulated_s)"
    ),
    Fault("gather of later ranks, replay", "autodeploy/replay/request.py", "else starts_after", "else 0.0"),
    Fault(
        "lanes under ZeRO-3",
        "autodeploy/replay/groups.py",
        "and not shards_each_use(self.batch, self.case.workload)[0]",
        "",
    ),
    Fault(
        "P2P beside lanes",
        "autodeploy/replay/request.py",
        "p2p_on_lane=group.lanes",
        "p2p_on_lane=False",
    ),
    Fault("ZeRO shards without CP", STEP + "memory.py", "shards = (batch.dp * batch.cp)", "shards = (batch.dp)"),
    Fault("reduction without CP", STEP + "end.py", "(dense, (batch.dp * batch.cp)", "(dense, (batch.dp)"),
    Fault("expert DP without ETP", "cost_models/strategies.py", "self.etp * self.ep * self.pp", "self.ep * self.pp"),
    Fault("offload keeps state on the card", STEP + "memory.py", "(1.0 - batch.offload_frac)[:, None]", "1.0"),
    Fault(
        "overlap costs nothing",
        STEP + "expert_overlap.py",
        "(1.0 - group.case.hardware.overheads.overlap_slowdown_frac)",
        "1.0",
    ),
    Fault("overlap hides at the ends", STEP + "expert_overlap.py", "(chunks - alone) / chunks", "chunks / chunks"),
    Fault(
        "overlap without a pipeline",
        STEP + "expert_overlap.py",
        "np.maximum(group.batch.pp - 1, 1)",
        "group.batch.pp - 1",
    ),
    Fault(
        "overlap of strategies without it",
        STEP + "expert_overlap.py",
        "np.where(group.batch.ep_overlap, ",
        "np.where(True, ",
    ),
    Fault(
        "hides more than is computed",
        STEP + "expert_overlap.py",
        "np.minimum(ep, np.maximum(computing - sends, 0.0))",
        "ep",
    ),
    Fault(
        "sends do not share links",
        STEP + "expert_overlap.py",
        "2.0 * costs.p2p_s[:, None] if",
        "0.0 * costs.p2p_s[:, None] if",
    ),
    Fault(
        "hidden in the backward only",
        STEP + "expert_overlap.py",
        "costs.forward_s - ratio * costs.forward_ep_s",
        "costs.forward_s",
    ),
    Fault(
        "gathers before what is hidden",
        STEP + "effects.py",
        "(hide_expert_communication, *WAITS)",
        "(*WAITS, hide_expert_communication)",
    ),
    Fault("first gather free", STEP + "fully_sharded.py", "slow) + wire.gather_s / layers", "slow)"),
    Fault(
        "last scatter free",
        STEP + "fully_sharded.py",
        "after = wire.scatter_s / layers",
        "after = 0.0 * wire.scatter_s",
    ),
    Fault(
        "no gather in the backward", STEP + "fully_sharded.py", "(batch.zero_stage >= 3).astype(float)[:, None]", "0.0"
    ),
    Fault(
        "stage shorter than its gather",
        STEP + "fully_sharded.py",
        "np.minimum(wire_s, compute_s), wire_s)",
        "np.minimum(wire_s, compute_s), 0.0)",
    ),
    Fault("copies out free", STEP + "fully_sharded.py", "copy_out = total * 2.0", "copy_out = total * 0.0"),
    Fault(
        "FSDP's ZeRO-2 free",
        STEP + "group.py",
        "((batch.zero_stage == 2) & workload.stack.fsdp)",
        "(batch.zero_stage > 9)",
    ),
    Fault("reduction has all links", STEP + "end.py", "load.backward_s - load.busy_link_backward_s", "load.backward_s"),
    Fault("gather has all links", STEP + "end.py", "load.forward_s - load.busy_link_forward_s", "load.forward_s"),
    Fault(
        "gather without sharding",
        STEP + "end.py",
        "np.where(sharded, gather.seconds_per_byte, 0.0)",
        "gather.seconds_per_byte",
    ),
    Fault("ZeRO-3 reduced twice", STEP + "end.py", "np.where(apart, 0.0, reduce_s), np.where(", "reduce_s, np.where("),
    Fault("hierarchical fills the link", STEP + "end.py", "np.where(hierarchical, steps, flat)", "flat"),
    Fault(
        "computing not slowed",
        STEP + "end.py",
        "overlap_slowdown_frac * beside",
        "overlap_slowdown_frac * 0.0 * beside",
    ),
    Fault(
        "overhead of one micro-batch",
        STEP + "end.py",
        "overheads.micro_batch_s * group.micro_batches.astype(float)",
        "overheads.micro_batch_s",
    ),
    Fault(
        "sends are free",
        STEP + "pipeline.py",
        "forward_s=costs.forward_s + sends_s",
        "forward_s=costs.forward_s",
    ),
    Fault("sends paid twice", STEP + "pipeline.py", "p2p_s=np.zeros_like(costs.p2p_s)", "p2p_s=costs.p2p_s"),
    Fault("imbalance ignores EP", "cost_models/imbalance.py", "* spread / reference", ""),
    Fault("imbalance ignores experts", "cost_models/imbalance.py", "* ep / experts)", ")"),
    Fault("gradients never sharded at stage 2", STEP + "memory.py", '"optimizer": held(1,', '"optimizer": held(0,'),
    Fault(
        "expert weights sharded by DP",
        STEP + "memory.py",
        "expert / np.where(sharded, expert_shards, 1.0)",
        "expert / np.where(sharded, shards, 1.0)",
    ),
    Fault(
        "in flight off by a group",
        STEP + "in_flight.py",
        "count - chunk * g, 0.0, g)",
        "count - chunk * g, 0.0, g - 1)",
    ),
    Fault("a V placed as a loop", STEP + "geometry.py", 'if placement == "v":', "if False:"),
    Fault("both ends as one", STEP + "geometry.py", "work=(onto + onto[:, mirror]) / 2.0", "work=onto"),
    Fault(
        "no reserve",
        STEP + "memory.py",
        "overheads.context_bytes + overheads.fragmentation_frac * allocated",
        "overheads.context_bytes",
    ),
    Fault(
        "first layers recomputed are all",
        STEP + "stages.py",
        "np.minimum(group.batch.recompute_layers[some, None] / layers, 1.0)",
        "1.0",
    ),
    Fault(
        "gathers called recompute",
        STEP + "times.py",
        '("ep_comm", "pp_comm", "dp_comm", "swap")',
        '("ep_comm", "pp_comm", "swap")',
    ),
    Fault(
        "mask 0 only where a strategy has it",
        "cost_models/price_book.py",
        "sorted({*ALWAYS, *masks})",
        "sorted({*ALWAYS[1:], *masks})",
    ),
    Fault(
        "overlap replayed with plain", STEP + "group.py", "batch.ep_overlap.astype(np.int64), sharded", "0 * m, sharded"
    ),
)


def survives(fault: Fault, copy: Path) -> bool:
    """Whether the tests pass with the fault in place."""
    path = copy / fault.file
    text = path.read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        sys.exit(f"{fault.what}: {fault.old!r} stands {text.count(fault.old)} times in {fault.file}, not once")
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    try:
        return run_tests(copy) == 0
    finally:
        path.write_text(text, encoding="utf-8")


def run_tests(copy: Path) -> int:
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *UNIT]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False).returncode


def copy_of(folder: Path) -> Path:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "runs")
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="numbers of faults, with commas between")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = range(len(FAULTS)) if options.only is None else [int(part) for part in options.only.split(",")]
    if options.list:
        for number in chosen:
            print(f"{number:2d} {FAULTS[number].what} ({FAULTS[number].file})")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_of(Path(folder))
        if run_tests(copy):
            sys.exit("the tests fail without any fault")
        left = []
        for number in chosen:
            alive = survives(FAULTS[number], copy)
            print(f"{number:2d} {'SURVIVES' if alive else 'seen':8s} {FAULTS[number].what}", flush=True)
            left += [number] if alive else []
    print(f"{len(left)} of {len(chosen)} faults survive" + (f": {','.join(map(str, left))}" if left else ""))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
