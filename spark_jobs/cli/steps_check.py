"""What only Spark can say before a run: whether it takes the steps, and which columns they give. Imports Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from connectors.contracts import Finding, Source
from connectors.spec import Spec
from spark_jobs.pipeline import rows_schema
from spark_jobs.scratch import scratch_session
from twophase.errors import ConnectorError


def check_steps(spec: Spec, sources: Sequence[Source], *, debug: bool) -> tuple[Finding, pa.Schema | None]:
    """Build the query and ask nobody; the schema of the rows if it could be built. Takes some seconds."""
    try:
        with scratch_session(spec, debug=debug) as (here, spark):
            schema = rows_schema(spark, here, sources)
    except ConnectorError as error:
        return Finding("steps", False, error.message, error.remedy), None
    columns = ", ".join(f"{field.name} {field.type}" for field in schema)
    return Finding("steps", True, f"{spec.sinks[0].from_} gives {columns}"), schema
