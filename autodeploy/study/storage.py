"""Where a study is kept: SQLite, PostgreSQL, MySQL, a journal file, or Optuna's gRPC proxy. Passwords are never printed."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from autodeploy.errors import InputError

if TYPE_CHECKING:
    import optuna

T = TypeVar("T")
ALLOWED = "sqlite:///FILE, postgresql+psycopg://..., mysql+pymysql://..., journal:FILE or grpc://HOST:PORT"
HEARTBEAT_S = 30
FIRST_START_TRIES = 8  # two first runs on one new database: the slower one meets tables that the faster is making


def without_password(text: str) -> str:
    """``scheme://user:password@host`` with the password blotted out, wherever it stands in a text."""
    return re.sub(r"(\w[\w+.-]*://[^/\s:@]*):[^\s]*@", r"\1:***@", text)


def default_storage(study: str) -> str:
    """A journal in the user's data folder: what ``--study NAME`` alone means."""
    home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    folder = home / "autodeploy" / "studies"
    name = re.sub(r"[^\w.-]", "_", study)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("--study", study, f"with a folder {folder} that can be made", str(error.strerror)) from error
    return f"journal:{folder / name}.journal"


def open_storage(url: str | None) -> optuna.storages.BaseStorage:
    """In memory without a URL. InputError where it cannot be opened."""
    import warnings

    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    warnings.filterwarnings("ignore", message="Heartbeat of storage")  # the loop beats it itself
    if url is None:
        return optuna.storages.InMemoryStorage()
    try:
        if url.startswith("journal:"):
            return _journal(Path(url.removeprefix("journal:")))
        if url.startswith("grpc://"):
            return _grpc(url)
        storage = retried(
            lambda: optuna.storages.RDBStorage(url, heartbeat_interval=HEARTBEAT_S, grace_period=4 * HEARTBEAT_S)
        )
        if url.startswith("sqlite:"):
            _write_ahead(storage)
        return storage
    except InputError:
        raise
    except Exception as error:  # SQLAlchemy's and the driver's own types; none of them is ours to import
        raise InputError("--storage", without_password(url), ALLOWED, told(error)) from error


def _write_ahead(storage: optuna.storages.RDBStorage) -> None:
    """SQLite with a write-ahead log: it does not wait for the disk at each of a trial's twenty writes. A kill loses
    nothing, a power cut may lose the last trials."""
    from sqlalchemy import event

    @event.listens_for(storage.engine, "connect")
    def settle(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    storage.engine.dispose()  # what is open already does not know it


def told(error: BaseException) -> str:
    """The first line of what a storage says, without a password."""
    text = str(error).strip()
    return without_password(f"{type(error).__name__}: {text.splitlines()[0] if text else ''}")[:300]


def retried(action: Callable[[], T]) -> T:
    """Tried again while another first start is making the same tables or rows."""
    for attempt in range(FIRST_START_TRIES):
        try:
            return action()
        except Exception as error:
            if attempt == FIRST_START_TRIES - 1 or not _racing(error):
                raise
            time.sleep(0.1 * 2**attempt)
    raise AssertionError("the last try returns or raises")


def _racing(error: BaseException) -> bool:
    text = f"{type(error).__name__} {error} {error.__cause__}".lower()
    return any(word in text for word in ("already exists", "unique", "duplicate", "locked", "deadlock", "serialize"))


def _journal(path: Path) -> optuna.storages.BaseStorage:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileOpenLock

    from autodeploy.study.journal import WholeLinesFile

    if not path.absolute().parent.is_dir():
        raise InputError(
            "--storage", f"journal:{path}", "a file in a folder that exists", f"create {path.absolute().parent}"
        )
    lock = JournalFileOpenLock(str(path))
    cut_torn_line(path)
    return JournalStorage(WholeLinesFile(str(path), lock_obj=lock))


def cut_torn_line(path: Path) -> int:
    """Cuts off what a kill or a full disk left of a last line, under the journal's own lock; how many bytes."""
    import sys

    from optuna.storages.journal import JournalFileOpenLock

    if not path.exists() or _whole(path):
        return 0
    lock = JournalFileOpenLock(str(path))
    if not lock.acquire():
        return 0
    try:
        data = path.read_bytes()
        kept = data[: data.rfind(b"\n") + 1]
        with path.open("r+b") as file:
            file.truncate(len(kept))
    finally:
        lock.release()
    cut = len(data) - len(kept)
    print(f"autodeploy: {path}: a torn last line ({cut} bytes) was cut off", file=sys.stderr)
    return cut


def _whole(path: Path) -> bool:
    size = path.stat().st_size
    if not size:
        return True
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _grpc(url: str) -> optuna.storages.BaseStorage:
    from optuna.storages import GrpcStorageProxy

    host, colon, port = url.removeprefix("grpc://").rstrip("/").rpartition(":")
    if not (colon and host and port.isdecimal()):
        raise InputError("--storage", url, "grpc://HOST:PORT")
    proxy = GrpcStorageProxy(host=host, port=int(port))
    proxy.wait_server_ready(timeout=20)
    return proxy
