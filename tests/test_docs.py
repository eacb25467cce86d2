"""The pages hang together: all are in the navigation, every link leads somewhere, every command line parses."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from autodeploy.cli.app import build_app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))
TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
STANDS_FOR = {"H": "h100-sxm", "N": "64", "S": "4096", "B": "64"}  # what a synopsis leaves open


def _leaves(node: Any) -> list[str]:
    if isinstance(node, str):
        return [node]
    return [leaf for part in (node.values() if isinstance(node, dict) else node) for leaf in _leaves(part)]


def test_every_page_is_in_the_navigation_once() -> None:
    nav = _leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert sorted(nav) == [str(page.relative_to(DOCS)) for page in PAGES]


def test_the_door_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\(([^)#:]+\.md)", (DOCS / "index.md").read_text(encoding="utf-8")))
    assert linked == {page.name for page in PAGES} - {"index.md"}


def _links(text: str) -> list[str]:
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"`[^`\n]*`", "", prose)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in link]


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_every_relative_link_resolves(page: Path) -> None:
    for link in _links(page.read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def _commands(text: str) -> list[str]:
    """Command lines of code blocks, continued lines joined."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return re.findall(r"^(?: {4})?(?:\.venv/bin/)?(autodeploy [a-z-].*)$", joined, re.MULTILINE)


COMMANDS = [(page.name, line) for page in TEXTS for line in _commands(page.read_text(encoding="utf-8"))]


def _words(line: str) -> list[str]:
    line = line.split(" | ")[0].replace("search ...", "search MODEL --hardware H --devices N").replace("[options]", "")
    line = re.sub(r"\s{3,}[^-].*$", "", line)  # what a list of commands says beside them
    return [STANDS_FOR.get(word, word) for word in shlex.split(line, comments=True)[1:]]


def _parse(words: list[str]) -> None:
    """As the command line parses, without running."""
    command = typer.main.get_command(build_app(words))
    name = "autodeploy"
    context = None
    while hasattr(command, "commands"):
        if words[0] == "--version":
            return
        name, rest = words[0], words[1:]
        assert name in command.commands, f"no command {name}"
        command, words = command.commands[name], rest
    if {"--help", "-h"} & set(words):
        return
    context = command.make_context(name, list(words))
    context.close()


def test_pages_have_commands() -> None:
    assert len(COMMANDS) > 40
    assert {"search.md", "first_steps.md", "commands.md", "study.md", "README.md"} <= {name for name, _ in COMMANDS}


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=lambda text: text[:60])
def test_every_command_line_parses(page: str, line: str) -> None:
    _parse(_words(line))


@pytest.mark.parametrize("line", ["search llama --hardware h100-sxm --no-such 1", "estimate", "nothing"])
def test_a_wrong_line_would_be_seen(line: str) -> None:
    with pytest.raises(Exception, match=r"(?i)no.such|missing|no command"):
        _parse(line.split())


def test_pages_name_no_path_of_a_machine() -> None:
    for page in TEXTS:
        assert not re.search(r"/home/|/root/", page.read_text(encoding="utf-8")), page.name
