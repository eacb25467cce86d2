"""PostgreSQL and the gRPC proxy for real: four workers on one study, one of them killed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.study.test_study import held, run, worker

pytestmark = pytest.mark.extra


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of its own; PostgreSQL does not run as root, so then as its own user."""
    pytest.importorskip("psycopg")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders:
        pytest.skip("no PostgreSQL server is installed")
    port, data = free_port(), Path(f"/tmp/autodeploy-pg-{os.getpid()}")
    data.mkdir(mode=0o700)
    prefix: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(data, "postgres", "postgres")
        prefix = ["runuser", "-u", "postgres", "--"]
    tools = folders[-1]
    subprocess.run(
        [*prefix, str(tools / "initdb"), "-D", str(data / "db"), "-A", "trust"], check=True, capture_output=True
    )
    options = f"-p {port} -k {data} -c listen_addresses=localhost -c fsync=off"
    start = [*prefix, str(tools / "pg_ctl"), "-D", str(data / "db"), "-o", options, "-l", str(data / "log"), "-w"]
    subprocess.run([*start, "start"], check=True, stdout=subprocess.DEVNULL)
    user = "postgres" if prefix else os.environ.get("USER", "postgres")
    try:
        yield f"postgresql+psycopg://{user}@localhost:{port}/postgres"
    finally:
        subprocess.run([*start, "-m", "immediate", "stop"], check=False, stdout=subprocess.DEVNULL)
        shutil.rmtree(data, ignore_errors=True)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("grpc")
    port = free_port()
    words = [
        sys.executable,
        "-m",
        "autodeploy",
        "serve-study",
        "--storage",
        f"sqlite:///{tmp_path}/s.sqlite",
        "--port",
        str(port),
    ]
    server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None and "serving" in server.stderr.readline()
    yield f"grpc://localhost:{port}"
    server.send_signal(signal.SIGINT)
    server.wait(timeout=30)


@pytest.mark.parametrize("storage", ["postgresql", "proxy"])
def test_four_workers_and_a_kill(storage: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(storage)
    victim = worker(url, 400, 0)
    others = [worker(url, 16, seed) for seed in (1, 2, 3)]
    assert victim.stdout is not None
    for _ in range(2):
        assert "at work" in victim.stdout.readline()
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    for each in others:
        out, err = each.communicate(timeout=240)
        assert "done 16" in out, err
    time.sleep(0.1)
    result = run(method="random", trials=16, storage=url, study="s")
    trials = held(url, "s")
    states = {
        state: [t for t in trials if t.state.name == state] for state in ("COMPLETE", "RUNNING", "FAIL", "WAITING")
    }
    assert not states["RUNNING"] and len(states["COMPLETE"]) >= 3 * 16 + 16
    again = sorted(t.user_attrs["retry_of"] for t in trials if "retry_of" in t.user_attrs)
    assert again == sorted(t.number for t in states["FAIL"])
    assert len(trials) == sum(map(len, states.values()))
    assert result.ranking is not None
