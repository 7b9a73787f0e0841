"""Ctrl-C in the command, before its parser handles it: the process ends without a stack trace.

While the modules are imported, which takes a second, no code of ours can catch it.
"""

from __future__ import annotations

import signal
import sys


def end_quietly() -> None:
    """Let SIGINT end this process, as the shell expects, if it is the command `eos` and SIGINT is not ignored."""
    if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_again() -> None:
    """Let SIGINT raise KeyboardInterrupt, unless it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def is_command() -> bool:
    """Return whether this process is the command: its console script, or Python looking up the module of `-m eos`."""
    started = sys.argv[0] if sys.argv else ""
    return started.rpartition("/")[2] == "eos" or (started == "-m" and "eos" in sys.orig_argv)
