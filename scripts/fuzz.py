"""Broken inputs of every kind against the command line: an answer or one line, never a traceback, a hang or a flood.

    python scripts/fuzz.py --seconds 60 --seed 0           # a minute, as CI does
    python scripts/fuzz.py --seconds 3600 --seed 1 --save found/    # an hour, by hand; failing inputs are kept

Each input is a shipped or made-up file of its kind with a few mutations (bytes, values, structure), or a command line with odd
flags. A failure is: an exit code outside {0, 1, 2, 3}, more than one line of error, a NaN or Infinity in JSON on stdout, more
than 10 s, or more than 2 GiB. The seed decides everything: a failure is named by its seed and number.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import re
import resource
import signal
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from autodeploy.accuracy.cases import build_cases
from autodeploy.accuracy.loader import read_runs, shipped_runs
from autodeploy.balance.data.lengths import read_lengths
from autodeploy.balance.experts.loads import read_history
from autodeploy.balance.layers.costs import read_items
from autodeploy.calibrate.read import read_file
from autodeploy.cli.app import main as command
from autodeploy.hardware import load_hardware
from autodeploy.hardware.library import profiles_folder
from autodeploy.models import load_model
from autodeploy.stacks import load_stack
from cost_models.errors import ConfigError

LONGEST_S = 10
LARGEST_BYTES = 2 * 2**30
ALLOWED = (0, 1, 2, 3)
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**62, 2**63, 10**25, -(2**63), 0.5, -0.0, 1e308, -1e308, 1e-308,
    float("inf"), float("nan"),
    "", " ", "3e3", "77.5", "nan", "inf", "auto", "true", "null", "a" * 300, "\u0000", "\ufeff", "é", "1" * 5000,
    "../..", "/dev/zero",
    [], {}, [[]], [None], {"value": None}, {"a": {"a": {"a": 1}}}, [0] * 1000,
)  # fmt: skip
LAUNCH = """torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4
 --seq-length 128 --max-position-embeddings 128 --micro-batch-size 1 --global-batch-size 16 --tensor-model-parallel-size 2
 --bf16 --pipeline-model-parallel-size 2 --vocab-size 1000 --swiglu --recompute-granularity full --recompute-method uniform"""
NON_FINITE = re.compile(r"(?<![\w\"])(NaN|-?Infinity)(?![\w\"])")


@dataclass(frozen=True, slots=True)
class Case:
    """One command line, and what it is about."""

    kind: str
    argv: list[str]


class TooLong(BaseException):
    """Not an Exception: no handler of the program may take it for bad input."""


# ------------------------------------------------------------------------------------------- mutations


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """A few random changes: flips, cuts, repeats, insertions."""
    buffer = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(buffer) + 1)
        choice = rng.randrange(6)
        if choice == 0 and buffer:
            buffer[at % len(buffer)] = rng.randrange(256)
        elif choice == 1:
            buffer = buffer[:at]
        elif choice == 2:
            buffer[at:at] = rng.choice(
                [
                    b"\x00",
                    b"\xff\xfe",
                    b"\n",
                    b"\r\n",
                    b",",
                    b"{",
                    b"}",
                    b"[",
                    b"-",
                    b"9" * 50,
                    b"&a ",
                    b"*a",
                    b"!!python/x ",
                ]
            )
        elif choice == 3 and buffer:
            end = min(at + rng.randint(1, 40), len(buffer))
            buffer[at:at] = buffer[at:end] * rng.randint(1, 3)
        elif choice == 4 and buffer:
            del buffer[at : at + rng.randint(1, 40)]
        else:
            buffer[at:at] = str(rng.choice([-1, 0, 1e999, 10**30, 0.5])).encode()
    return bytes(buffer)


def mutated_value(value: Any, rng: random.Random, depth: int = 0) -> Any:
    """The value with one or a few of its leaves or branches replaced by something odd."""
    if depth > 8 or rng.random() < 0.15 or not isinstance(value, (dict, list)) or not value:
        return rng.choice(ODD)
    if isinstance(value, list):
        at = rng.randrange(len(value))
        return [*value[:at], mutated_value(value[at], rng, depth + 1), *value[at + 1 :]]
    key = rng.choice(list(value))
    changed = dict(value)
    if rng.random() < 0.1:
        del changed[key]
    elif rng.random() < 0.1:
        changed[rng.choice(["num_x", "unknown", "", "layer_types", "é"])] = rng.choice(ODD)
    else:
        changed[key] = mutated_value(value[key], rng, depth + 1)
    return changed


def mutated(value: Any, rng: random.Random) -> Any:
    for _ in range(rng.randint(1, 4)):
        value = mutated_value(value, rng)
    return value


# ------------------------------------------------------------------------------------------- inputs by kind


class Inputs:
    """Seeds of every kind, and a folder for the mutated files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configs = [self._config()]
        self.configs += [json.loads(p.read_text()) for p in sorted(Path("../shared/hf_configs").glob("**/*.json"))]
        zoo = Path(sys.modules["autodeploy.cli.app"].__file__ or "").parents[1] / "models" / "zoo"
        self.zoo = [yaml.safe_load(path.read_text()) for path in sorted(zoo.glob("*.yaml"))[:20]]
        self.stacks = [yaml.safe_load(path.read_text()) for path in sorted((zoo.parents[1] / "stacks").glob("*.yaml"))]
        self.profiles = [path.read_text() for path in sorted(profiles_folder().glob("*.yaml"))]
        self.runs = (shipped_runs() / "simumax_b200.csv").read_text().splitlines()
        self.shapes = (shipped_runs() / "models.yaml").read_text()

    @staticmethod
    def _config() -> dict[str, Any]:
        shape = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128}
        experts = {"num_experts": 4, "num_experts_per_tok": 2, "layer_types": ["full_attention"] * 4}
        return {"model_type": "llama", "vocab_size": 100} | shape | experts

    def write(self, name: str, data: bytes | str) -> str:
        path = self.folder / name
        path.write_bytes(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)
        return str(path)

    def model_json(self, rng: random.Random) -> Case:
        document = rng.choice(self.configs)
        if rng.random() < 0.6:
            text: bytes | str = json.dumps(mutated(document, rng))
        else:
            text = mutated_bytes(json.dumps(document).encode(), rng)
        return Case(
            "config.json", ["models", self.write("config.json", text), "--format", rng.choice(["json", "table"])]
        )

    def model_yaml(self, rng: random.Random) -> Case:
        document = rng.choice(self.zoo)
        if rng.random() < 0.6:
            text: bytes | str = yaml.safe_dump(mutated(document, rng))
        else:
            text = mutated_bytes(yaml.safe_dump(document).encode(), rng)
        return Case("model YAML", ["models", self.write("model.yaml", text), "--format", "json"])

    def megatron(self, rng: random.Random) -> Case:
        words = ["--num-layers", "4", "--hidden-size", "64", "--num-attention-heads", "4", "--vocab-size", "1000", "--swiglu",
                 "--num-experts", "4", "--moe-layer-freq", "([0]*1+[1]*3)", "--kv-channels", "16"]  # fmt: skip
        for _ in range(rng.randint(1, 4)):
            words[rng.randrange(len(words))] = str(rng.choice(ODD))[:6000]
        return Case("Megatron arguments", ["models", self.write("args.sh", " ".join(words)), "--format", "json"])

    def hardware(self, rng: random.Random) -> Case:
        text = rng.choice(self.profiles)
        if rng.random() < 0.5:
            document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            data: bytes | str = yaml.safe_dump(mutated(document, rng))
        else:
            own = "name: own\nextends: h100-sxm\ndevice: {usable_gib: 70}\ntiers: {nvlink: {link_gb_per_s: 300}}\n"
            data = mutated_bytes(own.encode(), rng)
        return Case("hardware YAML", ["hardware", self.write("own.yaml", data), "--format", "json"])

    def priced(self, rng: random.Random) -> Case:
        """A hardware or model file that is in order at first sight goes through the whole price."""
        if rng.random() < 0.5:
            field = rng.choice(
                ["usable_gib", "hbm_bandwidth_gb_per_s", "compute_units", "kernel_launch_us", "memory_bound_frac"]
            )
            value = rng.choice([1e-300, 1e-9, 1e9, 1e17, 1, 0, 0.999, 2**40])
            data = yaml.safe_dump({"name": "own", "extends": "h100-sxm", "device": {field: value}})
            argv = ["estimate", "llama-3.1-8b", "TP2/PP2", "--hardware", self.write("own.yaml", data)]
        else:
            data = json.dumps(mutated(self._config(), rng))
            argv = ["estimate", self.write("config.json", data), "TP1", "--hardware", "h100-sxm"]
        return Case("priced", [*argv, "--devices", "8", "--global-batch", "16", "--format", "json"])

    def runs_csv(self, rng: random.Random) -> Case:
        folder = self.folder / "runs"
        folder.mkdir(exist_ok=True)
        header, rows = self.runs[0], rng.sample(self.runs[1:], 2)
        cells = rows[0].split(",")
        for _ in range(rng.randint(1, 3)):
            cells[rng.randrange(len(cells))] = str(rng.choice(ODD)).replace("\n", " ")
        data = "\n".join([header, ",".join(cells), rows[1]])
        raw = (
            mutated_bytes(data.encode("utf-8", "replace"), rng)
            if rng.random() < 0.2
            else data.encode("utf-8", "replace")
        )
        (folder / "own.csv").write_bytes(raw)
        (folder / "models.yaml").write_text(self.shapes)
        return Case("reference runs", ["accuracy", str(folder), "--format", "json"])

    def measurements(self, rng: random.Random) -> Case:
        tables = ("m,n,k,dtype,time_us\n4096,4096,4096,bf16,200\n8192,4096,4096,bf16,400\n1024,4096,4096,bf16,60\n",
                  "op,ranks,bytes,time_us\nall_reduce,8,1048576,50\nall_reduce,8,16777216,300\n",
                  " iteration 10/ 20 | elapsed time per iteration (ms): 1234.5 | lm loss: 2.0 |\n" * 5)  # fmt: skip
        data = mutated_bytes(rng.choice(tables).encode(), rng)
        out = str(self.folder / "fitted.yaml")
        return Case("measurements", ["calibrate", self.write("m.csv", data), "--base", "h100-sxm", "--output", out])

    def loads(self, rng: random.Random) -> Case:
        values = np.abs(np.random.default_rng(rng.randrange(2**32)).normal(100, 30, (2, 2, 8)))
        choice = rng.randrange(4)
        if choice == 0:
            buffer = io.BytesIO()
            np.savez(buffer, loads=values * rng.choice([1.0, 0.0, -1.0, 1e305, float("nan")]))
            data = buffer.getvalue()
            data = mutated_bytes(data, rng) if rng.random() < 0.7 else data
            path = self.write("loads.npz", data)
        elif choice == 1:
            rows = [
                f"{t},{layer},{e},{values[t, layer, e]:.0f}" for t in range(2) for layer in range(2) for e in range(8)
            ]
            path = self.write("loads.csv", mutated_bytes("\n".join(["step,layer,expert,tokens", *rows]).encode(), rng))
        elif choice == 2:
            rows = [json.dumps(mutated({"step": t, "layer": 0, "loads": list(values[t, 0])}, rng)) for t in range(2)]
            path = self.write("loads.jsonl", "\n".join(rows))
        else:
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w") as archive:
                archive.writestr("loads.npy", b"\x93NUMPY" + rng.randbytes(rng.randrange(64)))
            path = self.write("loads.npz", buffer.getvalue())
        flags = ["--nodes", rng.choice(["1", "2", "0", "-1", "3"]), "--cards-per-node", rng.choice(["2", "4", "0"])]
        return Case("expert loads", ["balance", "experts", path, *flags, "--format", "json"])

    def lengths(self, rng: random.Random) -> Case:
        name = rng.choice(["l.txt", "l.csv", "l.npy", "l.npz", "l.idx"])
        text = "length\n" + "\n".join(str(rng.choice([7, 100, 4096, -1, 0, 1e300, "x"])) for _ in range(8))
        return Case(
            "lengths", ["balance", "data", self.write(name, mutated_bytes(text.encode(), rng)), "--format", "json"]
        )

    def costs(self, rng: random.Random) -> Case:
        items = [
            {
                "kind": "dense",
                "count": 4,
                "forward_s": 0.01,
                "backward_s": 0.02,
                "static_bytes": 1e9,
                "activation_bytes": 1e8,
            }
        ]
        data = json.dumps(mutated({"items": items}, rng))
        return Case("layer costs", ["balance", "layers", "--costs", self.write("costs.json", data), "--pp", "2"])

    def stack(self, rng: random.Random) -> Case:
        document = rng.choice(self.stacks)
        data: bytes | str = yaml.safe_dump(mutated(document, rng))
        if rng.random() < 0.3:
            data = mutated_bytes(yaml.safe_dump(document).encode(), rng)
        return Case("stack", ["stacks", self.write("stack.yaml", data), "--format", "json"])

    def launch(self, rng: random.Random) -> Case:
        """A Megatron launch script, or a torchtitan job config, with wrong words or bytes."""
        if rng.random() < 0.5:
            words = LAUNCH.split()
            for _ in range(rng.randint(1, 4)):
                words[rng.randrange(len(words))] = str(rng.choice(ODD))[:6000]
            text: bytes | str = "#!/bin/bash\n" + " ".join(words)
            name = "run.sh"
        else:
            table = '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nseq_len = 128\nlocal_batch_size = 1\n[parallelism]\n'
            text, name = mutated_bytes((table + "tensor_parallel_degree = 2\n").encode(), rng), "job.toml"
        flags = ["--hardware", "h100-sxm", "--devices", "8", "--format", "json"]
        return Case("launch file", ["estimate", self.write(name, text), *flags])

    def flags(self, rng: random.Random) -> Case:
        number = rng.choice(
            ["-1", "0", "1", "9" * 25, "1e3", "nan", "inf", "", "x", "1..1000000000", "1,1,1", "8", str(2**62), "0.5"]
        )
        flag = rng.choice(["--seed", "--devices", "--global-batch", "--seq-length", "--memory-cap", "--imbalance", "--tp", "--pp",
                           "--micro-batch", "--tokens", "--top", "--price-per-device-hour", "--zero", "--precision"])  # fmt: skip
        strategy = rng.choice(["TP2", "TP2/PP2", "TP0", "", "TP9" * 30, "TP2/TP2", "ZeRO9", "TP-1", "MBS" + "9" * 30])
        usual = {"--devices": "8", "--global-batch": "16"}
        argv = ["estimate", "llama-3.1-8b", strategy, "--hardware", "h100-sxm"]
        usual[flag] = number
        return Case("flags", argv + [word for pair in usual.items() for word in pair])


