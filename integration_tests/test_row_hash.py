"""R4: rows that differ are told apart by their hash, and equal ones are not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_SCRIPT = """
import json
from pyspark.sql import SparkSession
from spark_jobs.batch.branch_jobs import row_hash

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = [(None, "a", 1), ("a", None, 1), (None, None, 1), ("a", "a", 1), ("a", "a", None), ("", None, 1)]
frame = spark.createDataFrame(rows + rows, "`an odd.name` string, b string, c int")
names = ["an odd.name", "b", "c"]
hashed = frame.select(row_hash(names, 1), row_hash(names, 2)).collect()
print(json.dumps([list(each) for each in zip(*hashed)]))
spark.stop()
"""

HASHES_OF_A_ROW = [9151698446457945738, -7785786201255548761]
"""Of the row ("a", "a", 1), by methods 1 and 2."""


def test_a_null_that_moves_to_another_column_is_seen() -> None:
    ended = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    first, second = json.loads(ended.stdout.splitlines()[-1])
    assert (first[:6], second[:6]) == (first[6:], second[6:])
    assert len(set(second)) == 6
    assert first[0] == first[1], "method 1 skips NULL: it is what versions before have decided with"
    assert [first[3], second[3]] == HASHES_OF_A_ROW, "a method never changes: a new one gets a new number"
