"""The time limit of a task of the sink format."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from eos.errors import PrepareError
from spark_jobs.adapters.task_limit import limited

_ROWS = pa.RecordBatch.from_arrays([pa.array([1])], names=["id"])
_HANGS = """
import time
from spark_jobs.adapters.task_limit import limited
with limited(0.1, iter(()), grace_s=0.3) as rows:
    list(rows)
    {then}
print("went on")
"""


def test_rows_in_time_pass() -> None:
    with limited(60, iter([_ROWS, _ROWS])) as rows:
        assert len(list(rows)) == 2


@pytest.mark.parametrize("slow_at", [0, 1, 2])
def test_a_task_whose_rows_come_late_fails(slow_at: int) -> None:
    """Also where only the end of its rows is late: it must not prepare then."""

    def slow() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            if number == slow_at:
                time.sleep(0.2)
            if number < 2:
                yield _ROWS

    got: list[pa.RecordBatch] = []
    with limited(0.1, slow()) as rows, pytest.raises(PrepareError, match=r"longer than checkpoint.timeout \(0.1 s\)"):
        got.extend(rows)
    assert len(got) == slow_at


@pytest.mark.parametrize(("then", "code", "printed"), [("time.sleep(60)", 70, ""), ("", 0, "went on\n")])
def test_a_process_that_hangs_is_ended_and_another_one_is_not(then: str, code: int, printed: str) -> None:
    program = _HANGS.replace("{then}", then or "pass") + ("time.sleep(1)\n" if not then else "")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    assert (ended.returncode, ended.stdout) == (code, printed)
    assert ("its Python worker is ended" in ended.stderr) == bool(then)
