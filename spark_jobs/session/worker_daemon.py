"""The daemon that Spark forks its Python workers from, with what tasks need loaded once, before the first fork.

A worker of PySpark's own daemon imports numpy, pyarrow, pandas (which pyarrow does at its first scalar) and this
project's modules by itself: 0.8 s of CPU in each worker, all at once, in the first checkpoint after each start.

PySpark loads nothing before a fork, for fear of threads. Two threads outlive these imports, OpenBLAS's and jemalloc's.
Both libraries end theirs before a fork and begin it anew after it (pthread_atfork); pyarrow begins its own at their
first use. The tests fork from here and compute with all three. That holds on Linux. On macOS numpy computes with
Apple's Accelerate while it is loaded, which cannot be used after a fork: there each worker loads all this by itself.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module
from typing import Final

from pyspark import daemon

MODULES: Final = "EOS_TASK_MODULES"
"""Variable with the names of what the connectors' tasks need, separated by commas."""
OF_ALL: Final = ("numpy.random", "pandas", "pyarrow.compute", "spark_jobs.batch.writing")
"""Modules that the tasks of every pipeline need."""
_OF_TASKS: Final = "pyspark.worker"
"""The kind of worker that Spark asks this daemon for; it has other daemons for other kinds, which load little."""


def load() -> None:
    """Import it all, and keep garbage collection in each worker away from it, so that its memory stays shared."""
    with redirect_stdout(sys.stderr):  # Spark reads from stdout where the daemon listens
        for name in (*OF_ALL, *filter(None, os.environ.get(MODULES, "").split(","))):
            with suppress(Exception):  # whatever it is, the task that needs the module tells it
                import_module(name)
    import numpy as np

    daemon_id = os.getpid()

    def seed() -> None:
        if os.getppid() == daemon_id:  # a process that a step forks goes on with the step's generator
            np.random.seed()

    os.register_at_fork(after_in_child=seed)  # as after an import of its own; `random` does that by itself
    gc.freeze()


if __name__ == "__main__":
    if sys.platform == "linux" and sys.argv[1:2] == [_OF_TASKS]:
        load()
    daemon.manager()
