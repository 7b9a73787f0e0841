"""R4: rows that differ are told apart by their hash, and equal ones are not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.any_server

_SCRIPT = """
import json
from pyspark.sql import SparkSession
from spark_jobs.branch_jobs import row_hash

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = [(None, "a", 1), ("a", None, 1), (None, None, 1), ("a", "a", 1), ("a", "a", None), ("", None, 1)]
frame = spark.createDataFrame(rows + rows, "`an odd.name` string, b string, c int")
print(json.dumps([row[0] for row in frame.select(row_hash(["an odd.name", "b", "c"])).collect()]))
spark.stop()
"""


def test_a_null_that_moves_to_another_column_is_seen() -> None:
    ended = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    hashes = json.loads(ended.stdout.splitlines()[-1])
    assert hashes[:6] == hashes[6:]
    assert len(set(hashes)) == 6
