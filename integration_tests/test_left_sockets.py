"""Each socket between Spark and Python leaves a path in the JVM; a pipeline lets go of those that are gone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_MEETINGS = 50
_PIPELINES = 4
"""In one driver; all let go of paths at the same time."""

_SCRIPT = f"""
import json, os
from concurrent.futures import ThreadPoolExecutor
from pyspark.sql import SparkSession
from spark_jobs.session import left_sockets
from spark_jobs.session.settings import local_settings

settings = local_settings("local[1]", os.environ)
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()

def listed():
    hook = spark._jvm.java.lang.Class.forName("java.io.DeleteOnExitHook")
    files = hook.getDeclaredField("files")
    files.setAccessible(True)
    return sum(path.endswith(".sock") for path in files.get(None).toArray())

def meet():
    for _ in range({_MEETINGS}):
        assert spark.range(1).toArrow().num_rows == 1

meet()
before = listed()
forgotten = left_sockets.forget(spark)
meet()
again = listed()
with ThreadPoolExecutor({_PIPELINES}) as threads:
    counts = list(threads.map(left_sockets.forget, [spark] * {_PIPELINES}))
found = [before, forgotten, again, sum(counts), listed()]
print(json.dumps(found))
spark.stop()
"""


def test_what_met_by_a_socket_is_forgotten_and_what_still_may_be_met_is_not() -> None:
    ended = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    before, forgotten, again, forgotten_again, left = json.loads(ended.stdout.splitlines()[-1])
    assert forgotten == forgotten_again == _MEETINGS, "Spark keeps the path of each: if not, this can go"
    assert before - forgotten == left == again - forgotten_again
    assert left < _MEETINGS
