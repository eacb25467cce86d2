"""Arguments that a launch script hands to its program, found by reading the script: nothing of it is ever run.

Variables (``A=1``, ``A+=" ..."``, ``export``, ``${A:-default}``, ``$((A*B))``), arrays (``ARGS=(...)``, ``ARGS+=(...)``,
``${ARGS[@]}``), line continuations, comments, and files that are sourced from beside the script. Of ``if`` ... ``else``
the branch counts whose condition on variables holds, the first where that cannot be told. What only a run would tell (a
command's output, an argument of the script) stays unknown.
"""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

MOST_BYTES = 2_000_000
MOST_PASSES = 12  # of variables in variables
DEEPEST = 4  # files that source files

_ASSIGN = re.compile(r"^(?:export\s+|local\s+|readonly\s+|declare\s+(?:-\w+\s+)*)*([A-Za-z_]\w*)(\+?)=(.*)$", re.DOTALL)
_SOURCE = re.compile(r"^(?:source|\.)\s+(\S+)\s*$")
_ARITHMETIC = re.compile(r"\$\(\(([^()]*(?:\([^()]*\)[^()]*)*)\)\)")
_BRACED = re.compile(r"\$\{([A-Za-z_]\w*)(?:\[[@*]\])?(?:(:?[-=])((?:[^{}$]|\$\w+|\$\{[^{}]*\})*))?\}")
_PLAIN = re.compile(r"\$([A-Za-z_]\w*)")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")


@dataclass(slots=True)
class Script:
    """What has been read: variables as text (arrays joined by blanks), and commands in order."""

    variables: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)  # sourced files that are not there


def read_script(text: str, folder: Path | None = None) -> Script:
    """``folder``: where sourced files are looked for; None: nowhere."""
    script = Script()
    _run(text, folder, script, 0)
    return script


def command_words(script: Script) -> list[str]:
    """Words of the command that starts the program: the one with most arguments once its variables are filled in."""
    best: list[str] = []
    for command in script.commands:
        words = split_words(expand(command, script.variables))
        if sum(word.startswith("--") for word in words) > sum(word.startswith("--") for word in best):
            best = words
    return best


def arguments_of(words: list[str]) -> dict[str, tuple[str, ...]]:
    """Argument without dashes -> its values; the last occurrence wins."""
    found: dict[str, tuple[str, ...]] = {}
    name, values = "", []  # type: str, list[str]
    for word in [*words, "--"]:
        if not re.match(r"--[A-Za-z]|--$", word):
            if word in ("|", "&", ";", "&&", "||") or word.startswith((">", "2>")):
                break
            values.append(word)
            continue
        if name:
            found[name] = tuple(values)
        name, equals, value = word[2:].partition("=")
        name, values = name.replace("_", "-"), [value] if equals else []
    else:
        return found
    if name:
        found[name] = tuple(values)
    return found


# ------------------------------------------------------------------------------------------------ statements


def _run(text: str, folder: Path | None, script: Script, depth: int) -> None:
    skipped = 0  # nesting of branches that are not taken
    taken: list[bool] = []  # of each open if: whether one of its branches has been taken
    for statement in statements(text):
        first = statement.split(None, 1)[0] if statement.split() else ""
        if skipped:
            skipped += (first == "if") - (first == "fi")
            if skipped == 1 and (first == "else" or (first == "elif" and not taken[-1])):
                skipped = int(first == "elif" and not holds(statement, script.variables))
                skipped = 1 if taken[-1] else skipped
                taken[-1] = taken[-1] or not skipped
            elif not skipped and taken:
                taken.pop()
            continue
        if first == "if":
            taken.append(holds(statement, script.variables))
            skipped = int(not taken[-1])
            continue
        if first in ("else", "elif"):
            skipped = 1
            continue
        if first == "fi" and taken:
            taken.pop()
            continue
        sourced = _SOURCE.match(statement)
        if sourced and depth < DEEPEST:
            _source(expand(sourced.group(1).strip("\"'"), script.variables), folder, script, depth)
            continue
        if not _assign(statement, script.variables):
            script.commands.append(statement)


_TEST = re.compile(r"^(?:if|elif)\s+\[\[?\s+(.*?)\s+\]\]?", re.DOTALL)
_COMPARED = {"=": "==", "==": "==", "-eq": "==", "!=": "!=", "-ne": "!="}


def holds(statement: str, variables: dict[str, str]) -> bool:
    """Whether a condition on variables holds; True where only a run would tell."""
    found = _TEST.match(statement)
    if not found:
        return True
    words = found.group(1)
    if words.startswith(("-n ", "-z ")):
        value = expand(words[3:].strip().strip("\"'"), variables)
        return (value not in ("", "${}") and "$" not in value) == words.startswith("-n")
    parts = [expand(part.strip("\"'"), variables) for part in words.split()]
    if len(parts) == 3 and parts[1] in _COMPARED and not any("$" in part for part in parts):
        return (parts[0] == parts[2]) == (_COMPARED[parts[1]] == "==")
    return True


def _source(name: str, folder: Path | None, script: Script, depth: int) -> None:
    beside = None if folder is None else folder / Path(name).name
    given = None if folder is None else folder / name
    for path in (given, beside):
        if path is not None and path.is_file() and path.stat().st_size <= MOST_BYTES:
            _run(path.read_text(encoding="utf-8", errors="replace"), folder, script, depth + 1)
            return
    script.absent.append(name)


def _assign(statement: str, variables: dict[str, str]) -> bool:
    """Whether the statement sets variables and nothing else."""
    found = _ASSIGN.match(statement)
    if not found:
        return False
    name, plus, value = found.groups()
    value = value.strip()
    if value.startswith("("):
        text = value[1 : value.rfind(")")] if ")" in value else value[1:]
    else:
        words = _first_word(value)
        if words is None:
            return False
        text = words
    text = expand(text, variables)
    variables[name] = f"{variables.get(name, '')} {text}".strip() if plus else text
    return True


