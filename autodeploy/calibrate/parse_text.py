"""What nccl-tests, rccl-tests and hccl_test print, recognised by content.

What the print leaves open may stand in a comment line (``# op: all_gather``, ``# ranks: 16``, ``# nodes: 2``) or in the
file name (``all_gather``).
"""

from __future__ import annotations

import re

import numpy as np

from autodeploy.calibrate.measurements import CollectiveTable
from autodeploy.calibrate.parse_tables import COLLECTIVES
from autodeploy.errors import InputError

NCCL_HEADER = re.compile(r"^#\s+size\s+count\s+type", re.MULTILINE)
HCCL_HEADER = re.compile(r"data_size\s*\(Bytes\).*alg_bandwidth", re.IGNORECASE)

_RANK_LINE = re.compile(r"^#\s+Rank\s+(\d+)\s.*?\bon\s+(\S+)", re.MULTILINE)
_HCCL_ROW = re.compile(r"^\s*(\d+)\s*\|\s*([\d.]+)\s*\|\s*([\d.]+)", re.MULTILINE)
_RANKS = re.compile(r"^#.*?(?:\branks\s*[:=]\s*(\d+)|(?<![\d.])(\d+) ranks\b)", re.MULTILINE | re.IGNORECASE)
_NODES = re.compile(r"^#.*?(?:\bnodes\s*[:=]\s*(\d+)|= (\d+) nodes\b)", re.MULTILINE | re.IGNORECASE)
_MPI_RANKS = re.compile(r"mpirun\b.*?\s-n(?:p)?\s+(\d+)")


def is_nccl_text(text: str) -> bool:
    """nccl-tests or rccl-tests."""
    return bool(NCCL_HEADER.search(text))


def is_hccl_text(text: str) -> bool:
    return bool(HCCL_HEADER.search(text))


def parse_nccl_text(text: str, source: str) -> CollectiveTable:
    """The out-of-place columns of nccl-tests or rccl-tests."""
    rows = [_nccl_row(line) for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    rows = [row for row in rows if row is not None]
    if not rows:
        raise InputError(source, "no result rows", "the whole print of nccl-tests, from its header to its last row")
    message, seconds, ratio, redop = zip(*rows, strict=True)
    bus_over_alg = float(ratio[int(np.argmax(message))])
    op = _op(text, source) or _op_of_columns(redop[0], bus_over_alg, source)
    ranks = _ranks(text) or _ranks_of_ratio(op, bus_over_alg)
    return _table(op, ranks, _nodes(text, source), np.array(message), np.array(seconds), source)


def parse_hccl_text(text: str, source: str) -> CollectiveTable:
    """hccl_test: data_size | aveg_time | alg_bandwidth | check_result."""
    rows = [(float(size), float(time) * 1e-6) for size, time, _ in _HCCL_ROW.findall(text)]
    rows = [row for row in rows if row[0] > 0 and row[1] > 0]
    if not rows:
        raise InputError(source, "no result rows", "the whole print of hccl_test, from its header to its last row")
    op, ranks = _op(text, source), _ranks(text)
    if op is None:
        raise InputError(f"{source}: op", None, _op_choice(), "name it in a first line `# op: all_gather`")
    if ranks is None:
        raise InputError(f"{source}: ranks", None, "a whole number >= 2", "name it in a first line `# ranks: 8`")
    message, seconds = (np.array(column) for column in zip(*rows, strict=True))
    return _table(op, ranks, _nodes(text, source), message, seconds, source)


def _nccl_row(line: str) -> tuple[float, float, float, str] | None:
    """(bytes, seconds, busbw / algbw, redop) of the out-of-place run; None for a line that is no row.

    The last eight fields are time, algbw, busbw and #wrong, out of place and in place.
    """
    parts = line.split()
    if len(parts) < 11 or not parts[0].isdigit() or not parts[1].isdigit():
        return None
    try:
        microseconds, algorithm, bus = (float(part) for part in parts[-8:-5])
    except ValueError:
        return None
    if int(parts[0]) <= 0 or microseconds <= 0:
        return None
    return float(parts[0]), microseconds * 1e-6, bus / algorithm if algorithm > 0 else 0.0, parts[3]


def _op(text: str, source: str) -> str | None:
    """The operation a comment or the program's name states, in the text first, then in the file name."""
    stated = re.search(r"^#\s*op\s*[:=]\s*(\w+)", text, re.M | re.I)
    if stated:
        if stated.group(1).lower() not in COLLECTIVES:
            raise InputError(f"{source}: op", stated.group(1), _op_choice())
        return COLLECTIVES[stated.group(1).lower()]
    for place in (text.lower(), source.lower()):
        found = re.search(
            r"(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|sendrecv)v?_?(?:perf|test|bench)?", place
        )
        if found:
            return COLLECTIVES[found.group(1) if found.group(1) in COLLECTIVES else found.group(1).replace("_", "")]
    return None


def _op_of_columns(redop: str, bus_over_alg: float, source: str) -> str:
    if redop not in ("none", "-1"):
        return "all_reduce" if bus_over_alg >= 1 else "reduce_scatter"
    remedy = "all_gather and alltoall print alike: add a first line `# op: all_gather`"
    raise InputError(f"{source}: op", None, _op_choice(), remedy)


def _op_choice() -> str:
    return f"one of {', '.join(sorted(set(COLLECTIVES.values())))}"


def _ranks(text: str) -> int | None:
    listed = _RANK_LINE.findall(text)
    if listed:
        return len({rank for rank, _ in listed})
    found = _RANKS.search(text) or _MPI_RANKS.search(text)
    return next(int(group) for group in found.groups() if group) if found else None


def _ranks_of_ratio(op: str, bus_over_alg: float) -> int:
    """busbw / algbw is 2(n-1)/n or (n-1)/n: solved for n."""
    share = bus_over_alg / (2.0 if op == "all_reduce" else 1.0)
    return max(2, round(1 / max(1 - share, 1e-4)))


def _nodes(text: str, source: str) -> int:
    """Hosts of the rank lines, else what a comment or the file name (``2x8``) says, else one."""
    hosts = {host for _, host in _RANK_LINE.findall(text)}
    if hosts:
        return len(hosts)
    stated = _NODES.search(text)
    if stated:
        return next(int(group) for group in stated.groups() if group)
    named = re.search(r"(?<!\d)(\d+)x\d+(?!\d)", source)
    return int(named.group(1)) if named else 1


def _table(op: str, ranks: int, nodes: int, message: np.ndarray, seconds: np.ndarray, source: str) -> CollectiveTable:
    if ranks < 2 or ranks % nodes:
        raise InputError(f"{source}: ranks", ranks, f"a whole number >= 2, a multiple of the nodes ({nodes})")
    return CollectiveTable(
        op=op,
        ranks=np.full(message.shape, float(ranks)),
        nodes=nodes,
        message_bytes=message.astype(float),
        seconds=seconds.astype(float),
        source=source,
    )
