"""Values on the command line: ``4``, ``1,2,4``, ``1..8``, and card counts that step by node."""

from __future__ import annotations

from autodeploy.errors import InputError

LONGEST = 100_000


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """``1,2,4`` or ``1..8`` (every whole number in between: rules keep those that divide), or a mixture, sorted."""
    found: set[int] = set()
    for part in text.split(","):
        low, dots, high = part.strip().partition("..")
        first = _whole(option, text, low)
        last = _whole(option, text, high) if dots else first
        if last < first or last - first > LONGEST:
            raise InputError(option, text, "a number, a list such as 1,2,4 or a range LOW..HIGH with LOW <= HIGH")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def card_counts(text: str, cards_per_node: int) -> tuple[int, ...]:
    """Numbers of cards. A range steps by node and by its low end where that is less than a node."""
    found: set[int] = set()
    for part in text.split(","):
        low, dots, high = part.strip().partition("..")
        if not dots:
            found.add(_whole("--devices", text, low))
            continue
        first, last = _whole("--devices", text, low), _whole("--devices", text, high)
        if last < first:
            raise InputError("--devices", text, "a number of cards, a list or a range LOW..HIGH with LOW <= HIGH")
        found.update(range(first, last + 1, cards_per_node))
    return tuple(sorted(found))


def words(option: str, text: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Comma-separated names, each of ``allowed``."""
    found = tuple(dict.fromkeys(part.strip().lower() for part in text.split(",")))
    for word in found:
        if word not in allowed:
            raise InputError(option, word, f"one or more of {', '.join(allowed)}")
    return found


def outside_parentheses(option: str, text: str) -> list[str]:
    """``none,full,selective(mlp,moe)`` -> its three parts."""
    parts, depth, current = [], 0, ""
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    if depth:
        raise InputError(option, text, "text with balanced parentheses")
    return [*parts, current.strip()]


def _whole(option: str, text: str, number: str) -> int:
    number = number.strip()
    if not (number.isascii() and number.isdigit()) or int(number) < 1:
        raise InputError(option, text, "whole numbers >= 1: one (8), a list (1,2,4) or a range (1..8)")
    return int(number)
