"""`df.writeStream.format("eos")`: exactly once from any streaming query, without a function of one's own.

Register it once in a session: `spark.dataSource.register(EosSink)`.

Spark asks for the writer twice a batch, in two processes that share nothing: one plans the job and sends the writer to
the tasks, the other commits. The planner takes the pipeline over, which is an epoch for each batch, and permits the
tasks to prepare; what it holds, a version of head, travels with the writer to the tasks and back with what they
prepared. Whoever commits goes on only if head is still at that version.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from connectors.contracts import Sink
from connectors.registry import build_sink
from connectors.spec.mistakes import nearest
from spark_jobs.checkpoints import Checkpoints
from spark_jobs.driving import driver_of
from spark_jobs.sink_spec import load_sink_spec, masked
from spark_jobs.spark_log import JobSparkLog, local_folder
from spark_jobs.writing import write_and_prepare
from twophase.codec import decode_committable, encode_committable
from twophase.errors import FencedError, PrepareError, SpecError
from twophase.ids import Scope
from twophase.messages import Acknowledged, Failed

if TYPE_CHECKING:
    import pyarrow as pa

_OPTIONS: Final = ("spec", "checkpointlocation", "repartitioned_by")
_OTHER_WAY: Final = "foreachBatch(ExactlyOnce(spec))"
_BATCH: Final = "streaming.sql.batchId"
"""Spark's, on each task of a micro-batch."""


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What a task has prepared, and the version of head that it was planned under."""

    version: int
    committable: bytes | None  # None: the checkpoint was decided before, and nothing was written


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a task needs. Made by the planner, once for each batch."""

    version: int
    checkpoint_id: int
    scope: Scope | None  # None: decided already
    sink: Sink  # opened
    places: Sequence[int]  # of the sink's columns among the rows'


