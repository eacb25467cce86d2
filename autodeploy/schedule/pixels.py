"""Slices of one lane as bars of a picture: what is wide stands alone, what is narrow is merged column by column.

A column is one pixel. Its narrow slices become one piece as wide as the time in which the lane is busy there, so that busy
time is kept (within a tenth of a pixel a lane), and there are never more pieces than pixels however many events there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor

from autodeploy.schedule.timeline import Slice

WIDE_PX = 6.0  # from here on a bar has its own rectangle and says what it is
GRAIN = 10  # pieces are whole tenths of a pixel wide
TOUCH_PX = 1e-6


@dataclass(frozen=True, slots=True)
class Scale:
    """Seconds of a window to pixels."""

    start_s: float
    end_s: float
    left_px: float
    width_px: float

    def x(self, at_s: float) -> float:
        inside = min(self.end_s, max(self.start_s, at_s))
        return self.left_px + (inside - self.start_s) / (self.end_s - self.start_s) * self.width_px


@dataclass(frozen=True, slots=True)
class Bar:
    """One slice, or touching narrow slices of the same operation and look; `last` ends it."""

    left: float
    right: float
    look: int
    first: Slice
    last: Slice

    @property
    def width(self) -> float:
        return self.right - self.left


@dataclass(frozen=True, slots=True)
class Piece:
    """The merged slices of one column, or of several full ones with the same look."""

    left: float
    width: float
    look: int


def bars_of(lane: Iterable[Slice], scale: Scale, looks: Sequence[int]) -> list[Bar]:
    """Of the slices of one lane by start; `looks[i]` is the colour index of slice i. Overlaps are drawn once."""
    bars: list[Bar] = []
    edge = float("-inf")
    for piece, look in zip(lane, looks, strict=True):
        left, right = max(edge, scale.x(piece.start_s)), scale.x(piece.end_s)
        if right <= left:
            continue
        edge = right
        before = bars[-1] if bars else None
        if before and _continues(before, left, right, look, piece):
            bars[-1] = Bar(before.left, right, look, before.first, piece)
        else:
            bars.append(Bar(left, right, look, piece, piece))
    return bars


def _continues(before: Bar, left: float, right: float, look: int, piece: Slice) -> bool:
    """The same operation goes on without a gap, and one of the two is too narrow to stand alone."""
    alike = before.look == look and before.first.operation == piece.operation
    return alike and left - before.right < TOUCH_PX and min(before.width, right - left) < WIDE_PX


def pieces_of(bars: Iterable[Bar]) -> list[Piece]:
    """Narrow bars, merged. Looks take turns by the time they are owed, so that each shows as much as it lasts."""
    columns: dict[int, tuple[float, dict[int, float]]] = {}
    for bar in bars:
        for column in range(floor(bar.left), floor(bar.right) + 1):
            busy = min(bar.right, column + 1) - max(bar.left, column)
            if busy > 0:
                at, shares = columns.setdefault(column, (max(bar.left, column), {}))
                shares[bar.look] = shares.get(bar.look, 0.0) + busy
    pieces: list[Piece] = []
    owed: dict[int, float] = {}
    carry = 0.0
    for column in sorted(columns):
        left, shares = columns[column]
        for look, busy in shares.items():
            owed[look] = owed.get(look, 0.0) + busy
        carry += sum(shares.values())
        width = floor(carry * GRAIN + 1e-6) / GRAIN
        carry -= width
        if width:
            look = max(owed, key=lambda key: owed[key])
            owed[look] -= width
            _append(pieces, Piece(left, width, look))
    return pieces


def _append(pieces: list[Piece], new: Piece) -> None:
    before = pieces[-1] if pieces else None
    if before and before.look == new.look and abs(new.left - before.left - before.width) < 1 / GRAIN:
        pieces[-1] = Piece(before.left, before.width + new.width, new.look)
    else:
        pieces.append(new)


def ticks(start_s: float, end_s: float, most: int = 12) -> list[float]:
    """Round times (1, 2 or 5 times a power of ten apart) within the window, at most `most`."""
    step = 1e-9
    while (end_s - start_s) / step > most - 1:
        step *= 2.5 if f"{step:e}"[0] == "2" else 2
    first = -floor(-start_s / step)
    return [k * step for k in range(first, floor(end_s / step + 1e-9) + 1)]
