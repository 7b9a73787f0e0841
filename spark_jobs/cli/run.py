"""`eos run`: starts Spark, runs the pipelines, and ends them cleanly on Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import FrameType

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from rich.console import Console

from connectors.spec import PythonStep, Spec, promise
from spark_jobs.console import ConsoleListener, shown
from spark_jobs.control import StopControl
from spark_jobs.master import check_sinks
from spark_jobs.report import LogListener
from spark_jobs.runner import Runner
from spark_jobs.session import spark_session
from spark_jobs.together import FAIR, check_together, run_all, sessions_of


def run_pipelines(specs: Sequence[Spec], console: Console, *, until_caught_up: bool, debug: bool) -> None:
    """Run until stopped or caught up. Raises ConnectorError; returns after a clean stop."""
    check_together(specs)
    for spec in specs:
        console.print(f"{spec.pipeline}: {promise(spec)}", highlight=False, soft_wrap=True)
    progress = [ConsoleListener(spec.pipeline, console) for spec in specs]
    with shown(progress, console):
        controls = [StopControl() for _ in specs]
        _stop_on_signals(controls)
        start = partial(_session, specs, debug=debug, archive_classes=until_caught_up)
        with ThreadPoolExecutor(1) as starter:  # PySpark takes over Ctrl-C where it starts in the main thread
            spark = starter.submit(start).result()
        try:
            runs = {
                spec.pipeline: partial(
                    _run, Runner(spec, session, [LogListener(spec.pipeline), line], until_caught_up, control)
                )
                for spec, session, line, control in zip(
                    specs, sessions_of(spark, specs), progress, controls, strict=True
                )
            }
            run_all(runs)
        finally:
            with suppress(Py4JError, ConnectionError):  # its JVM may have ended before, which is told already
                spark.stop()


def _session(specs: Sequence[Spec], *, debug: bool, archive_classes: bool) -> SparkSession:
    """Spark's own log goes to one location, and the modules beside one spec are sent to the workers.

    A pipeline that runs for weeks is not to be slowed by what would hasten its next start (`archive_classes`).
    """
    for spec in specs[1:]:
        check_sinks(spec)
    steps = (spec for spec in specs if any(isinstance(step, PythonStep) for step in spec.transforms))
    more = FAIR if len(specs) > 1 else {}
    return spark_session(next(steps, specs[0]), debug=debug, archive_classes=archive_classes, more=more)


def _run(runner: Runner) -> None:
    """In a thread of its own."""
    runner.spark.sparkContext.setLocalProperty("spark.scheduler.pool", runner.spec.pipeline)
    runner.run()


def _stop_on_signals(controls: Sequence[StopControl]) -> None:
    """The first signal lets running checkpoints finish, the second aborts them: either way nothing stays prepared."""

    def handle(number: int, _frame: FrameType | None) -> None:
        for control in controls:
            control.abort_running = bool(control.requested)
            control.requested = f"{signal.Signals(number).name} received"

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)
