"""Where log lines go while a pipeline runs: to stderr, without secrets."""

from __future__ import annotations

import logging
import sys

from spark_jobs.cli.output import out
from spark_jobs.observe.log_lines import MASKING, JsonLines, TextLines


def log_to_stderr() -> None:
    """Set up the framework's loggers for this process. Called once, by the commands that start the protocol.

    A terminal has the live line and gets warnings only; elsewhere, and as JSON, there is one line for each checkpoint.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if out.log_json else TextLines())
    root = logging.getLogger("eos")
    root.handlers = [MASKING, handler]
    root.propagate = False
    has_live_line = sys.stderr.isatty() and not out.log_json
    handler.setLevel(logging.WARNING if has_live_line and not out.debug else logging.NOTSET)
    root.setLevel(logging.DEBUG if out.debug else logging.INFO)  # the page shows all lines
