"""`eos run`: starts Spark, runs the pipeline, and ends it cleanly on Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
from types import FrameType

from rich.console import Console

from connectors.spec import Spec
from spark_jobs.console import ConsoleListener
from spark_jobs.report import LogListener
from spark_jobs.runner import Runner
from spark_jobs.session import spark_session


def run_pipeline(spec: Spec, console: Console, *, until_caught_up: bool, debug: bool) -> None:
    """Run until stopped or caught up. Raises ConnectorError; returns after a clean stop."""
    progress = ConsoleListener(spec.pipeline, console)
    with progress.shown():
        runner = Runner(spec, spark_session(spec, debug=debug), [LogListener(spec.pipeline), progress], until_caught_up)
        _stop_on_signals(runner)
        try:
            runner.run()
        finally:
            runner.spark.stop()


def _stop_on_signals(runner: Runner) -> None:
    """The first signal lets the running checkpoint finish, the second aborts it: either way nothing stays prepared."""
    control = runner.control

    def handle(number: int, _frame: FrameType | None) -> None:
        control.abort_running = bool(control.requested)
        control.requested = f"{signal.Signals(number).name} received"

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)
