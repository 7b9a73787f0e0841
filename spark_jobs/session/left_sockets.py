"""What each socket leaves in Spark's JVM: its path, in the list of files to delete at exit (java.io.File.deleteOnExit).

Spark deletes the socket itself when Python has met it, but nothing ever takes a path from that list. Each checkpoint
meets once at least: by five a second that were 60 MB a day (Spark 4.3.0, `SocketAuthServer.startServer`).
"""

from __future__ import annotations

import os
from typing import Any, Final

from py4j.java_gateway import get_method  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

FORGOTTEN_EVERY: Final = 100
"""Checkpoints. A path takes a tenth of a millisecond, so that a greater number would be felt."""


def forget(spark: SparkSession) -> int:
    """Take the paths of files that are gone from the JVM's list; returns how many. Some milliseconds.

    Several pipelines of one driver may call it at the same time: each path is counted by one of them.

    The list is a private one, which Spark's own options open to it, and is locked by its class: so does the view of it
    that is used here, whose constructor takes the lock (Java 17, `Collections.SynchronizedSet`).
    """
    if spark.conf.get("spark.python.unix.domain.socket.enabled", "false") != "true":
        return 0
    jvm: Any = spark._jvm
    hook = jvm.java.lang.Class.forName("java.io.DeleteOnExitHook")
    files = hook.getDeclaredField("files")
    files.setAccessible(True)
    (view,) = (
        each
        for each in jvm.java.lang.Class.forName("java.util.Collections$SynchronizedSet").getDeclaredConstructors()
        if each.getParameterCount() == 2
    )
    view.setAccessible(True)
    paths = view.newInstance(_array(spark, files.get(None), hook))
    gone = [path for path in list(paths.toArray()) if not os.path.lexists(path)]
    remove = get_method(paths, "remove")  # Python's view raises KeyError for an absent path
    return sum(map(remove, gone))


def _array(spark: SparkSession, *values: object) -> Any:
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(gateway.jvm.java.lang.Object, len(values))
    for place, value in enumerate(values):
        array[place] = value
    return array
