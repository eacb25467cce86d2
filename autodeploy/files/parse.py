"""JSON, YAML and CSV texts to plain values, bounded in depth and in what aliases expand to; duplicate keys are named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from autodeploy.errors import InputError
from autodeploy.files.guard import guarded

DEEPEST = 64  # levels of nesting
MOST_NODES = 1_000_000  # of a YAML document with its aliases expanded
MOST_DIGITS = 400  # of one number: Python itself refuses more than 4300, later and in other words
LONGEST_CELL = 1_000_000
_LONG_NUMBER = re.compile(rf"(?<![\w.]) *[-+]?\d{{{MOST_DIGITS},}}")


def parse_json(text: str, name: str) -> Any:
    """The JSON value of a text. NaN and Infinity are read, as Python and transformers write them."""
    _check_numbers(text, name)
    try:
        return json.loads(text.lstrip("\ufeff"), object_pairs_hook=_Unique(name))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}: {error.msg}"
        raise InputError(name, where, "complete JSON", "the file may be truncated") from None
    except RecursionError:
        raise InputError(name, "nested too deeply", "JSON of a few levels") from None


class _Unique:
    """Builds a mapping and names a key that stands twice."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise InputError(f"{self.name}: {twice}", "stated twice", "stated once", "remove one of the two")
        return found


def _check_numbers(text: str, name: str) -> None:
    long = _LONG_NUMBER.search(text)
    if long:
        line = text.count("\n", 0, long.start()) + 1
        raise InputError(
            f"{name} line {line}", f"a number of {len(long.group().strip())} digits", f"at most {MOST_DIGITS} digits"
        )


def parse_yaml(text: str, name: str) -> Any:
    """The YAML value of a text by the safe loader. Its size is counted first: aliases may not expand without end."""
    import yaml

    _check_numbers(text, name)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_yaml(text, name, loader)
        return yaml.load(text, Loader=_unique_loader())  # noqa: S506  (a safe loader)
    except InputError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, KeyError, AttributeError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1} column {mark.column + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(name, (where + str(problem)).replace("\n", " ")[:160], "valid YAML") from None


def _check_yaml(text: str, name: str, loader: Any) -> None:
    """Nesting, and the nodes that the document has when every alias stands for its anchor's."""
    import yaml

    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []  # anchor and nodes so far, of every open collection
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_nodes):
                raise _at(event, name, f"alias *{event.anchor} inside its own anchor", "YAML without recursion")
            added = sizes.get(str(event.anchor), 1)
        elif isinstance(event, yaml.ScalarEvent):
            added = 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, 1))
            if len(open_nodes) > DEEPEST:
                raise _at(event, name, "nested too deeply", f"at most {DEEPEST} levels")
            continue
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, added = open_nodes.pop()
            if anchor:
                sizes[anchor] = added
        else:
            continue
        if open_nodes:
            anchor, count = open_nodes[-1]
            open_nodes[-1] = (anchor, count + added)
            if count + added > MOST_NODES:
                raise _at(event, name, "aliases that expand to too much", f"at most {MOST_NODES} values")


def _at(event: Any, name: str, problem: str, allowed: str) -> InputError:
    mark = event.start_mark
    return InputError(name, f"line {mark.line + 1} column {mark.column + 1}: {problem}", allowed)


_LOADERS: dict[str, Any] = {}


def _unique_loader() -> Any:
    """The safe loader, except that a key that stands twice in a mapping is an error, as in JSON."""
    import yaml

    if "loader" not in _LOADERS:
        base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

        class UniqueLoader(base):  # type: ignore[misc]
            pass

        def mapping(loader: Any, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if key.tag == "tag:yaml.org,2002:merge":
                    continue
                word = str(key.value)
                if word in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{word} is stated twice", key.start_mark)
                seen.add(word)
            loader.flatten_mapping(node)
            found: dict[Any, Any] = yaml.constructor.BaseConstructor.construct_mapping(loader, node, deep=deep)
            return found

        def build(loader: Any, node: Any) -> Iterator[Any]:
            data: dict[Any, Any] = {}
            yield data
            data.update(mapping(loader, node, deep=True))

        UniqueLoader.add_constructor("tag:yaml.org,2002:map", build)
        _LOADERS["loader"] = UniqueLoader
    return _LOADERS["loader"]


def csv_rows(text: str, name: str) -> list[dict[str, str]]:
    """The rows of a CSV text with a header, each with every column; a row of another length is named by its line."""
    import csv
    import io

    with guarded(name, "a CSV table with a header line"):
        csv.field_size_limit(LONGEST_CELL)
        reader = csv.DictReader(io.StringIO(text.lstrip("\ufeff"), newline=""), restkey="", restval="")
        names = [column.strip() for column in reader.fieldnames or ()]
        reader.fieldnames = names
        if len(set(names)) < len(names):
            twice = next(column for column in names if names.count(column) > 1)
            raise InputError(f"{name} line 1", twice, "every column once", "remove one of the two")
        rows = []
        for row in reader:
            if row.get("") and "" not in names:
                raise InputError(
                    f"{name} line {reader.line_num}", f"more than {len(names)} cells", f"{len(names)} cells"
                )
            rows.append({column: row[column] for column in names})
        return rows
