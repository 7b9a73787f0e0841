"""`eos run`: starts Spark, runs the pipeline, and ends it cleanly on Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import FrameType

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from rich.console import Console

from connectors.spec import Spec, promise
from spark_jobs.cli.from_savepoint import tell
from spark_jobs.console import ConsoleListener
from spark_jobs.control import StopControl
from spark_jobs.report import LogListener
from spark_jobs.runner import Runner
from spark_jobs.savepoint.start import Allowed, begin
from spark_jobs.session import spark_session


def run_pipeline(
    spec: Spec, console: Console, *, until_caught_up: bool, debug: bool, savepoint: Allowed | None = None
) -> None:
    """Run until stopped or caught up. Raises ConnectorError; returns after a clean stop.

    `savepoint`: begin from this one, if that is possible as it is allowed.
    """
    console.print(f"{spec.pipeline}: {promise(spec)}", highlight=False, soft_wrap=True)
    progress = ConsoleListener(spec.pipeline, console)
    with progress.shown():
        control = StopControl()
        _stop_on_signals(control)
        with ThreadPoolExecutor(1) as starter:  # PySpark takes over Ctrl-C where it starts in the main thread
            # A pipeline that runs for weeks is not to be slowed by what would hasten its next start.
            spark = starter.submit(spark_session, spec, debug=debug, archive_classes=until_caught_up).result()
        try:
            if savepoint is not None:
                begin(spec, spark, savepoint, partial(tell, spec, console))
            Runner(spec, spark, [LogListener(spec.pipeline), progress], until_caught_up, control).run()
        finally:
            with suppress(Py4JError, ConnectionError):  # its JVM may have ended before, which is told already
                spark.stop()


def _stop_on_signals(control: StopControl) -> None:
    """The first signal lets the running checkpoint finish, the second aborts it: either way nothing stays prepared."""

    def handle(number: int, _frame: FrameType | None) -> None:
        control.abort_running = bool(control.requested)
        control.requested = f"{signal.Signals(number).name} received"

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)
