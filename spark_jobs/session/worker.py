"""What a Python worker of Spark's keeps from task to task."""

from __future__ import annotations

import gc
from itertools import count

_tasks = count(1)


def settle() -> None:
    """Leave out of garbage collection what a worker has loaded. Called at the beginning of each task.

    A worker that is used again collects all its garbage first (pyspark.daemon): 20 ms for the modules alone, while the
    next task waits, in each of the two workers of a task. At its second task everything is loaded and no garbage is
    there: what is alive then is kept for good.
    """
    if next(_tasks) == 2:
        gc.freeze()
