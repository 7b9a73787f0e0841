"""What a task, the planner or Spark itself raised is found again on the driver."""

from __future__ import annotations

import pytest

from spark_jobs.failures import translate
from twophase.errors import BadRecordError, FencedError, PrepareError, SinkUnavailableError

_TASK = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/spark_jobs/source.py", line 60, in read
    yield from self._source.read(partition.offsets)
twophase.errors.BadRecordError: topic orders, partition 3, offset 17: not JSON
  remedy: correct the record, or set on_bad_record: skip

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1)
"""


def test_our_error_is_found_with_its_message_and_remedy() -> None:
    error = translate(RuntimeError(_TASK), "checkpoint 3")
    assert isinstance(error, BadRecordError)
    assert error.message == "topic orders, partition 3, offset 17: not JSON"
    assert error.remedy == "correct the record, or set on_bad_record: skip"
    assert not error.retriable


def test_an_error_of_ours_stays_itself() -> None:
    fenced = FencedError("fenced")
    assert translate(fenced, "checkpoint 3") is fenced


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "Job aborted\nTraceback (most recent call last):\nValueError: no x today\n\n\tat org.apache",
            "ValueError: no x today",
        ),
        ("[DIVIDE_BY_ZERO] Division by zero.\n\tat org.apache.spark", "[DIVIDE_BY_ZERO] Division by zero."),
    ],
)
def test_anything_else_is_retriable_and_names_its_cause(text: str, cause: str) -> None:
    error = translate(RuntimeError(text), "checkpoint 3")
    assert isinstance(error, PrepareError)
    assert error.retriable
    assert error.message == f"checkpoint 3 failed: {cause}"


def test_the_last_of_several_is_taken() -> None:
    text = "twophase.errors.SinkUnavailableError: first\n\ntwophase.errors.FencedError: second\n\tat x"
    assert isinstance(translate(RuntimeError(text), "x"), FencedError)
    assert isinstance(translate(RuntimeError(text.split("\n\n")[0]), "x"), SinkUnavailableError)
