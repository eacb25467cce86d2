"""Optuna's journal file with two differences: a failed append leaves no half line, and lines are not forced to disk one by one.

A kill loses nothing, for what is written is the operating system's; a power cut may lose the last seconds. Forcing every
line (a trial has some twenty) made a study of 200 trials five times slower than pricing it.
"""

from __future__ import annotations

import json
import os
from typing import Any

from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._file import get_lock_file


class WholeLinesFile(JournalFileBackend):
    """Appends whole lines under the journal's lock, or nothing."""

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with get_lock_file(self._lock), open(self._file_path, "ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            data = text.encode()
            try:
                while data:
                    data = data[file.write(data) :]
            except OSError:  # a full disk: others must still be able to read
                file.truncate(end)
                raise
