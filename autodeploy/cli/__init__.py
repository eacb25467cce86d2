"""The command line. Until a command runs there is nothing to rank: Ctrl-C then ends the process at once, without a
traceback of half-finished imports. ``app.main`` takes over."""

import contextlib
import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    with contextlib.suppress(ValueError):  # not the main thread: a program that uses the command line as a library
        signal.signal(signal.SIGINT, signal.SIG_DFL)