def _first_word(value: str) -> str | None:
    """The value of ``A=value``, quotes dropped; None where a command follows (``A=1 python ...``)."""
    if value.startswith(("$(", "`")):
        return value
    word, quote = [], ""
    for i, char in enumerate(value):
        if quote:
            if char == quote:
                quote = ""
            else:
                word.append(char)
        elif char in "\"'":
            quote = char
        elif char.isspace():
            rest = value[i:].strip()
            return "".join(word) if not rest or _ASSIGN.match(rest) else None
        else:
            word.append(char)
    return "".join(word)


def statements(text: str) -> list[str]:
    """Commands and assignments, each on one line: continuations joined, comments dropped, quotes and arrays kept whole."""
    found: list[str] = []
    current, quote, depth, ends = "", "", 0, ""
    for line in _unfolded(text):
        if ends:
            ends = "" if line.strip() == ends else ends
            continue
        code = line if quote else _without_comment(line)
        heredoc = None if quote else _HEREDOC.search(code)
        if heredoc:
            ends, code = heredoc.group(2), code[: heredoc.start()]
        quote, depth = _state(code, quote, depth)
        current = f"{current}\n{code}" if current else code
        if not quote and depth <= 0:
            found += _parts(current)
            current, depth = "", 0
    return found + _parts(current)


def _unfolded(text: str) -> list[str]:
    """Lines with ``\\`` continuations joined; a comment ends where its line does."""
    lines: list[str] = []
    joined = ""
    for raw in text.replace("\r\n", "\n").split("\n"):
        line = joined + raw
        stripped = line.rstrip()
        if stripped.endswith("\\") and not raw.lstrip().startswith("#"):
            joined = stripped[:-1] + " "
            continue
        if joined and raw.lstrip().startswith("#"):
            continue  # a comment between continued lines
        joined = ""
        lines.append(line)
    return [*lines, joined] if joined else lines


def _without_comment(line: str) -> str:
    quote = ""
    for i, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and (i == 0 or line[i - 1] in " \t("):
            return line[:i]
    return line


def _state(code: str, quote: str, depth: int) -> tuple[str, int]:
    """Open quote and depth of open parentheses after a line."""
    for i, char in enumerate(code):
        if quote:
            quote = "" if char == quote and code[i - 1 : i] != "\\" else quote
        elif char in "\"'" and code[i - 1 : i] != "\\":
            quote = char
        else:
            depth += (char == "(") - (char == ")")
    return quote, depth


def _parts(text: str) -> list[str]:
    """Statements of a line that holds several, split at ``;`` and ``then``; quotes and parentheses kept whole."""
    parts, start, quote, depth = [], 0, "", 0
    for i, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            depth += (char == "(") - (char == ")")
            if char == ";" and depth <= 0:
                parts.append(text[start:i])
                start = i + 1
    parts.append(text[start:])
    stripped = (re.sub(r"^(?:then|do)\s+", "", part.strip()) for part in parts)
    return [part for part in stripped if part and part not in ("then", "do", "done", "{", "}")]


# ------------------------------------------------------------------------------------------------- expansion


def expand(text: str, variables: dict[str, str]) -> str:
    """Variables filled in, defaults taken, sums worked out; what is unknown stays as it is written."""
    for _ in range(MOST_PASSES):
        before = text
        text = _BRACED.sub(lambda found: _braced(found, variables), text)
        text = _PLAIN.sub(lambda found: variables.get(found.group(1), found.group(0)), text)
        text = _ARITHMETIC.sub(lambda found: _sum(found, variables), text)
        if text == before or len(text) > MOST_BYTES:
            break
    return text


def _braced(found: re.Match[str], variables: dict[str, str]) -> str:
    name, operator, default = found.groups()
    known = variables.get(name)
    if known is not None and (known or (operator or "-")[0] != ":"):
        return known
    return default if operator else found.group(0)


def _sum(found: re.Match[str], variables: dict[str, str]) -> str:
    text = re.sub(r"\b[A-Za-z_]\w*\b", lambda name: variables.get(name.group(0), name.group(0)), found.group(1))
    try:
        return str(_whole(ast.parse(text.strip(), mode="eval").body))
    except (SyntaxError, ValueError, ZeroDivisionError):
        return found.group(0)


def _whole(node: ast.expr) -> int:
    """A sum of whole numbers with + - * / %; ValueError for anything else."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_whole(node.operand)
    if isinstance(node, ast.BinOp):
        left, right = _whole(node.left), _whole(node.right)
        for kind, result in ((ast.Add, lambda: left + right), (ast.Sub, lambda: left - right),
                             (ast.Mult, lambda: left * right), (ast.Div, lambda: left // right),
                             (ast.FloorDiv, lambda: left // right), (ast.Mod, lambda: left % right)):  # fmt: skip
            if isinstance(node.op, kind):
                return result()
    raise ValueError("not a sum of whole numbers")


def split_words(text: str) -> list[str]:
    """Words as a shell splits them, the quotes of arguments in variables dropped too."""
    flat = text.replace("\\\n", " ").replace("\n", " ").replace("\\ ", " ")
    try:
        words = shlex.split(flat, posix=True)
    except ValueError:
        words = [word.strip("\"'") for word in flat.split()]
    return [part for word in words for part in (_again(word) if " --" in f" {word}" else [word])]


def _again(word: str) -> list[str]:
    try:
        return shlex.split(word, posix=True)
    except ValueError:
        return word.split()
