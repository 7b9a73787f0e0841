"""`eos run`: starts Spark, runs the pipeline, and ends it cleanly on Ctrl-C and SIGTERM."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from rich.console import Console

from connectors.spec import Spec, promise
from spark_jobs.console import ConsoleListener
from spark_jobs.control import StopControl
from spark_jobs.report import LogListener
from spark_jobs.runner import Runner
from spark_jobs.session import spark_session
from spark_jobs.stop_signals import StopSignals
from spark_jobs.submitted import given_settings, is_submitted, settle


def run_pipeline(spec: Spec, console: Console, *, until_caught_up: bool, debug: bool) -> None:
    """Run until stopped or caught up. Raises ConnectorError; returns after a clean stop."""
    control = StopControl()
    signals = StopSignals(control)
    if is_submitted(os.environ):
        spec = settle(spec, given_settings(), Path.cwd())
        signals.in_jvm()
    console.print(f"{spec.pipeline}: {promise(spec)}", highlight=False, soft_wrap=True)
    progress = ConsoleListener(spec.pipeline, console)
    with progress.shown():
        signals.here()
        with ThreadPoolExecutor(1) as starter:  # PySpark takes over Ctrl-C where it starts in the main thread
            # A pipeline that runs for weeks is not to be slowed by what would hasten its next start.
            spark = starter.submit(spark_session, spec, debug=debug, archive_classes=until_caught_up).result()
        try:
            Runner(spec, spark, [LogListener(spec.pipeline), progress], until_caught_up, control).run()
        finally:
            with suppress(Py4JError, ConnectionError):  # its JVM may have ended before, which is told already
                spark.stop()
