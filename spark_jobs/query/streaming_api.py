"""PySpark's API of streaming sources and sinks in Python, as the installed version has it.

The import refuses a version without this API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.session.versions import RUN, plans_within_limits, require_spark

require_spark(RUN)

from pyspark.sql import datasource  # noqa: E402
from pyspark.sql.datasource import (  # noqa: E402
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    # Spark 4.0 would hand rows to a writer of this kind: `format("eos")` is refused there.
    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter)
    if plans_within_limits():
        from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
    else:

        class ReadLimit:
            """The limit of a plan, which this version of Spark does not give."""

        class SupportsTriggerAvailableNow:
            """The end of a run until caught up, of which this version of Spark does not speak."""


__all__ = [
    "DataSource",
    "DataSourceStreamArrowWriter",
    "DataSourceStreamReader",
    "InputPartition",
    "ReadLimit",
    "SupportsTriggerAvailableNow",
    "WriterCommitMessage",
]
