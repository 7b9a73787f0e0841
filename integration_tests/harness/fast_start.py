"""The start that `eos run` gives a local driver, for the other processes of Spark that tests start by the dozen."""

from __future__ import annotations

import os
from functools import cache

from spark_jobs.demo.driver import FAST_START
from spark_jobs.session.start_cache import archive_options, spark_home


@cache
def fast_start() -> dict[str, str]:
    """Variables for their environment. Call it when one `eos run` has ended: its JVM writes the archive of classes."""
    home = spark_home(os.environ)
    if home is None:  # chosen by whoever runs the tests
        return {}
    options = [option.replace('"', "") for option in archive_options(home.parent, make=False)]
    return {"SPARK_HOME": str(home), "JDK_JAVA_OPTIONS": " ".join([FAST_START, *options])}