class EosSink(DataSource):
    """Options:

    - `spec`: the YAML file with `pipeline`, `checkpoint.location` and the sink; no sources, no steps
    - `checkpointLocation`: Spark's own, on a local disk
    - `repartitioned_by`: columns by which the frame was repartitioned, where the target's unique keys ask for it

    For queries without state, in append mode. `foreachBatch(ExactlyOnce(spec))` is faster, takes queries with state,
    and partitions the rows itself.

    Raises SpecError that names the option.
    """

    @classmethod
    def name(cls) -> str:
        """See DataSource."""
        return "eos"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Called by Spark several times for each batch, in processes of its own: no side effects."""
        if overwrite:
            raise SpecError("output mode complete would replace what is written", remedy="use append")
        return StreamWriter(self.options, schema)


class StreamWriter(DataSourceStreamArrowWriter):
    """In the planner and where batches are committed: made of options. In a task: made of a plan."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Reads the spec; touches no service. Raises SpecError."""
        given = {name.lower(): value for name, value in options.items()}
        _check_options(given)
        self._spec = load_sink_spec(given["spec"])
        self._folder = local_folder(given["checkpointlocation"])
        self._partitioned_by = {name.strip() for name in given.get("repartitioned_by", "").split(",")} - {""}
        self._schema = schema
        self._plan: _Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The planner sends the writer to the tasks (twice): this is where an epoch begins."""
        if self._plan is None:
            self._plan = self._planned()
        return {"_plan": self._plan}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In a task: its rows, prepared."""
        plan, context = self._plan, TaskContext.get()
        assert plan is not None
        assert context is not None
        if context.getLocalProperty(_BATCH) != str(plan.checkpoint_id):
            message = f"a task of batch {context.getLocalProperty(_BATCH)} was planned for {plan.checkpoint_id}"
            raise SpecError(message, remedy="use a micro-batch trigger, without asynchronous progress tracking")
        if plan.scope is None:
            for _ in iterator:
                pass
            return Written(plan.version, None)
        committable = write_and_prepare(plan.scope, plan.sink, (batch.select(plan.places) for batch in iterator))
        return Written(plan.version, encode_committable(committable))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 Spark's name
        """Blocks until the checkpoint is committed everywhere. Raising: Spark runs the batch again at its next start.

        Raises FencedError if anybody has taken the pipeline over since the batch was planned.
        """
        written = [each for each in messages if isinstance(each, Written)]
        versions = {each.version for each in written}
        if len(written) != len(messages) or len(versions) != 1:
            message = f"batch {batchId}: {len(messages)} tasks, {len(written)} acknowledgements, of versions {versions}"
            raise PrepareError(message, remedy="start the query again")
        self._end(versions.pop(), _Ran(batchId, [each.committable for each in written if each.committable is not None]))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 Spark's name
        """Roll back what tasks have prepared. Where this call is lost, as it may be, the next start does it (R3)."""
        versions = {each.version for each in messages if isinstance(each, Written) and each.committable is not None}
        failure = PrepareError(f"batch {batchId} has failed")
        for version in versions:
            try:
                self._end(version, _Ran(batchId, failure))
            except FencedError:  # whoever came after has rolled it back
                continue
            except PrepareError as error:
                if error.message != failure.message:
                    raise

    def _planned(self) -> _Plan:
        spec = self._spec
        with masked(spec):
            sink = build_sink(spec, spec.sinks[0]).open(to_arrow_schema(self._schema, timezone="UTC"))
            self._check(sink)
            log = JobSparkLog(self._folder)
            with driver_of(spec, [sink], log, session=_session()) as driver:
                incarnation = driver.start().incarnation
                query_id = log.query_id(incarnation)
                assert query_id is not None  # Spark writes it before the first batch
                driver.set_query(query_id)
                number = log.state(incarnation).newest_planned
                scope = driver.permit(number)
                places = [self._schema.names.index(column) for column in sink.columns]
                return _Plan(driver.version, number, scope, sink, places)

    def _end(self, version: int, batch: _Ran) -> None:
        spec = self._spec
        sink = build_sink(spec, spec.sinks[0])
        batch.sink = sink.name
        log = JobSparkLog(self._folder)
        with masked(spec), driver_of(spec, [sink], log, session=_session()) as driver:
            driver.take_up(version)
            Checkpoints(driver, log, [], permitted=True).complete(batch)

    def _check(self, sink: Sink) -> None:
        given, by = self._partitioned_by, sink.partition_by
        if by is not None and (not given or not given <= set(by)):
            columns = ", ".join(by) or "no column: all rows must come to one task"
            message = f"the target's unique keys ask that rows equal in these columns come to one task: {columns}"
            remedy = f"repartition by these last, and name them in the option repartitioned_by; or use {_OTHER_WAY}"
            raise SpecError(message, remedy=remedy)
        if (self._folder / "state").exists():
            message = "the query keeps state, and a batch that runs again could not be compared with what was decided"
            raise SpecError(message, remedy=f"use {_OTHER_WAY}")


@dataclass(slots=True)
class _Ran:
    """A batch whose job has been run by Spark."""

    checkpoint_id: int
    outcome: Sequence[bytes] | PrepareError
    sink: str = ""

    def run_writers(self, scope: Scope) -> Acknowledged | Failed:
        """See twophase.effects.Batch."""
        if isinstance(self.outcome, PrepareError):
            return Failed(self.outcome)
        return Acknowledged({self.sink: tuple(map(decode_committable, self.outcome))}, time.time())

    def discard(self) -> None:
        """Nothing has a state to bring along."""


def _check_options(given: Mapping[str, str]) -> None:
    unknown = [name for name in given if name not in _OPTIONS]
    if unknown:
        near = nearest(unknown[0], _OPTIONS)
        message = f"unknown option {unknown[0]!r}" + (f"; did you mean {near!r}?" if near else "")
        raise SpecError(message, remedy=f"options: {', '.join(_OPTIONS)}")
    if "spec" not in given:
        raise SpecError("option spec is missing", remedy="name the YAML file with the sink")
    if "checkpointlocation" not in given:
        message = "option checkpointLocation is missing: what Spark has planned is compared with what was decided"
        raise SpecError(message, remedy="give the query one with option(), not through Spark's configuration")


def _session() -> str:
    return f"{secrets.token_hex(8)}.0"
