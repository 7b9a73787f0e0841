"""Spark for looking: all that it writes goes to a folder that is gone afterwards, and nothing to the location."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pyspark.sql import SparkSession

from connectors.spec import Spec
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
