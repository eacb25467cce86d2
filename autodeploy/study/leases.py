"""Who works on a trial. A trial whose worker is gone is failed and enqueued again, so that none is lost or done twice.

The lease stands in the trial itself, so that it works in every storage: host, process, and a time by which the worker
means to be done or to have renewed it. On this host a process is asked for; elsewhere the time decides. Databases have
Optuna's heartbeat beside it.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

ATTRIBUTE = "lease"
RETRY = "retry_of"
UNPRICEABLE = "unpriceable"  # failed for good: its price is no number
LEASE_S = 300.0
RENEW_S = 60.0
UNSIGNED_S = 20.0  # signing follows asking at once; a trial unsigned for longer is of a worker killed in between


@dataclass(frozen=True, slots=True)
class Worker:
    """This process; ``started`` tells it from a later one with the same number."""

    host: str
    pid: int
    started: str

    @staticmethod
    def here() -> Worker:
        return Worker(socket.gethostname(), os.getpid(), _started(os.getpid()) or "?")

    def lease(self) -> dict[str, Any]:
        return {"host": self.host, "pid": self.pid, "started": self.started, "until": time.time() + LEASE_S}


def _started(pid: int) -> str | None:
    """When a process of this host began, in clock ticks since boot; None where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
            return None if fields[0] == "Z" else fields[19]
    except OSError:
        return None if os.path.isdir("/proc/self") else "?"


def is_gone(lease: dict[str, Any] | None, begun: float, worker: Worker) -> bool:
    """Whether nobody works on a running trial any more. ``begun``: when it was asked for (a trial without a lease is one
    whose worker died between asking and signing, or of an older version)."""
    if not lease:
        return time.time() > begun + UNSIGNED_S
    if lease["host"] == worker.host:
        return _started(int(lease["pid"])) != lease["started"]
    return time.time() > float(lease["until"])


@contextmanager
def renewed(study: optuna.Study, trials: Sequence[optuna.Trial], worker: Worker) -> Iterator[None]:
    """Keeps the leases of ``trials`` alive while they are worked on, and the heartbeat where the storage has one."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(RENEW_S):
            try:
                sign(study, trials, worker)
            except Exception:  # a storage that is away for a moment: the work itself will say so
                continue

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()


def sign(study: optuna.Study, trials: Sequence[optuna.Trial], worker: Worker) -> None:
    """Writes the lease into each trial, and beats its heart."""
    from optuna.storages._heartbeat import BaseHeartbeat, is_heartbeat_enabled

    storage = study._storage
    for trial in trials:
        storage.set_trial_user_attr(trial._trial_id, ATTRIBUTE, worker.lease())
        if isinstance(storage, BaseHeartbeat) and is_heartbeat_enabled(storage):
            storage.record_heartbeat(trial._trial_id)


def reclaim(study: optuna.Study, worker: Worker) -> int:
    """Fails the trials of workers that are gone and enqueues their parameters again, each once; how many. A worker killed
    between the two leaves a failed trial that nobody took up: the next one does."""
    import optuna

    states = optuna.trial.TrialState
    trials = study.get_trials(deepcopy=False, states=(states.RUNNING, states.FAIL, states.WAITING, states.COMPLETE))
    taken_up = {trial.user_attrs[RETRY] for trial in trials if RETRY in trial.user_attrs}
    stale = _without_heartbeat(study)
    found = 0
    for trial in trials:
        if trial.state not in (states.RUNNING, states.FAIL) or UNPRICEABLE in trial.user_attrs:
            continue
        begun = trial.datetime_start.timestamp() if trial.datetime_start else 0.0
        if trial._trial_id not in stale and not is_gone(trial.user_attrs.get(ATTRIBUTE), begun, worker):
            continue
        if trial.state == states.RUNNING:
            try:
                study.tell(trial.number, state=states.FAIL)
            except (ValueError, RuntimeError):  # another worker was faster
                continue
        if trial.number not in taken_up:
            again(study, trial)
            found += 1
    return found


def again(study: optuna.Study, trial: FrozenTrial) -> None:
    """Enqueues the parameters of a trial once more, with a word of which it replaces."""
    params = dict(trial.params) or dict(trial.system_attrs.get("fixed_params", {}))
    study.enqueue_trial(params, user_attrs={RETRY: trial.number})


def _without_heartbeat(study: optuna.Study) -> set[int]:
    """Trials whose heart has stopped, where the storage has hearts."""
    from optuna.storages._heartbeat import BaseHeartbeat, is_heartbeat_enabled

    storage = study._storage
    if not (isinstance(storage, BaseHeartbeat) and is_heartbeat_enabled(storage)):
        return set()
    return set(storage._get_stale_trial_ids(study._study_id))
