"""Runs one of Spark's batches again beside the pipeline, to write what its checkpoint has lost (R7).

A copy of Spark's checkpoint as it was before that batch has Spark plan it once more: the same offsets, pieces and
tasks, under the same numbers. It is made from head's records; of a query with state from Spark's own files, as far as
Spark still has them. The pipeline's own checkpoint is only read.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from connectors.api.contracts import Sink, Source
from connectors.registry import build_sink, build_source
from connectors.spec import Spec
from eos.errors import (
    ConnectorError,
    IdentityError,
    OffsetOutOfRangeError,
    PrepareError,
    ReplayMismatchError,
    SavepointError,
    SpecError,
)
from spark_jobs.batch.batch import SparkBatch
from spark_jobs.batch.rewriting import Lost, kept
from spark_jobs.query.plan import is_deterministic, is_stateful
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.query.state_files import needed, state_ids
from spark_jobs.run.pipeline import Began, build, output_mode, sink_rows
from spark_jobs.session.failures import translate
from spark_jobs.session.locked_dirs import temporary_at
from twophase.ids import Scope
from twophase.messages import Acknowledged, Failed
from twophase.repair import Loss
from twophase.status import Status
from twophase.values import CheckpointRecord, StartingPoint
from twophase.verify import check_digest_method

_log: Final = logging.getLogger("eos.repair")

_RESTART: Final = (
    "restore what the sink has lost from a backup; or go on without it by `eos reset --abandon-lost`, which names the "
    "offsets; `--to` sets the start of the next incarnation"
)
_COMMITTED: Final = 'v1\n{"nextBatchWatermarkMs":0}'
"""What Spark writes to `commits/N`."""


class _DoneError(Exception):
    """Ends the query from inside, before Spark takes the batch for done. Never seen outside."""


@dataclass(slots=True)
class Rerun:
    """One checkpoint's batch, to be run again. `check` first; then it is called, as twophase.effects.RewriteJob."""

    spec: Spec
    spark: SparkSession
    history: Status
    _sources: Sequence[Source] = field(init=False)
    _sinks: Sequence[Sink] = field(init=False)
    _letters: Sink | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Opens nothing."""
        self._sources = [build_source(entry) for entry in self.spec.sources]
        self._sinks = [build_sink(self.spec, entry) for entry in self.spec.sinks]
        if self.spec.dead_letter is not None:
            self._letters = build_sink(self.spec, self.spec.dead_letter)

    def check(self, loss: Loss) -> None:
        """Whether the same rows can come again, as far as that is known before. Changes nothing.

        Raises SpecError for steps that are not deterministic, or state that Spark has deleted; HeadFormatError for row
        digests that this version does not compute; SavepointError for state that is damaged; OffsetOutOfRangeError for
        records that are gone; ReplayMismatchError for dead letters that nobody can find again; IdentityError for other
        sources, and for a `dead_letter` that the pipeline has never had; SourceError.
        """
        record, head = loss.record, self.history.head
        check_digest_method(record)
        if self._letters is not None and self._letters.name not in head.sinks:
            message = f"sink {self._letters.name} is new to this pipeline, which has lost something"
            raise IdentityError(message, remedy="leave it out for the repair; it may join at the next start")
        if (unknown := self._unknown(record, loss.lost)) is not None:
            raise unknown
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
            self._before(record, stateful=True).files()
        for entry in self.spec.sources:
            ranges = record.ranges.get(entry.name, ())
            known = StartingPoint(head.positions[entry.name], head.identities[entry.name])
            build_source(entry).horizon(known)  # a topic that was made again has other records under these offsets
            forgiving = build_source(entry.tolerating_loss())
            if gone := forgiving.lost_ranges(ranges):
                told = ", ".join(f"{each.split}[{each.start}, {each.end})" for each in gone)
                message = f"source {entry.name} no longer has all records of checkpoint {record.checkpoint_id}: {told}"
                message += " are gone, so that its rows cannot be written again"
                raise OffsetOutOfRangeError(message, remedy=_RESTART)

    def __call__(self, scope: Scope, record: CheckpointRecord, lost: Lost) -> Acknowledged | Failed:
        """See twophase.effects.RewriteJob. Blocks until the query has ended."""
        if (unknown := self._unknown(record, lost)) is not None:
            return Failed(unknown)
        letters = self._letters_of(record)
        answers: list[Acknowledged | Failed] = []
        failures: list[BaseException] = []

        def on_batch(frame: DataFrame, number: int) -> None:
            try:
                if number != record.checkpoint_id:
                    message = f"Spark planned batch {number} and not {record.checkpoint_id}"
                    raise ReplayMismatchError(message, remedy="Spark's checkpoint was changed; restore it")
                timeout_s = self.spec.checkpoint.timeout_s
                batch = SparkBatch(
                    frame,
                    number,
                    pipeline.flow,
                    pipeline.stateful,
                    timeout_s,
                    pipeline.letters,
                    record.ranges,
                    chains=pipeline.chains,
                    naming=pipeline.naming,
                )
                answers.append(batch.rewrite_missing(scope, record, lost))
                raise _DoneError
            except BaseException as error:  # kept as it is: Spark passes on nothing but its text
                failures.append(error)
                raise

        try:
            known = self.history.head.schemas
            pipeline = build(self.spark, self.spec, self._sources, self._sinks, self._began(), letters, schemas=known)
            with self._before(record, stateful=pipeline.stateful).copied() as folder:
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
            count = sum(map(len, lost.values()))
            _log.info("%d transactions of checkpoint %d are prepared again", count, record.checkpoint_id)
        return answers[0] if answers else Failed(PrepareError(f"Spark did not run batch {record.checkpoint_id} again"))

    def _letters_of(self, record: CheckpointRecord) -> Sink | None:
        """The sink of dead letters, if the pipeline had it at that checkpoint: without it rows were shared out in
        another way."""
        return self._letters if self._letters is not None and self._letters.name in record.committables else None

    def _unknown(self, record: CheckpointRecord, lost: Lost) -> ReplayMismatchError | None:
        """Why nobody can find the dead letters of refused rows again; None where that is not needed, or possible.

        Which rows a sink refused is found where it is given the rows again: only where it has lost them, too. A table
        that holds the others would refuse those by their keys. Of a task of which it has none, it refused all.
        """
        letters = self._letters_of(record)
        if letters is None or letters.name not in lost:
            return None
        number = record.checkpoint_id
        has_kept = False
        for sink, each in kept(record, lost):
            has_kept = has_kept or (sink == letters.name and each.rows > 0)
            if each.refused and each.rows:
                message = f"sink {sink} refused {each.refused} rows of checkpoint {number} in task "
                message += f"{each.transaction.task}, of which dead letters are lost; it has the task's other rows, so "
                message += "that nothing tells which rows it refused"
                return ReplayMismatchError(message, remedy=_RESTART)
        refused = sum(each.refused for group in record.committables.values() for each in group)
        if refused and has_kept:
            message = f"some of the dead letters of checkpoint {number} are lost and others are not, and sinks refused "
            message += f"{refused} of its rows: nothing tells the dead letters of which are lost"
            return ReplayMismatchError(message, remedy=_RESTART)
        return None

    def _began(self) -> Began:
        head, names = self.history.head, [source.name for source in self._sources]
        return {name: StartingPoint(head.initial[name], head.identities[name]) for name in names}

    def _before(self, record: CheckpointRecord, *, stateful: bool) -> CheckpointBefore:
        plans = {each.checkpoint_id: each.offsets_log for each in self.history.checkpoints}
        return CheckpointBefore(self.spec.checkpoint.folder, record, None if stateful else plans, _RESTART)


@dataclass(frozen=True, slots=True)
class CheckpointBefore:
    """What Spark had when it planned the batch of `record`: a query over a copy of it plans that batch once more."""

    location: Path  # checkpoint.location of the spec
    record: CheckpointRecord
    plans: Mapping[int, str] | None  # `offsets/N` by checkpoint, as head has them; None: the query keeps state
    remedy: str  # of state that is gone

    def files(self) -> list[str]:
        """Paths in Spark's folder that the copy begins with.

        Raises SpecError where Spark has deleted some, or had no state; SavepointError for what cannot be read.
        """
        number, folder = self.record.checkpoint_id, self._own()
        if self.plans is not None or number == 0:
            return ["metadata"]
        try:
            if not state_ids((folder / "commits" / str(number - 1)).read_text()):
                message = f"the steps keep state, and those that made checkpoint {number} kept none"
                raise SpecError(message, remedy="change the steps back for the repair")
            return needed(folder, number - 1)
        except SavepointError as error:
            raise SavepointError(error.message, remedy=self.remedy) from error
        except FileNotFoundError as error:
            message = f"the state before checkpoint {number} is no longer whole: {error.filename or error} is gone"
            raise SpecError(message, remedy=self.remedy) from error

    @contextmanager
    def copied(self) -> Iterator[Path]:
        """The copy, for this block. Raises what `files` raises, and OSError."""
        number = self.record.checkpoint_id
        with temporary_at(self.location, "repair") as folder:
            for path in self.files():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self._own() / path, folder / path)
            for log in ("offsets", "commits"):
                (folder / log).mkdir(exist_ok=True)
            if self.plans is not None and number > 0:  # head keeps the record before the first that is not committed
                (folder / "offsets" / str(number - 1)).write_text(self.plans[number - 1])
                (folder / "commits" / str(number - 1)).write_text(_COMMITTED)
            (folder / "offsets" / str(number)).write_text(self.record.offsets_log)
            yield folder

    def _own(self) -> Path:
        return LocalSparkLog(self.location).folder(self.record.scope.incarnation)
