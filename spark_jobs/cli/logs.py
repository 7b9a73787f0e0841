"""Where log lines go while a pipeline runs: to stderr, without secrets."""

from __future__ import annotations

import logging
import sys

from spark_jobs.cli.output import out

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _MaskingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """The whole line is masked, with what an argument or a stack trace brought into it."""
        return out.mask(super().format(record))


def log_to_stderr() -> None:
    """Set up the framework's loggers for this process. Called once, by the commands that start the protocol.

    A terminal has the live line and gets warnings only; elsewhere there is one line for each checkpoint.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_MaskingFormatter(_FORMAT))
    root = logging.getLogger("eos")
    root.handlers = [handler]
    root.propagate = False
    root.setLevel(logging.DEBUG if out.debug else logging.WARNING if sys.stderr.isatty() else logging.INFO)
