"""Spark for a look before a run: whether it takes the steps, and which columns they give.

All that it writes goes to a folder that is gone afterwards, and nothing to the checkpoint location.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from connectors.api.contracts import Finding, Source
from connectors.spark_types import spark_type
from connectors.spec import Spec
from eos.errors import ConnectorError
from spark_jobs.run.pipeline import sink_rows
from spark_jobs.session.arrow import to_arrow
from spark_jobs.session.spark_session import spark_session

_MASTER: Final = f"local[{min(os.cpu_count() or 1, 4)}]"
"""A cluster's workers would not see the folder, and a look takes no cluster."""


@contextmanager
def scratch_session(spec: Spec, *, debug: bool) -> Iterator[tuple[Spec, SparkSession]]:
    """The spec with its checkpoint location in a scratch folder, and a session for it, on this machine.

    Raises SparkUnavailableError.
    """
    # The JVM outlives the session, and may still write a line to its log.
    with TemporaryDirectory(prefix="eos-", ignore_cleanup_errors=True) as folder:
        checkpoint = spec.checkpoint.model_copy(update={"location": Path(folder), "head": None})
        master = spec.spark.model_copy(update={"master": _MASTER})
        here = spec.model_copy(update={"checkpoint": checkpoint, "spark": master})
        spark = spark_session(here, debug=debug)
        try:
            yield here, spark
        finally:
            spark.stop()


def check_steps(
    spec: Spec, sources: Sequence[Source], *, debug: bool
) -> tuple[Sequence[Finding], dict[str, pa.Schema]]:
    """Build the query and ask nobody; the schema of each sink's rows if it could be built. Takes some seconds."""
    try:
        with scratch_session(spec, debug=debug) as (here, spark):
            rows = sink_rows(spark, here, sources, {})
            schemas = {sink: to_arrow(frame.schema) for sink, frame in rows.items()}
    except ConnectorError as error:
        return [Finding("steps", False, error.message, error.remedy)], {}
    return [_gives(str(entry.from_), schemas[entry.name]) for entry in spec.sinks], schemas


def _gives(name: str, schema: pa.Schema) -> Finding:
    columns = ", ".join(f"{field.name} {spark_type(field.type)}" for field in schema)
    return Finding("steps", True, f"{name} gives {columns}")