Kind = Callable[[Inputs, random.Random], Case]
KINDS: tuple[Kind, ...] = (
    Inputs.model_json, Inputs.model_yaml, Inputs.megatron, Inputs.hardware, Inputs.priced, Inputs.runs_csv, Inputs.measurements,
    Inputs.loads, Inputs.lengths, Inputs.costs, Inputs.stack, Inputs.launch,
    Inputs.flags,
)  # fmt: skip

# ------------------------------------------------------------------------------------------- one input


def run(case: Case, readers: bool) -> tuple[str, str]:
    """("", last line) if all is well, else (what is wrong, evidence)."""
    argv, out, err = case.argv, io.StringIO(), io.StringIO()

    def stop(number: int, frame: object) -> None:
        raise TooLong

    signal.signal(signal.SIGPROF, stop)  # CPU seconds: a busy machine is not a hang
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    signal.alarm(12 * LONGEST_S)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = library(argv, case) if readers else command(argv)
    except TooLong:
        return "hang", f"over {LONGEST_S} s"
    except BaseException as error:  # noqa: BLE001  whatever reaches a user is what is looked for
        return "traceback", f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    errors = [line for line in err.getvalue().splitlines() if line.startswith("autodeploy: error")]
    last = errors[-1] if errors else ""
    if code not in ALLOWED:
        return f"exit {code}", last[:300]
    if code == 2 and len(errors) != 1:
        return f"{len(errors)} lines of error", err.getvalue()[:300]
    if "Traceback" in err.getvalue():
        return "traceback", err.getvalue()[-300:]
    if "json" in argv and NON_FINITE.search(out.getvalue()):
        return "not finite", NON_FINITE.search(out.getvalue()).group()  # type: ignore[union-attr]
    return "", last


