"""`eos run`: starts Spark, runs the pipeline, and ends it cleanly on Ctrl-C and SIGTERM."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from rich.console import Console

from connectors.spec import Spec, promise
from spark_jobs.cli.page_options import held_by_sinks, show_entry
from spark_jobs.console import ConsoleListener
from spark_jobs.control import StopControl
from spark_jobs.history.recorder import recorded
from spark_jobs.page.live import Beside
from spark_jobs.report import LogListener
from spark_jobs.runner import Runner
from spark_jobs.session import spark_session
from spark_jobs.stop_signals import StopSignals
from spark_jobs.submitted import given_settings, is_submitted, settle
from spark_jobs.traces import traced

if TYPE_CHECKING:
    from spark_jobs.page.opening import PageOptions


def run_pipeline(
    spec: Spec, console: Console, *, until_caught_up: bool, debug: bool, page: PageOptions | None = None
) -> None:
    """Run until stopped or caught up. Raises ConnectorError; returns after a clean stop. `page`: served meanwhile."""
    control, run_id = StopControl(), secrets.token_hex(8)
    signals = StopSignals(control)
    if is_submitted(os.environ):
        spec = settle(spec, given_settings(), Path.cwd())
        signals.in_jvm()
    console.print(f"{spec.pipeline}: {promise(spec)}", highlight=False, soft_wrap=True)
    progress = ConsoleListener(spec.pipeline, console)
    with (
        _page([spec], [run_id], page) as (beside,),
        progress.shown(),
        recorded(spec, run_id, control.ending) as recorder,
        traced(spec, run_id) as traces,
    ):
        signals.here()
        with ThreadPoolExecutor(1) as starter:  # PySpark takes over Ctrl-C where it starts in the main thread
            # A pipeline that runs for weeks is not to be slowed by what would hasten its next start.
            spark = starter.submit(spark_session, spec, debug=debug, archive_classes=until_caught_up).result()
        try:
            listeners = [LogListener(spec.pipeline), progress, recorder, *beside.listeners, *traces]
            runner = Runner(spec, spark, listeners, until_caught_up, control, run_id, beside.url)
            beside.live.is_steered = runner.is_steered
            runner.run()
        finally:
            with suppress(Py4JError, ConnectionError):  # its JVM may have ended before, which is told already
                spark.stop()


@contextmanager
def _page(specs: Sequence[Spec], run_ids: Sequence[str], options: PageOptions | None) -> Iterator[Sequence[Beside]]:
    """Serve the page of all of them, if there is to be one, and print where."""
    if options is None:
        yield [Beside() for _ in specs]
        return
    from spark_jobs.page.beside import served_beside  # its libraries take a quarter of a second

    with served_beside(specs, run_ids, options, held_by_sinks, lambda page: show_entry(page.entry)) as pages:
        yield pages
