"""Which profiles ship, under which names."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import hardware_profiles
from autodeploy.errors import InputError

_ALIASES = r"^aliases:\s*\[([^\]]*)\]"


def profiles_folder() -> Path:
    """The folder of the shipped YAML files."""
    return Path(hardware_profiles.__path__[0])


@lru_cache(maxsize=1)
def hardware_names() -> tuple[str, ...]:
    """Names of the shipped profiles, sorted."""
    return tuple(sorted(path.stem for path in profiles_folder().glob("*.yaml")))


@lru_cache(maxsize=1)
def hardware_aliases() -> dict[str, str]:
    """Alias -> profile name. Read as text (``aliases: [a, b]`` stands on one line): no YAML is parsed for a look-up."""
    aliases: dict[str, str] = {}
    for name in hardware_names():
        found = re.search(_ALIASES, (profiles_folder() / f"{name}.yaml").read_text(encoding="utf-8"), re.MULTILINE)
        for alias in found.group(1).split(",") if found else ():
            aliases[alias.strip()] = name
    return aliases


def find_profile(name: str) -> Path:
    """The file of a shipped profile, by name or alias; InputError with a suggestion if there is none."""
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    names = hardware_names()
    aliases = hardware_aliases() if key not in names else {}  # which reads every file
    key = aliases.get(key, key)
    if key in names:
        return profiles_folder() / f"{key}.yaml"
    import difflib

    near = difflib.get_close_matches(key, [*names, *aliases], n=3, cutoff=0.5)
    remedy = f"did you mean {' or '.join(near)}?" if near else "give a profile name or the path of a YAML file"
    raise InputError("hardware", name, f"one of {', '.join(names)}", remedy)
