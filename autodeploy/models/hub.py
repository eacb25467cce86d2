"""MODEL as a Hugging Face id, ``organisation/name``: its config.json from the local cache, else from the hub.

Nothing but config.json is fetched, and no code of a repository is run.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from autodeploy.errors import InputError

ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}$")
FILE_ENDINGS = (".json", ".yaml", ".yml", ".sh", ".txt", ".toml", ".log", ".args")
TIMEOUT_S = 10.0
LARGEST_BYTES = 16 * 2**20
HAND = "download its config.json and pass the file"


def is_id(text: str) -> bool:
    """Whether the argument can be an id: two words, not the ending of a file, and no such folder here."""
    return bool(ID.match(text)) and not text.lower().endswith(FILE_ENDINGS) and not Path(text).parent.is_dir()


def config_text(name: str) -> str:
    """The text of the repository's config.json."""
    cached = _cached(name)
    if cached is not None:
        return cached
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise InputError("MODEL", name, "an id whose config.json the cache holds", f"HF_HUB_OFFLINE is set: {HAND}")
    return _fetched(name)


def _cached(name: str) -> str | None:
    """The newest snapshot in the cache that huggingface_hub keeps."""
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    folder = Path(os.environ.get("HF_HUB_CACHE", home / "hub")) / f"models--{name.replace('/', '--')}" / "snapshots"
    found = sorted(folder.glob("*/config.json"), key=lambda path: path.stat().st_mtime)
    return found[-1].read_text(encoding="utf-8-sig") if found else None


def _fetched(name: str) -> str:
    import urllib.error
    import urllib.request

    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    request = urllib.request.Request(
        f"{endpoint}/{name}/resolve/main/config.json", headers={"User-Agent": "autodeploy"}
    )
    token = os.environ.get("HF_TOKEN")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            text = answer.read(LARGEST_BYTES).decode("utf-8-sig")
        json.loads(text)
    except urllib.error.HTTPError as error:
        allowed = "an id that the hub gives out" if error.code in (401, 403) else "an id that the hub has"
        remedy = f"a gated model needs HF_TOKEN, or {HAND}" if error.code in (401, 403) else "check the spelling"
        raise InputError("MODEL", name, allowed, f"{remedy} (the hub answered {error.code})") from None
    except (TimeoutError, urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        remedy = f"the hub cannot be reached ({reason}) and the cache does not hold it: {HAND}"
        raise InputError("MODEL", name, "a zoo name, a file, or a Hugging Face id that can be read", remedy) from None
    return text
