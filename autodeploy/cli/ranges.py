"""Numbers of cards on the command line: ``64``, ``64,128``, ``512..6144``."""

from __future__ import annotations

from autodeploy.errors import InputError

MOST_COUNTS = 4096  # numbers of cards in one search
MOST_CARDS = 10_000_000


def card_counts(text: str, cards_per_node: int) -> tuple[int, ...]:
    """Numbers of cards. A range steps by node."""
    found: set[int] = set()
    for part in text.split(","):
        low, dots, high = part.strip().partition("..")
        if not dots:
            found.add(_whole("--devices", text, low))
            continue
        first, last = _whole("--devices", text, low), _whole("--devices", text, high)
        if last < first:
            raise InputError("--devices", text, "a number of cards, a list or a range LOW..HIGH with LOW <= HIGH")
        steps = (last - first) // cards_per_node
        if steps >= MOST_COUNTS:
            raise InputError(
                "--devices", text, f"a range of at most {MOST_COUNTS} numbers", f"it steps by {cards_per_node}"
            )
        found.update(range(first, last + 1, cards_per_node))
    return tuple(sorted(found))


def _whole(option: str, text: str, number: str) -> int:
    number = number.strip()
    if not (
        number.isascii() and number.isdigit() and len(number) <= len(str(MOST_CARDS)) and 1 <= int(number) <= MOST_CARDS
    ):
        allowed = f"whole numbers from 1 to {MOST_CARDS}: one (8), a list (1,2,4) or a range (1..8)"
        raise InputError(option, text[:80], allowed)
    return int(number)
