"""One query of a pipeline, from its start to its end: Spark's batches become checkpoints."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from connectors.contracts import Source
from connectors.spec import Spec
from spark_jobs.batch import SparkBatch
from spark_jobs.control import StopControl, StopRequestedError
from spark_jobs.failures import translate
from spark_jobs.pipeline import Pipeline
from spark_jobs.report import CheckpointReport, Listener
from spark_jobs.source_offset import SourceOffset
from spark_jobs.spark_log import LocalSparkLog, planned
from twophase.driver import Driver
from twophase.messages import Begin

_log = logging.getLogger("eos.runner")

_POLL_S = 0.2


@dataclass(slots=True)
class Epoch:
    """One query, from its start to its end, under one epoch."""

    spec: Spec
    control: StopControl
    listeners: Sequence[Listener]
    driver: Driver
    log: LocalSparkLog
    sources: Sequence[Source]
    pipeline: Pipeline
    until_caught_up: bool
    failure: BaseException | None = None  # what ended the query, as it was raised; Spark only passes its text on
    query: StreamingQuery | None = None

    def run(self) -> None:
        """Block until the query has ended; whatever ends it, no query of this epoch runs on."""
        self.query = self._start()
        try:
            self._wait(self.query)
        except (PySparkException, Py4JError, ConnectionError) as error:
            self.failure = self.failure or translate(error, "the query")
        if self.failure is not None and not isinstance(self.failure, StopRequestedError):
            raise self.failure

    def _wait(self, query: StreamingQuery) -> None:
        try:
            while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]  # fractions are fine
                if self.control.is_stopping():
                    self.control.wait_until_idle()
                    break
        finally:
            query.stop()  # nothing happens if it has ended by itself

    def _start(self) -> StreamingQuery:
        folder = self.log.folder(self.driver.owned.incarnation)
        writer = (
            self.pipeline.rows.writeStream.foreachBatch(self._on_batch)
            .outputMode(self.pipeline.output_mode)
            .queryName(f"eos {self.spec.pipeline}")
            .option("checkpointLocation", f"file://{folder}")  # not as_uri(): Hadoop would take %20 literally
        )
        if self.until_caught_up:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{round(self.spec.checkpoint.interval_s * 1000)} milliseconds")
        try:
            return writer.start()
        except PySparkException as error:
            raise translate(error, "the start of the query") from error

    def _on_batch(self, frame: DataFrame, checkpoint_id: int) -> None:
        """Spark's thread. Returning lets Spark write `commits/N`; raising ends the query."""
        batch = SparkBatch(frame, checkpoint_id, self.pipeline, self.spec.checkpoint.timeout_s)
        try:
            with self.control.checkpoint(batch):
                self._checkpoint(batch)
        except BaseException as error:
            self.failure = error
            raise

    def _checkpoint(self, batch: SparkBatch) -> None:
        number, incarnation = batch.checkpoint_id, self.driver.owned.incarnation
        query_id = self.log.query_id(incarnation)
        assert query_id is not None  # Spark writes it before the first batch
        self.driver.set_query(query_id)
        offsets_log = self.log.offsets_log(incarnation, number)
        self.log.sync_offsets(incarnation, number)
        plan = planned(offsets_log, [source.name for source in self.spec.sources])
        ends, began = {s: p.ends for s, p in plan.items()}, {s: p.began for s, p in plan.items()}
        begin = Begin(number, ends, offsets_log, time.time(), began)
        replayed = number <= self.driver.owned.completed
        if not replayed:
            self._tell_lost(plan)
        before_s = time.monotonic()
        record = self.driver.checkpoint(begin, batch)
        report = CheckpointReport(
            record=record,
            epoch=self.driver.owned.epoch,
            replayed=replayed,
            duration_s=time.monotonic() - before_s,
            durations_s=dict(self.driver.durations_s),
            lag=self._lag(),
        )
        for listener in self.listeners:
            listener.checkpoint(report)

    def _tell_lost(self, plan: Mapping[str, SourceOffset]) -> None:
        for source in self.sources:
            if source.name in plan:
                positions = self.driver.owned.positions.get(source.name, {})
                for each in source.lost(plan[source.name].ranges(positions)):
                    _log.warning("left out, retention has deleted it: %s, offsets [%d, %d)", *astuple(each))

    def _lag(self) -> int | None:
        """Records that were there when the last batch was planned and are not completed. From Spark's own progress."""
        progress = self.query.lastProgress if self.query is not None else None
        latest = [_offset(source.latestOffset) for source in progress.sources] if progress is not None else []
        head = self.driver.owned
        known = [each for each in latest if each is not None]
        return (
            sum(
                max(end - (head.position(each.source, split) or 0), 0)
                for each in known
                for split, end in each.ends.items()
            )
            if known
            else None
        )


def _offset(text: str | None) -> SourceOffset | None:
    value = json.loads(text) if text else None
    return SourceOffset.from_json(value) if isinstance(value, dict) else None
