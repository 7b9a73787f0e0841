"""Registration of the formats `eos` and `eos_kafka` in a session of Spark's."""

from __future__ import annotations

import logging
from typing import Final

from pyspark.sql import SparkSession

from spark_jobs.adapters.eos_format import eos_sink
from spark_jobs.adapters.kafka_format import EosKafka
from spark_jobs.session.protection import session_gaps
from spark_jobs.session.shipping import ship

_log: Final = logging.getLogger("eos.spark")


def register_formats(session: SparkSession) -> None:
    """Register the formats `eos` (to write) and `eos_kafka` (to read) in a session of Spark's.

    Called by: a job, on the driver, once for each session and before its first query. On a cluster it also sends the
    project to the workers, once for each application. Blocks no longer than that takes.

    If Spark's traffic is not protected, a warning is logged, because no spec is known yet. A query that writes with
    `eos` is then refused with SpecError unless its spec accepts it (security.md). `eos_kafka` has no spec, and
    reads.

    Raises: what Spark raises, if the session has ended.
    """
    found = session_gaps(session)
    for gap in found:
        _log.warning("%s: %s", gap.what, gap.remedy)
    ship(session)
    for source in (EosKafka, eos_sink(found)):
        session.dataSource.register(source)
