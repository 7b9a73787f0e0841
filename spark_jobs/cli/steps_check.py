"""What only Spark can say before a run: whether it takes the steps, and which columns they give. Imports Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from connectors.api.contracts import Finding, Source
from connectors.spec import Spec
from eos.errors import ConnectorError
from spark_jobs.operations.scratch import scratch_session
from spark_jobs.run.pipeline import sink_rows


def check_steps(
    spec: Spec, sources: Sequence[Source], *, debug: bool
) -> tuple[Sequence[Finding], dict[str, pa.Schema]]:
    """Build the query and ask nobody; the schema of each sink's rows if it could be built. Takes some seconds."""
    try:
        with scratch_session(spec, debug=debug) as (here, spark):
            rows = sink_rows(spark, here, sources, {})
            schemas = {sink: to_arrow_schema(frame.schema, timezone="UTC") for sink, frame in rows.items()}
    except ConnectorError as error:
        return [Finding("steps", False, error.message, error.remedy)], {}
    return [_gives(str(entry.from_), schemas[entry.name]) for entry in spec.sinks], schemas


def _gives(name: str, schema: pa.Schema) -> Finding:
    columns = ", ".join(f"{field.name} {field.type}" for field in schema)
    return Finding("steps", True, f"{name} gives {columns}")
