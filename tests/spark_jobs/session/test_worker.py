"""What a Python worker of Spark's leaves out of its garbage collections."""

from __future__ import annotations

import subprocess
import sys


def test_what_is_loaded_is_collected_no_more_from_the_second_task_on() -> None:
    """And what comes later is: a task's garbage must not stay."""
    code = (
        "import gc; from spark_jobs.batch import writing; from spark_jobs.session import worker\n"
        "worker.settle(); first = gc.get_freeze_count()\n"
        "worker.settle(); second = gc.get_freeze_count()\n"
        "kept = [[] for _ in range(5000)]; worker.settle(); third = gc.get_freeze_count()\n"
        "print(first == 0, second > 10_000, third <= second)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.split() == ["True", "True", "True"]
