"""The timeline of a small case as Rich text: one row a rank, one column a slice of time."""

from __future__ import annotations

from rich.text import Text

from autodeploy.schedule.request import SimulationResult
from autodeploy.schedule.timeline import events_of, in_window, slices

GLYPHS = ("0123456789", "abcdefghij", "abcdefghij", "ABCDEFGHIJ")  # F, B, I, W: told apart without colour too
STYLES = ("white on blue", "black on dark_orange", "black on dark_orange", "black on green")


def terminal_timeline(
    result: SimulationResult, scenario: int = 0, columns: int = 100, window_s: tuple[float, float] | None = None
) -> Text:
    """What the compute lane does in the middle of each column: the micro-batch (last digit), as digit F, letter B, capital W."""
    start, end = window_s or (0.0, float(result.pipeline_s[scenario]))
    ranks = events_of(result).schedule.pp
    cells = [[(" ", "")] * columns for _ in range(ranks)]
    width = (end - start) / columns
    for piece in in_window(slices(result, scenario), start, end):
        if piece.lane:
            continue
        first = max(0, int((piece.start_s - start) / width + 0.5))
        for column in range(first, min(columns, int((piece.end_s - start) / width + 0.5))):
            cells[piece.rank][column] = (GLYPHS[piece.kind][piece.micro_batch % 10], STYLES[piece.kind])
    text = Text(f"{start * 1e3:.2f} to {end * 1e3:.2f} ms; blue F (digits), orange B (a-j for 0-9), green W (A-J)\n")
    for rank, row in enumerate(cells):
        text.append(f"rank {rank:>3} ")
        for character, style in row:
            text.append(character, style=style)
        text.append("\n")
    return text
