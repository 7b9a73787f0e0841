"""`df.writeStream.format("eos")`, and the registration of `eos` and `eos_kafka` in a session of Spark's.

The format writes exactly once from any streaming query, without a function of the user's own.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from connectors.api.mistakes import nearest
from connectors.spec import Spec
from eos.errors import SpecError
from spark_jobs.adapters.sink_spec import load_sink_spec
from spark_jobs.query.spark_log import local_folder
from spark_jobs.session.protection import Gap, require, session_gaps
from spark_jobs.session.shipping import ship
from spark_jobs.session.versions import FORMAT_EOS, require_spark

require_spark(FORMAT_EOS)  # the modules below refuse a version by the name of `eos run`

from spark_jobs.adapters.stream_writer import StreamWriter  # noqa: E402
from spark_jobs.query.streaming_api import DataSource, DataSourceStreamArrowWriter  # noqa: E402

_log: Final = logging.getLogger("eos.spark")
_OPTIONS: Final = ("spec", "checkpointlocation", "repartitioned_by")
_NO_JVM: Final = "Spark plans and commits this format in Python processes, which reach none of its file systems"
_OF_PIPELINES: Final = "queryname"
"""The option in which a declarative pipeline passes the name of a flow."""


class EosSink(DataSource):
    """Options:

    - `spec`: the YAML file with `pipeline`, `checkpoint.location` and the sink; no sources, no steps
    - `checkpointLocation`: Spark's own, on a local disk
    - `repartitioned_by`: columns by which the frame was repartitioned, where the target's unique keys ask for it

    For queries without state, in append mode, without speculation. `checkpoint.timeout` limits each task, and not the
    whole checkpoint. The spec is read again for each batch; keys that need a driver of ours which outlives a batch are
    refused. `foreachBatch(ExactlyOnce(spec))` is faster, takes queries with state, limits the checkpoint, partitions
    the rows itself, and may be at-least-once.

    Raises SpecError that names the option.
    """

    gaps: ClassVar[tuple[Gap, ...]] = ()  # of the session, see eos_sink
    run: ClassVar[str] = ""  # see eos_sink; empty: not known, and what only this run may do is left to the next start

    @classmethod
    def name(cls) -> str:
        return "eos"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Called by Spark several times for each batch, in processes of its own: no side effects."""
        if overwrite:
            raise SpecError("output mode complete would replace the written rows", remedy="use append")
        given = {name.lower(): value for name, value in self.options.items()}
        _check_options(given)
        partitioned_by = {name.strip() for name in given.get("repartitioned_by", "").split(",")} - {""}
        spec = load_sink_spec(given["spec"])
        require(self.gaps, spec.spark)
        _check_keys(spec)
        if spec.checkpoint.at_least_once:
            message = f"{given['spec']}: checkpoint.mode is at-least-once, and this format writes exactly-once"
            raise SpecError(message, remedy="set it to exactly-once, or use foreachBatch(ExactlyOnce(spec))")
        folder = local_folder(
            given["checkpointlocation"], _NO_JVM, "use foreachBatch(ExactlyOnce(spec)), which reads it there"
        )
        return StreamWriter(spec, folder, partitioned_by, schema, self.run)


def eos_sink(found: Iterable[Gap] = ()) -> type[EosSink]:
    """The format for one session of Spark's. `found`: its missing protections, which a spec must accept.

    By `run`, random, those that plan and those that commit know one another.

    Spark makes both of the class that was registered, and hands nothing on from one to the other where no task was
    done. A class that no module has is pickled by value, with what it says.
    """

    class SessionSink(EosSink):
        gaps = tuple(found)
        run = secrets.token_hex(8)

    return SessionSink


def _check_options(given: Mapping[str, str]) -> None:
    unknown = [name for name in given if name not in (*_OPTIONS, _OF_PIPELINES)]
    if unknown:
        near = nearest(unknown[0], _OPTIONS)
        message = f"unknown option {unknown[0]!r}" + (f"; did you mean {near!r}?" if near else "")
        raise SpecError(message, remedy=f"options: {', '.join(_OPTIONS)}")
    if "spec" not in given:
        raise SpecError("option spec is missing", remedy="name the YAML file with the sink")
    if "checkpointlocation" not in given:
        message = "option checkpointLocation is missing: what Spark has planned is compared with what was decided"
        raise SpecError(message, remedy="give the query one with option(), not through Spark's configuration")


def _check_keys(spec: Spec) -> None:
    """Raise SpecError for a key that needs a process which outlives a batch. `eos.yaml` cannot set any of them."""
    for key, is_set, why in (
        ("max_backlog", any(entry.max_backlog is not None for entry in spec.sinks), "no process commits meanwhile"),
        ("notifications", bool(spec.notifications), "no process watches the query between its batches"),
    ):
        if is_set:
            message = f'{key} is not for format("eos"), where each batch has a process of its own: {why}'
            raise SpecError(message, remedy="remove it, or use foreachBatch(ExactlyOnce(spec))")


def register_formats(session: SparkSession) -> None:
    """Register the formats `eos` (to write) and `eos_kafka` (to read) in a session of Spark's.

    Called by: a job, on the driver, once for each session and before its first query. On a cluster it also sends the
    project to the workers, once for each application. Blocks no longer than that takes.

    If Spark's traffic is not protected, a warning is logged, because no spec is known yet. A query that writes with
    `eos` is then refused with SpecError unless its spec accepts it (security.md). `eos_kafka` has no spec, and
    reads.

    Raises: SparkUnavailableError for a version of PySpark that has no such formats; what Spark raises, if the session
    has ended.
    """
    require_spark(FORMAT_EOS)
    from spark_jobs.adapters.kafka_format import EosKafka  # 0.3 s, in each process that Spark starts for `eos`

    found = session_gaps(session)
    for gap in found:
        _log.warning("%s: %s", gap.what, gap.remedy)
    ship(session)
    for source in (EosKafka, eos_sink(found)):
        session.dataSource.register(source)
