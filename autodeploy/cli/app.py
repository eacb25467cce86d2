"""The executable: a table of commands, each imported only when it is asked for, and the exit codes.

0 ok; 1 a gate failed; 2 bad input or usage; 3 nothing feasible (and 70: a fault of ours).
"""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import typer

from cost_models.errors import ConfigError
from cost_models.records import record

BAD_INPUT = 2
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
INTERNAL_ERROR = 70
BROKEN_PIPE = 141
INTERRUPTED = 130


@record(kw_only=False)
class Command:
    """Where a command lives, and the line that ``--help`` shows without importing it."""

    module: str
    function: str
    help: str

    @property
    def exists(self) -> bool:
        return importlib.util.find_spec(self.module) is not None

    def load(self) -> Callable[..., Any]:
        return getattr(importlib.import_module(self.module), self.function)


COMMANDS: dict[str, Command | dict[str, Command]] = {
    "search": Command("autodeploy.cli.search", "search", "Rank strategies for a model on a number of cards."),
    "estimate": Command(
        "autodeploy.cli.estimate", "estimate", "Price one strategy: time and memory by cause and rank."
    ),
    "advise": Command("autodeploy.cli.advise", "advise", "From a launch file to what to run: one page."),
    "diagnose": Command("autodeploy.cli.diagnose", "diagnose", "A training log against its prediction."),
    "explain": Command("autodeploy.cli.explain", "explain", "Why a strategy costs what it does."),
    "compare": Command("autodeploy.cli.compare", "compare", "Two strategies side by side."),
    "simulate": Command("autodeploy.cli.simulate", "simulate", "Replay one step event by event."),
    "balance": {
        "experts": Command("autodeploy.cli.balance_experts", "experts", "Place experts by their predicted loads."),
        "data": Command("autodeploy.cli.balance_data", "data", "Order samples so that ranks finish together."),
        "layers": Command("autodeploy.cli.balance_layers", "layers", "Assign layers to pipeline stages."),
    },
    "calibrate": Command("autodeploy.cli.calibrate", "calibrate", "Fit a hardware profile to measurements."),
    "trials": Command("autodeploy.cli.trials", "trials", "What to measure next, and what it is worth."),
    "accuracy": Command("autodeploy.cli.accuracy", "accuracy", "Predicted against measured, by group; a gate."),
    "export": Command("autodeploy.cli.export", "export", "Launch settings of a strategy for a training framework."),
    "sweep": Command("autodeploy.cli.sweep", "sweep", "A matrix of models x hardware x cards x batches."),
    "serve-study": Command("autodeploy.cli.serve_study", "serve_study", "Serve a study's storage to other machines."),
    "models": Command("autodeploy.cli.models", "models", "List the models that ship, or show one."),
    "hardware": Command("autodeploy.cli.hardware", "hardware", "List the hardware profiles that ship, or show one."),
    "stacks": Command("autodeploy.cli.stacks", "stacks", "List the software stacks that ship, or show one."),
}
GROUP_HELP = {"balance": "Balance experts, data or layers on your own data."}
SETTINGS = {"help_option_names": ["-h", "--help"]}


def _new_app(help_text: str) -> typer.Typer:
    return typer.Typer(
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # plain help: Rich alone would take a third of the start-up time
        pretty_exceptions_enable=False,
        context_settings=SETTINGS,
    )


def _placeholder() -> None:
    """Stands in the list of commands for one that is not asked for."""


def _register(app: typer.Typer, commands: dict[str, Any], wanted: Sequence[str], groups: Sequence[str] = ()) -> None:
    """Adds the command that ``wanted`` names to ``app``, imported; where it names none, all, for the list of them."""
    first, rest = (wanted[0], wanted[1:]) if wanted else ("", ())
    for name, command in {first: commands[first]}.items() if first in commands else commands.items():
        if isinstance(command, dict):
            group = _new_app(GROUP_HELP[name])
            _register(group, command, rest if name == first else ())
            if any(part.exists for part in command.values()):
                app.add_typer(group, name=name)
        elif command.exists:
            function = command.load() if name == first else _placeholder
            app.command(name, help=None if name == first else command.help)(function)


def build_app(wanted: Sequence[str]) -> typer.Typer:
    """The application as far as the command line ``wanted`` needs it."""
    app = _new_app("The open digital twin for training large language models.")

    @app.callback(invoke_without_command=True)
    def root(version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
        if version:
            import autodeploy

            typer.echo(f"autodeploy {autodeploy.__version__}")
            raise typer.Exit()

    _register(app, COMMANDS, wanted[:2])
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code. Nothing that goes wrong shows a traceback, unless
    AUTODEPLOY_DEBUG=1 asks for it. Without ``argv`` it is the process's own command line."""
    if argv is None:
        _collect_seldom()
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = os.environ.get("AUTODEPLOY_DEBUG", "") not in ("", "0")
    _take_interrupts()
    try:
        code = build_app(arguments)(args=arguments, prog_name="autodeploy", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except SystemExit as exit_request:
        return exit_request.code if isinstance(exit_request.code, int) else 1
    except typer.Exit as exit_request:
        return exit_request.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe, such as head, has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except ConfigError as error:
        if debug:
            raise
        return _fail(str(error))
    except MemoryError:
        return _fail("out of memory: ask for fewer cards, strategies or micro-batches")
    except OSError as error:  # standard output on a full disk
        if error.filename is not None and error.errno not in FULL_DISK and not debug:
            return _fail(f"{str(error.filename)[:200]!r}: {error.strerror}: must be a file or folder that can be used")
        if error.errno not in FULL_DISK or debug:
            return _internal(error, debug)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _fail("standard output cannot be written: the disk is full")
    except Exception as error:
        if hasattr(error, "format_message"):  # usage errors of the command-line parser
            return _fail(_usage(error))
        return _internal(error, debug)


def _internal(error: Exception, debug: bool) -> int:
    if debug:
        raise error
    return _fail(f"internal error: {type(error).__name__}: {error} (AUTODEPLOY_DEBUG=1 shows where)", INTERNAL_ERROR)


def _collect_seldom() -> None:
    """Python's default looks for cycles after every 700 new objects, and three times more on the way out: a sixth of the time
    of a short command, and there is next to nothing to find."""
    gc.set_threshold(100_000, 20, 20)
    atexit.register(gc.freeze)


def _take_interrupts() -> None:
    """From here on Ctrl-C is an exception: what was found until then is printed (see ``autodeploy.cli``)."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _usage(error: Any) -> str:
    message = error.format_message() or "a command is missing"
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "autodeploy"
    return f"{message} (see: {path} --help)"


def _fail(message: str, code: int = BAD_INPUT) -> int:
    one_line = " ".join(message.split())
    print(f"autodeploy: error: {one_line}", file=sys.stderr)
    return code


def run() -> None:
    """Entry point of the installed script."""
    sys.exit(main())


if __name__ == "__main__":
    run()