def read_only(case: Case) -> None:
    """The library's reader of the file alone: ten times as many inputs a second."""
    path = Path(next(word for word in case.argv[1:] if word.startswith("/")))
    if case.kind in ("config.json", "model YAML", "Megatron arguments"):
        load_model(str(path)).parameters()
    elif case.kind == "hardware YAML":
        load_hardware(path)
    elif case.kind == "reference runs":
        build_cases(read_runs(path))
    elif case.kind == "measurements":
        read_file(path)
    elif case.kind == "expert loads":
        read_history(path)
    elif case.kind == "lengths":
        read_lengths(path)
    elif case.kind == "layer costs":
        read_items(path)
    elif case.kind == "stack":
        load_stack(str(path))


def library(argv: list[str], case: Case) -> int:
    """Exit code and one line on standard error, as the command line has them."""
    try:
        read_only(case)
    except ConfigError as error:
        print("autodeploy: error: " + " ".join(str(error).split()), file=sys.stderr)
        return 2
    return 0


def fuzz(options: argparse.Namespace, kinds: Sequence[Kind]) -> int:
    """Runs ``count`` inputs of a seed, or as many as ``seconds`` allow; prints a summary; returns the number of failures."""
    resource.setrlimit(
        resource.RLIMIT_AS, (2 * LARGEST_BYTES, 2 * LARGEST_BYTES)
    )  # address space, twice what may be used
    begun, done, failures = time.monotonic(), Counter[str](), Counter[tuple[str, str]]()
    slowest = (0.0, "")
    with tempfile.TemporaryDirectory() as folder:
        inputs = Inputs(Path(folder))
        for number in range(options.first, options.first + options.count):
            if time.monotonic() - begun >= options.seconds:
                break
            rng = random.Random(f"{options.seed}/{number}")
            case = rng.choice(kinds)(inputs, rng)
            started = time.process_time()
            wrong, evidence = run(case, options.readers)
            slowest = max(slowest, (time.process_time() - started, f"{options.seed}/{number} {case.kind}"))
            done[case.kind] += 1
            if wrong:
                failures[(case.kind, re.sub(r"[0-9'\"/].*", "", evidence)[:90])] += 1
                print(f"FAIL {options.seed}/{number} {case.kind}: {wrong}: {evidence}", file=sys.stderr)
                if options.save is not None:
                    _keep(options.save, f"{options.seed}-{number}", case)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"{sum(done.values())} inputs in {time.monotonic() - begun:.0f} s, seed {options.seed}: {sum(failures.values())} failures"
    )
    print(f"slowest {slowest[0]:.1f} CPU s ({slowest[1]}), peak memory {peak / 2**20:.0f} MiB")
    print("  ".join(f"{kind} {number}" for kind, number in sorted(done.items())))
    if peak > LARGEST_BYTES:
        print("FAIL: more than 2 GiB", file=sys.stderr)
        return sum(failures.values()) + 1
    return sum(failures.values())


def _keep(folder: Path, name: str, case: Case) -> None:
    """The command line and the files that it names."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "argv.json").write_text(json.dumps(case.argv))
    for word in case.argv:
        path = Path(word[:200])
        for file in path.glob("*") if path.is_dir() else [path]:
            if file.is_file() and path.parent.name.startswith("tmp"):
                (place / file.name).write_bytes(file.read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--count", type=int, default=10**9, help="stop after so many inputs")
    parser.add_argument(
        "--kinds", default="", help=f"some of {', '.join(kind.__name__ for kind in KINDS)}; all if left out"
    )
    parser.add_argument("--readers", action="store_true", help="call the library's readers, not the command line")
    parser.add_argument("--save", type=Path, default=None, help="keep failing inputs in this folder")
    options = parser.parse_args()
    kinds = [kind for kind in KINDS if not options.kinds or kind.__name__ in options.kinds.split(",")]
    if options.readers:  # what is no file alone, or is read by the whole price
        kinds = [kind for kind in kinds if kind.__name__ not in ("flags", "priced", "launch")]
    sys.exit(1 if fuzz(options, kinds) else 0)


if __name__ == "__main__":
    main()
