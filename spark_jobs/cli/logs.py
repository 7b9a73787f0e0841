"""Where log lines go while a pipeline runs: to stderr, without secrets."""

from __future__ import annotations

import logging
import sys

from spark_jobs.cli.output import out
from spark_jobs.masked_log import MASKING

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def log_to_stderr() -> None:
    """Set up the framework's loggers for this process. Called once, by the commands that start the protocol.

    A terminal has the live line and gets warnings only; elsewhere there is one line for each checkpoint.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    root = logging.getLogger("eos")
    root.handlers = [MASKING, handler]
    root.propagate = False
    root.setLevel(logging.DEBUG if out.debug else logging.WARNING if sys.stderr.isatty() else logging.INFO)
