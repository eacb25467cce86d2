"""Where cells are run: here, in processes here, or on a Dask cluster. An engine yields results as they come.

A lost worker costs its cells' time, not the sweep: Dask runs them again; a broken process pool is started again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from autodeploy.errors import InputError

Job = tuple[str, list[str]]  # (fingerprint, command line)
Runner = Callable[[list[str]], dict[str, Any]]
Outcome = tuple[str, dict[str, Any]]
ENGINES = ("local", "dask")
RETRIES = 3  # of a cell whose worker died


def local(jobs: Sequence[Job], runner: Runner, workers: int) -> Iterator[Outcome]:
    """In this process, or in a pool that is started anew when one of its processes is killed."""
    if workers == 1:
        for fingerprint, argv in jobs:
            yield fingerprint, runner(argv)
        return
    from concurrent.futures.process import BrokenProcessPool

    left = dict(jobs)
    for _ in range(RETRIES + 1):
        try:
            for fingerprint, result in _pooled(list(left.items()), runner, workers):
                del left[fingerprint]
                yield fingerprint, result
            return
        except BrokenProcessPool:
            continue
    raise InputError(
        "--workers", workers, "processes that live", f"{len(left)} cells are left; their workers were killed"
    )


def _pooled(jobs: Sequence[Job], runner: Runner, workers: int) -> Iterator[Outcome]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    # Spawned: a fork of a process that has threads (a progress bar) may hang.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(runner, argv): fingerprint for fingerprint, argv in jobs}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def on_dask(jobs: Sequence[Job], runner: Runner, workers: int, scheduler: str | None) -> Iterator[Outcome]:
    """Each cell a task of ``dask.distributed``, on the scheduler given or on ``workers`` processes started here."""
    try:
        from dask.distributed import Client, as_completed
    except ImportError as error:
        raise InputError(
            "--engine", "dask", "with the extra installed", "pip install 'autodeploy-twin[dask]'"
        ) from error
    here = {} if scheduler else {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    try:
        client = Client(scheduler, timeout="20s", **here)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            "--scheduler", scheduler, "the address of a Dask scheduler that answers", str(error)
        ) from error
    with client:
        futures = client.map(runner, [argv for _, argv in jobs], key=[name for name, _ in jobs], retries=RETRIES)
        for future, result in as_completed(futures, with_results=True):
            yield future.key, result
