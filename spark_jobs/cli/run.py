"""`eos run`: starts Spark, runs pipelines in it, and ends them cleanly on Ctrl-C and SIGTERM."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from rich.text import Text

from connectors.spec import Spec, promise
from connectors.sql.entry import UPSERT
from eos.errors import FencedError
from spark_jobs.batch.chaining import may_chain
from spark_jobs.cli.output import out
from spark_jobs.cli.quantities import count, position
from spark_jobs.cli.transfers import shown_transfers
from spark_jobs.cli.ui import held_by_sinks, shown_entry
from spark_jobs.observe.checkpoint_listener import CheckpointListener, listened
from spark_jobs.observe.console import ConsoleListener, shown
from spark_jobs.observe.history.recorder import recorded
from spark_jobs.observe.lineage.listener import lineage_of
from spark_jobs.observe.notifications.notifier import notified
from spark_jobs.observe.report import Listeners, LogListener
from spark_jobs.observe.run_lock import check_not_running
from spark_jobs.observe.traces import traced
from spark_jobs.operations.from_savepoint import Allowed, Beginning, begin
from spark_jobs.operations.repeated_records import Repeated
from spark_jobs.page.live_view import Beside
from spark_jobs.run.control import StopControl
from spark_jobs.run.multi_pipeline import FAIR, check_together, run_all, sessions_of
from spark_jobs.run.runner import Runner
from spark_jobs.run.standby import await_turn
from spark_jobs.run.stop_signals import StopSignals
from spark_jobs.run.warm_up import kept_warm, warm_up
from spark_jobs.session.master import check_sinks
from spark_jobs.session.spark_session import spark_session
from spark_jobs.session.stderr_log import StderrLog
from spark_jobs.session.submitted import given_settings, is_submitted, settle

if TYPE_CHECKING:
    from spark_jobs.page.opening import PageOptions

_log: Final = logging.getLogger("eos.runner")

_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class _Run:
    """One of the pipelines."""

    spec: Spec
    progress: ConsoleListener
    control: StopControl
    listener: CheckpointListener | None = None
    run_id: str = field(default_factory=lambda: secrets.token_hex(8))

    def run(self, spark: SparkSession, beside: Beside, *, until_caught_up: bool, standby: bool = False) -> None:
        """Block until it ends; in its own thread. `standby`: wait until no other driver runs it, and after fencing."""
        each, shown = self, Listeners([self.progress, *beside.listeners])
        while not standby or self._await_turn(spark, shown.on_state):
            try:
                each.run_now(spark, beside, until_caught_up=until_caught_up)
            except FencedError as error:
                if not standby:
                    raise
                _log.warning("%s; this driver is a standby now", error.message)
                each = replace(self, run_id=secrets.token_hex(8))
            else:
                return
        shown.on_state("stopped")

    def _await_turn(self, spark: SparkSession, on_state: Callable[[str], None]) -> bool:
        with kept_warm(spark, self.spec):
            return await_turn(self.spec, self.control.is_stopping, on_state)

    def run_now(self, spark: SparkSession, beside: Beside, *, until_caught_up: bool) -> None:
        """Block until it ends."""
        spec = self.spec
        with (
            recorded(spec, self.run_id, self.control.ending) as recorder,
            traced(spec, self.run_id) as traces,
            notified(spec) as notices,
            lineage_of(spec) as lineage,
            listened(spec, self.listener) as listeners,
        ):
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", spec.pipeline)
            own = [LogListener(spec.pipeline), self.progress, recorder, StderrLog(spec.checkpoint.folder)]
            listener = Listeners([*own, *beside.listeners, *traces, *notices, *lineage, *listeners])
            runner = Runner(spec, spark, listener, until_caught_up, self.control, self.run_id, beside.url)
            beside.live.is_steered, beside.live.activity = runner.is_steered, runner.activity
            beside.live.spark_ui = spark.sparkContext.uiWebUrl
            runner.run()


def run_pipelines(
    specs: Sequence[Spec],
    console: Console,
    *,
    until_caught_up: bool,
    debug: bool,
    take_over: bool = True,
    standby: bool = False,
    page: PageOptions | None = None,
    savepoint: Allowed | None = None,
    stop: threading.Event | None = None,
    listener: CheckpointListener | None = None,
) -> None:
    """Run until stopped or caught up. Raises ConnectorError; returns after a clean stop.

    `take_over`: start although another process on this machine runs one of them. `standby`: wait for its end instead.
    `page`: served meanwhile.
    `savepoint`: of one pipeline alone: begin from this, if that is possible as it is allowed. `stop`: once it is set,
    every pipeline stops as it does after one signal. `listener`: gets their checkpoints.
    """
    check_together(specs)
    controls = [StopControl() for _ in specs]
    signals = StopSignals(controls)
    if is_submitted(os.environ):
        given = given_settings()
        specs = [settle(spec, given, Path.cwd()) for spec in specs]
        signals.in_jvm()  # which runs already
    for spec in specs:
        console.print(f"{spec.pipeline}: {promise(spec)}", highlight=False, soft_wrap=True)
    runs = [
        _Run(spec, ConsoleListener(spec.pipeline, console, partial(_stop_all, controls)), control, listener)
        for spec, control in zip(specs, controls, strict=True)
    ]
    with _page(runs, page) as beside, shown([each.progress for each in runs], console), _stopped_by(stop, controls):
        signals.here()
        start = partial(_session, specs, debug=debug, archive_classes=until_caught_up)
        with ThreadPoolExecutor(1) as starter:  # PySpark takes over Ctrl-C where it starts in the main thread
            spark = starter.submit(start).result()
        try:
            signals.in_jvm()
            if standby:
                warm_up(spark, specs)
            for spec in specs if not (take_over or standby) else ():
                check_not_running(spec)  # Spark's start took seconds
            if savepoint is not None:
                (spec,) = specs
                with shown_transfers(runs[0].progress.on_state) if console.is_terminal else nullcontext():
                    begin(spec, spark, savepoint, partial(tell, spec, console))
            each_with = zip(runs, sessions_of(spark, specs), beside, strict=True)
            run_all(
                {
                    run.spec.pipeline: partial(run.run, session, own, until_caught_up=until_caught_up, standby=standby)
                    for run, session, own in each_with
                }
            )
        finally:
            with suppress(Py4JError, ConnectionError):  # its JVM may have ended before, which is told already
                spark.stop()


def _stop_all(controls: Sequence[StopControl]) -> None:
    for control in controls:
        control.requested = control.requested or "the output of the run was closed"


@contextmanager
def _stopped_by(stop: threading.Event | None, controls: Sequence[StopControl]) -> Iterator[None]:
    """Request a stop of all pipelines once the event is set, as long as the block runs."""
    if stop is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            if stop.wait(_POLL_S):
                for control in controls:
                    control.requested = control.requested or "the program has asked to stop"
                return

    watcher = threading.Thread(target=watch, name="eos-stop", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


@contextmanager
def _page(runs: Sequence[_Run], options: PageOptions | None) -> Iterator[Sequence[Beside]]:
    """Serve the page of all of them, if there is to be one, and print where."""
    if options is None:
        yield [Beside() for _ in runs]
        return
    from spark_jobs.page.opening import served_beside  # its libraries take a quarter of a second

    specs, run_ids = [each.spec for each in runs], [each.run_id for each in runs]
    with served_beside(specs, run_ids, options, held_by_sinks, lambda page: shown_entry(page, specs[0])) as pages:
        yield pages


def _session(specs: Sequence[Spec], *, debug: bool, archive_classes: bool) -> SparkSession:
    """Spark's own log goes to one location, and the modules beside one spec are sent to the workers.

    A pipeline that runs for weeks is not to be slowed by what would hasten its next start (`archive_classes`).
    """
    for spec in specs[1:]:
        check_sinks(spec)
    steps = (spec for spec in specs if spec.has_python_steps)
    more = FAIR if len(specs) > 1 else {}
    return spark_session(
        next(steps, specs[0]),
        debug=debug,
        archive_classes=archive_classes,
        compile_fast=all(map(may_chain, specs)),
        more=more,
    )


def tell(spec: Spec, console: Console, beginning: Beginning) -> None:
    """Print it."""
    for each in _lines(spec, beginning):
        console.print(each)
    if beginning.repeated.splits:
        console.print(_table(beginning.repeated))


def _lines(spec: Spec, beginning: Beginning) -> Iterator[Text]:
    manifest = beginning.manifest
    yield out.text(f"{spec.pipeline}: from savepoint {manifest.id}, checkpoint {manifest.checkpoint_id}", "bold")
    if beginning.forks:
        yield out.text(f"  It belongs to {manifest.pipeline}: this pipeline is a fork of it.")
    yield from (out.text(f"  {each}") for each in beginning.changes.changes)
    yield from (out.text(f"  not restored: {each}") for each in beginning.changes.not_restored)
    if beginning.changes.operators is None:
        yield out.text("  Positions are restored, but no state: checkpoints are counted from 0.")
    if beginning.goes_on:
        yield out.text("  The pipeline is still at the savepoint, and continues.")
        return
    for sink, incarnation in beginning.foreign.items():
        yield out.text(f"  sink {sink} is claimed by another incarnation of the pipeline ( {incarnation})")
    if beginning.repeated.any:
        yield out.text(f"  {beginning.repeated}", "bold")
        for entry in spec.outputs:
            yield out.text(f"  sink {entry.name}: {_effect(entry.commit, beginning.repeated.rows.get(entry.name))}")


def _effect(commit: str, rows: int | None) -> str:
    if commit == UPSERT:
        return (
            "shows older values again until the pipeline is where it was, and then the same ones as now, if steps give "
            "the same rows"
        )
    return "these rows are written twice" if rows is None else f"{rows:,} rows are written twice"


def _table(repeated: Repeated) -> Table:
    shown = Table(caption="in offsets: transaction markers and compacted records count too", caption_justify="left")
    for heading in ("split", "from", "to", "written twice"):
        shown.add_column(heading, justify="left" if heading == "split" else "right", overflow="fold")
    for each in repeated.splits:
        numbers = (position(each.start), position(each.end), count(each.records))
        shown.add_row(*map(out.text, (f"{each.source}: {each.split}", *numbers)))
    return shown
