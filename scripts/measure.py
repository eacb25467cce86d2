"""Takes the measurements that ``autodeploy calibrate`` reads, on one node, in about ten minutes. Needs torch.

    python scripts/measure.py --hidden 8192 --ffn 28672 --heads 64 --head-dim 128 --output measured/
    torchrun --nproc-per-node 8 scripts/measure.py --hidden 8192 ... --output measured/      collectives too
    autodeploy calibrate measured/*.csv --base h100-sxm --name my-node --output my-node.yaml

Works on CUDA, ROCm (torch's cuda), Ascend (torch_npu) and, small and slow, on CPU. Every figure is a median over calls made
back to back for ``--seconds`` after as long a warm-up: clocks under sustained power are what training sees. Writes
gemm.csv, grouped_gemm.csv (with --experts), attention.csv, memory_bound.csv and, under torchrun, collectives.csv; prints
what it wrote. memory_bound.csv is for the reader: calibrate takes the card's bandwidth from its datasheet.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GEMM_COLUMNS = ("dtype", "layout", "m", "n", "k", "latency_us")
GROUPED_COLUMNS = ("dtype", "layout", "groups", "m", "n", "k", "latency_us")
ATTENTION_COLUMNS = ("kernel_source", "direction", "head_dim", "batch_size", "isl", "num_heads", "latency_us")
COLLECTIVE_COLUMNS = ("op", "dtype", "ngpu", "bytes", "time_us")
MEMORY_COLUMNS = ("operation", "bytes", "latency_us", "gb_per_s")
LEAST_BYTES, LARGEST_BYTES = 1 << 20, 1 << 28


@dataclass(frozen=True)
class Shapes:
    """What of the model is measured. ``tokens``: of a micro-batch on a card."""

    hidden: int
    ffn: int
    heads: int
    head_dim: int
    sequence: int
    tokens: tuple[int, ...]
    experts: int = 0
    expert_ffn: int = 0


def gemm_shapes(shapes: Shapes) -> list[tuple[str, int, int, int]]:
    """(layout, m, n, k) of the projections and the feed-forward: forward, and the two gradients."""
    found = []
    for tokens in shapes.tokens:
        for n, k in ((3 * shapes.hidden, shapes.hidden), (shapes.hidden, shapes.hidden), (2 * shapes.ffn, shapes.hidden),
                     (shapes.hidden, shapes.ffn)):  # fmt: skip
            found += [("forward", tokens, n, k), ("dgrad", tokens, k, n), ("wgrad", n, k, tokens)]
    return list(dict.fromkeys(found))


def grouped_shapes(shapes: Shapes) -> list[tuple[int, int, int, int]]:
    """(groups, m, n, k): equal loads of the experts of a card."""
    if not shapes.experts:
        return []
    sizes = [(2 * shapes.expert_ffn, shapes.hidden), (shapes.hidden, shapes.expert_ffn)]
    rows = [max(tokens // shapes.experts, 1) for tokens in shapes.tokens]
    return [(shapes.experts, m, n, k) for m in rows for n, k in sizes]


def message_bytes() -> Iterator[int]:
    size = LEAST_BYTES
    while size <= LARGEST_BYTES:
        yield size
        size *= 4


class Bench:
    """Times calls on the device that torch finds."""

    def __init__(self, torch: Any, seconds: float) -> None:
        self.torch, self.seconds = torch, seconds
        self.kind = (
            "npu"
            if hasattr(torch, "npu") and torch.npu.is_available()
            else "cuda"
            if torch.cuda.is_available()
            else "cpu"
        )
        self.device = (
            torch.device(self.kind, int(os.environ.get("LOCAL_RANK", "0")))
            if self.kind != "cpu"
            else torch.device("cpu")
        )
        self.dtype = torch.bfloat16

    def wait(self) -> None:
        if self.kind != "cpu":
            getattr(self.torch, self.kind).synchronize()

    def random(self, *shape: int) -> Any:
        return self.torch.randn(*shape, device=self.device, dtype=self.dtype)

    def median_us(self, call: Callable[[], Any]) -> float:
        """Median of a call, once the device has been busy with it for ``seconds``."""
        batch = 1
        for warm in (True, False):
            samples, began = [], time.perf_counter()
            while not samples or time.perf_counter() - began < self.seconds:
                start = time.perf_counter()
                for _ in range(batch):
                    call()
                self.wait()
                took = time.perf_counter() - start
                samples.append(took / batch)
                if warm and took < 2e-3:  # launches and waits must not be what is measured
                    batch *= 2
        return statistics.median(samples) * 1e6


def measure_gemm(bench: Bench, shapes: Shapes) -> Iterator[tuple[Any, ...]]:
    for layout, m, n, k in gemm_shapes(shapes):
        a, b = bench.random(m, k), bench.random(k, n)
        yield "bf16", layout, m, n, k, bench.median_us(lambda a=a, b=b: a @ b)


def measure_grouped(bench: Bench, shapes: Shapes) -> Iterator[tuple[Any, ...]]:
    for groups, m, n, k in grouped_shapes(shapes):
        a, b = bench.random(groups, m, k), bench.random(groups, k, n)
        yield "bf16", "forward", groups, m, n, k, bench.median_us(lambda a=a, b=b: bench.torch.bmm(a, b))


def measure_attention(bench: Bench, shapes: Shapes) -> Iterator[tuple[Any, ...]]:
    kernel = {"npu": "npu_flash", "cuda": "flash2", "cpu": "flash2"}[
        bench.kind
    ]  # what torch's own attention dispatches to
    attend = bench.torch.nn.functional.scaled_dot_product_attention
    for sequence in sorted({max(shapes.sequence // 4, 1), max(shapes.sequence // 2, 1), shapes.sequence}):
        size = (1, shapes.heads, sequence, shapes.head_dim)
        q, k, v = (bench.random(*size).requires_grad_() for _ in range(3))
        forward = bench.median_us(lambda q=q, k=k, v=v: attend(q, k, v, is_causal=True))
        out = attend(q, k, v, is_causal=True)
        grad = bench.torch.ones_like(out)
        backward = bench.median_us(
            lambda o=out, g=grad, i=(q, k, v): bench.torch.autograd.grad(o, i, g, retain_graph=True)
        )
        for direction, latency in (("forward", forward), ("backward", backward)):
            yield kernel, direction, shapes.head_dim, 1, sequence, shapes.heads, latency


def measure_memory(bench: Bench, shapes: Shapes) -> Iterator[tuple[Any, ...]]:
    for tokens in shapes.tokens:
        x, y = bench.random(tokens, shapes.ffn), bench.random(tokens, shapes.ffn)
        moved = 3 * x.numel() * x.element_size()
        latency = bench.median_us(lambda x=x, y=y: bench.torch.add(x, y))
        yield "add", moved, latency, moved / latency / 1e3


def measure_collectives(bench: Bench, world: int) -> Iterator[tuple[Any, ...]]:
    """Over groups of 2, 4, ... all ranks of the node; times are the slowest rank's."""
    import torch.distributed as dist

    rank, ranks = dist.get_rank(), 2
    while ranks <= world:
        group = dist.new_group(list(range(ranks)))
        for size in message_bytes():
            for op in ("all_reduce", "all_gather", "reduce_scatter", "alltoall"):
                if rank < ranks:
                    latency = _collective_us(bench, dist, op, size, ranks, group)
                    if rank == 0:
                        yield op, "half", ranks, size, latency
        dist.barrier()
        ranks *= 2


