"""State of a query on a cluster: every worker must find it where the driver does, and a start asks them.

A worker with a disk of its own at that path would write state there, and the next task with that partition, on another
worker, would not find it: Spark would stop then, after as many checkpoints as it liked.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from eos.errors import SpecError
from spark_jobs.session.master import is_local
from spark_jobs.session.probe import Probe

_TASKS_PER_CORE: Final = 3  # so that with some certainty each worker gets one


def check_state_is_shared(spark: SparkSession, folder: Path) -> None:
    """Raise SpecError where a worker does not see this folder as the driver does. Blocks for a job of about a second.

    Called at each start of a stateful query. A worker that comes later is not asked. On a local master nobody is.
    Raises what Spark raises.
    """
    context = spark.sparkContext
    if is_local(str(context.master)):
        return
    with tempfile.NamedTemporaryFile(dir=folder, prefix="seen-by-workers-") as marker:
        look = Probe(modules=(), addresses=(), files=(), marker=marker.name)
        context.parallelize([0], 1).mapPartitions(look).collect()  # waits for an executor, so that cores are known
        tasks = _TASKS_PER_CORE * context.defaultParallelism
        found = context.parallelize(range(tasks), tasks).mapPartitions(look).collect()
    elsewhere = sorted({each.host for each in found if not each.location})
    if elsewhere:
        message = f"steps keep state in {folder}, and on {', '.join(elsewhere)} that is another folder or none"
        raise SpecError(message, remedy="mount the same disk under that path on every worker, or run on one machine")
