"""Makes a session of Spark's know the formats: `register_formats(spark)`, once, before the first query."""

from __future__ import annotations

import logging
from typing import Final

from pyspark.sql import SparkSession

from spark_jobs.adapters.eos_format import eos_sink
from spark_jobs.adapters.job_protection import session_gaps
from spark_jobs.adapters.kafka_format import EosKafka
from spark_jobs.session.shipping import ship

_log: Final = logging.getLogger("eos.spark")


def register_formats(session: SparkSession) -> None:
    """Register `eos` to write and `eos_kafka` to read. On a cluster, send the project to the workers first.

    Where Spark's traffic is not protected, log that: no spec is known yet. `eos` is refused then, unless its spec
    accepts it; `eos_kafka` has no spec, and reads.
    """
    found = session_gaps(session)
    for gap in found:
        _log.warning("%s: %s", gap.what, gap.remedy)
    ship(session)
    for source in (EosKafka, eos_sink(found)):
        session.dataSource.register(source)