def _collective_us(bench: Bench, dist: Any, op: str, size: int, ranks: int, group: Any) -> float:
    """``size`` is the whole message, as nccl-tests counts it."""
    whole = bench.random(size // 2 // ranks * ranks)
    part = whole.chunk(ranks)[0].clone()
    calls = {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "alltoall": lambda: dist.all_to_all_single(bench.torch.empty_like(whole), whole, group=group),
    }
    for _ in range(5):
        calls[op]()
    bench.wait()
    samples = []
    for _ in range(20):  # the same number on every rank
        start = time.perf_counter()
        calls[op]()
        bench.wait()
        samples.append(time.perf_counter() - start)
    slowest = bench.torch.tensor([statistics.median(samples)], device=bench.device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX, group=group)
    return float(slowest) * 1e6


def write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """A CSV file; returns its rows."""
    count = 0
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        for row in rows:
            writer.writerow([f"{value:.3f}" if isinstance(value, float) else value for value in row])
            count += 1
    return count


def measure(bench: Any, shapes: Shapes, folder: Path) -> list[str]:
    """Every table but the collectives; the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    tables: list[tuple[str, tuple[str, ...], Iterable[Sequence[Any]]]] = [
        ("gemm.csv", GEMM_COLUMNS, measure_gemm(bench, shapes)),
        ("attention.csv", ATTENTION_COLUMNS, measure_attention(bench, shapes)),
        ("memory_bound.csv", MEMORY_COLUMNS, measure_memory(bench, shapes)),
    ]
    if shapes.experts:
        tables.append(("grouped_gemm.csv", GROUPED_COLUMNS, measure_grouped(bench, shapes)))
    return [f"{folder / name}: {write(folder / name, columns, rows)} rows" for name, columns, rows in tables]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("hidden", 4096), ("ffn", 14336), ("heads", 32), ("head-dim", 128), ("sequence", 4096)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--experts", type=int, default=0, help="experts of one card")
    parser.add_argument("--expert-ffn", type=int, default=0)
    parser.add_argument("--tokens", default="1024,4096,8192", help="rows of the GEMMs, with commas")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each figure, after as long a warm-up")
    parser.add_argument("--output", type=Path, default=Path("measured"))
    return parser.parse_args()


def main() -> None:
    given = _arguments()
    try:
        import torch
    except ImportError:
        raise SystemExit("measure.py needs torch: install the one that your training program uses") from None
    with contextlib.suppress(ImportError):
        import torch_npu  # noqa: F401
    bench = Bench(torch, given.seconds)
    shapes = Shapes(
        given.hidden, given.ffn, given.heads, given.head_dim, given.sequence,
        tuple(int(part) for part in given.tokens.split(",")), given.experts, given.expert_ffn or given.ffn,
    )  # fmt: skip
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        import torch.distributed as dist

        if bench.kind != "cpu":
            getattr(torch, bench.kind).set_device(bench.device)
        dist.init_process_group({"cuda": "nccl", "npu": "hccl", "cpu": "gloo"}[bench.kind])
    if int(os.environ.get("RANK", "0")) == 0:
        print("\n".join(measure(bench, shapes, given.output)), flush=True)
    if world > 1:
        dist.barrier()
        rows = list(measure_collectives(bench, world))
        if dist.get_rank() == 0:
            path = given.output / "collectives.csv"
            print(f"{path}: {write(path, COLLECTIVE_COLUMNS, rows)} rows", flush=True)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
