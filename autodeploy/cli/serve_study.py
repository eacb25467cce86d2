"""``autodeploy serve-study``: Optuna's gRPC proxy over a storage, for workers that cannot reach it themselves."""

from __future__ import annotations

from typing import Annotated

import typer

Storage = Annotated[str, typer.Option("--storage", help="sqlite:///FILE, postgresql+psycopg://..., journal:FILE.")]
Host = Annotated[str, typer.Option("--host", help="Address to listen on.")]
Port = Annotated[int, typer.Option("--port", help="Port to listen on.")]


def serve_study(storage: Storage, host: Host = "localhost", port: Port = 13000) -> None:
    """Serve a storage until it is stopped; workers use --storage grpc://HOST:PORT.

    Exit codes: 0 stopped, 2 bad input.
    """
    from autodeploy.cli.case import say
    from autodeploy.errors import InputError
    from autodeploy.study.storage import open_storage, without_password

    if storage.startswith("grpc://"):
        raise InputError("--storage", without_password(storage), "a storage itself", "a proxy of a proxy serves nobody")
    if not 1 <= port <= 65535:
        raise InputError("--port", port, "1..65535")
    opened = open_storage(storage)
    try:
        from optuna.storages import run_grpc_proxy_server
    except ImportError as error:
        raise InputError("serve-study", "grpcio", "installed", "pip install 'autodeploy-twin[grpc]'") from error
    say(f"serving {without_password(storage)} as grpc://{host}:{port}; Ctrl-C stops it")
    try:
        run_grpc_proxy_server(opened, host=host, port=port)
    except ImportError as error:
        raise InputError("serve-study", "grpcio", "installed", "pip install 'autodeploy-twin[grpc]'") from error
    except (OSError, RuntimeError) as error:
        raise InputError("--port", port, "a free port", " ".join(str(error).split())[:200]) from error
    except KeyboardInterrupt:
        say("stopped")
