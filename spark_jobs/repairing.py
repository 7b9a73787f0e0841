"""Runs one of Spark's batches again beside the pipeline, to write what its checkpoint has lost (R7).

A copy of Spark's checkpoint as it was before that batch has Spark plan it once more: the same offsets, pieces and
tasks, under the same numbers. It is made from head's records; of a query with state from Spark's own files, which
Spark keeps for some batches more than can wait for a repair. The pipeline's own checkpoint is only read.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from connectors.contracts import Sink, Source
from connectors.registry import build_sink, build_source
from connectors.spec import Spec
from spark_jobs.again import AgainTask
from spark_jobs.batch import SparkBatch
from spark_jobs.branches import Branch
from spark_jobs.failures import TOKEN, translate
from spark_jobs.pipeline import Began, build, output_mode, sink_rows
from spark_jobs.plan import is_deterministic, is_stateful
from spark_jobs.savepoint.spark_files import needed, state_ids
from spark_jobs.spark_log import LocalSparkLog
from twophase.errors import (
    ConnectorError,
    IdentityError,
    OffsetOutOfRangeError,
    PrepareError,
    ReplayMismatchError,
    SpecError,
)
from twophase.ids import Scope
from twophase.messages import Acknowledged, Failed
from twophase.status import Status
from twophase.values import CheckpointRecord, Committable, StartingPoint

_log: Final = logging.getLogger("eos.repair")


class _DoneError(Exception):
    """Ends the query from inside, before Spark takes the batch for done. Never seen outside."""


@dataclass(slots=True)
class Rerun:
    """One checkpoint's batch, to be run again. `check` first; then it is called, as twophase.effects.WriteAgain."""

    spec: Spec
    spark: SparkSession
    history: Status
    _sources: Sequence[Source] = field(init=False)
    _sinks: Sequence[Sink] = field(init=False)

    def __post_init__(self) -> None:
        """Opens nothing."""
        self._sources = [build_source(entry) for entry in self.spec.sources]
        self._sinks = [build_sink(self.spec, entry) for entry in self.spec.sinks]

    def check(self, record: CheckpointRecord) -> None:
        """Whether the same rows can come again, as far as that is known before. Changes nothing.

        Raises SpecError for steps that are not deterministic, or state that Spark has deleted; SavepointError for state
        that is damaged; OffsetOutOfRangeError for records that are gone; IdentityError for other sources; SourceError.
        """
        if self.spec.dead_letter is not None:
            message = (
                "a pipeline with a `dead_letter` sink cannot be repaired yet: what was put aside would not be found"
            )
            raise SpecError(message, remedy=_RESTART)
        head = self.history.head
        stored, names = head.initial.keys(), [source.name for source in self._sources]
        if stored != set(names):
            message = (
                f"head holds the positions of {', '.join(sorted(stored))}; the spec's sources are {', '.join(names)}"
            )
            raise IdentityError(message, remedy="change the sources back for the repair")
        frames = sink_rows(self.spark, self.spec, self._sources, self._began())
        for sink, rows in frames.items():
            if not is_deterministic(rows):
                message = f"sink {sink}: a step of it is not deterministic, so that other rows would be written"
                raise SpecError(message, remedy=_RESTART)
        if any(map(is_stateful, frames.values())):
            self._state_before(record)
        for entry in self.spec.sources:
            ranges = record.ranges.get(entry.name, ())
            known = StartingPoint(head.positions[entry.name], head.identities[entry.name])
            build_source(entry).horizon(known)  # a topic that was made again has other records under these offsets
            forgiving = build_source(entry.model_copy(update={"fail_on_data_loss": False}))
            if gone := forgiving.lost(ranges):
                told = ", ".join(f"{each.split}[{each.start}, {each.end})" for each in gone)
                message = f"source {entry.name} no longer has all records of checkpoint {record.checkpoint_id}: {told}"
                message += " are gone, so that its rows cannot be written again"
                raise OffsetOutOfRangeError(message, remedy=_RESTART)

    def __call__(
        self, scope: Scope, record: CheckpointRecord, lost: Mapping[str, tuple[Committable, ...]]
    ) -> Acknowledged | Failed:
        """See twophase.effects.WriteAgain. Blocks until the query has ended."""
        wanted = {(each.transaction.sink, each.transaction.task): each for group in lost.values() for each in group}
        answers: list[Acknowledged | Failed] = []
        failures: list[BaseException] = []

        def task(branch: Branch) -> AgainTask:
            return AgainTask(scope, branch.shares, len(branch.hashes) if pipeline.stateful else 0, wanted, TOKEN)

        def on_batch(frame: DataFrame, number: int) -> None:
            try:
                if number != record.checkpoint_id:
                    message = f"Spark planned batch {number} and not {record.checkpoint_id}"
                    raise ReplayMismatchError(message, remedy="Spark's checkpoint was changed; restore it")
                batch = SparkBatch(frame, number, pipeline.flow, pipeline.stateful, self.spec.checkpoint.timeout_s)
                answers.append(batch.acknowledged(task))
                raise _DoneError
            except BaseException as error:  # kept as it is: Spark passes on nothing but its text
                failures.append(error)
                raise

        try:
            pipeline = build(self.spark, self.spec, self._sources, self._sinks, self._began())
            with self._checkpoint(record, stateful=pipeline.stateful) as folder:
                _log.info("reading checkpoint %d again", record.checkpoint_id)
                writer = pipeline.rows.writeStream.foreachBatch(on_batch).outputMode(output_mode(self.spec))
                query = writer.option("checkpointLocation", f"file://{folder}").start()
                try:
                    query.awaitTermination()
                finally:
                    query.stop()
        except ConnectorError as error:
            return Failed(error)
        except (PySparkException, Py4JError, OSError) as error:  # of the temporary folder, too
            if not answers:
                return Failed(translate(failures[0] if failures else error, f"checkpoint {record.checkpoint_id}"))
        if answers and isinstance(answers[0], Acknowledged):
            _log.info("%d transactions of checkpoint %d are prepared again", len(wanted), record.checkpoint_id)
        return answers[0] if answers else Failed(PrepareError(f"Spark did not run batch {record.checkpoint_id} again"))

    def _began(self) -> Began:
        head, names = self.history.head, [source.name for source in self._sources]
        return {name: StartingPoint(head.initial[name], head.identities[name]) for name in names}

    @contextmanager
    def _checkpoint(self, record: CheckpointRecord, *, stateful: bool) -> Iterator[Path]:
        """What Spark had when it planned this batch; deleted at the end."""
        number, own = record.checkpoint_id, self._spark_folder(record)
        with tempfile.TemporaryDirectory(prefix="eos-repair-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            for path in self._state_before(record) if stateful else ["metadata"]:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(own / path, folder / path)
            for log in ("offsets", "commits"):
                (folder / log).mkdir(exist_ok=True)
            if number > 0 and not stateful:  # head keeps the record before the first that is not committed
                plans = {each.checkpoint_id: each.offsets_log for each in self.history.checkpoints}
                (folder / "offsets" / str(number - 1)).write_text(plans[number - 1])
                (folder / "commits" / str(number - 1)).write_text(_COMMITTED)
            (folder / "offsets" / str(number)).write_text(record.offsets_log)
            yield folder

    def _state_before(self, record: CheckpointRecord) -> list[str]:
        """What of Spark's checkpoint the state before that batch is made of. Raises as `check` does."""
        number = record.checkpoint_id
        if number == 0:
            return ["metadata"]
        folder = self._spark_folder(record)
        try:
            if not state_ids((folder / "commits" / str(number - 1)).read_text()):
                message = f"the steps keep state, and those that made checkpoint {number} kept none"
                raise SpecError(message, remedy="change the steps back for the repair")
            return needed(folder, number - 1)
        except FileNotFoundError as error:
            message = f"the state before checkpoint {number} is no longer whole: {error.filename or error} is gone"
            raise SpecError(message, remedy=_RESTART) from error

    def _spark_folder(self, record: CheckpointRecord) -> Path:
        return LocalSparkLog(self.spec.checkpoint.location).folder(record.scope.incarnation)


_COMMITTED: Final = 'v1\n{"nextBatchWatermarkMs":0}'
"""What Spark writes to `commits/N`."""

_RESTART: Final = (
    "restore what the sink has lost from a backup; or go on without it by `eos reset --abandon-lost`, which names the "
    "offsets, with `--to` where the next life is to begin"
)
