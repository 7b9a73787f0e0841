"""What a task, the planner or Spark itself raised is found again on the driver."""

from __future__ import annotations

import pytest

from eos.errors import (
    BadRecordError,
    ConnectorError,
    FencedError,
    IdentityError,
    PrepareError,
    SinkUnavailableError,
    SparkUnavailableError,
)
from spark_jobs.session.failures import TOKEN, CarriedError, carried, translate


def _thrown(error: ConnectorError, token: str = TOKEN) -> str:
    """What the driver sees of an error in a task."""
    with pytest.raises(CarriedError) as caught, carried(token):
        raise error
    return (
        "An exception was thrown from the Python worker. Please see the stack trace below.\n"
        f"Traceback (most recent call last):\neos.errors.X: {error}\n\n"
        f"spark_jobs.session.failures.CarriedError: {caught.value}\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1)"
    )


def test_our_error_is_found_with_its_message_and_remedy() -> None:
    sent = BadRecordError("topic orders, partition 3, offset 17:\nnot JSON", remedy="correct the record")
    error = translate(RuntimeError(_thrown(sent)), "checkpoint 3")
    assert isinstance(error, BadRecordError)
    assert (error.message, error.remedy) == (sent.message, sent.remedy)
    assert not error.retriable


def test_a_record_that_looks_like_our_error_is_not_taken_for_one() -> None:
    forged = _thrown(FencedError("fenced"), token="0" * 32)
    error = translate(RuntimeError(f"duplicate value 'a\neos.errors.FencedError: x' {forged}"), "checkpoint 3")
    assert isinstance(error, PrepareError)


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
        ("Job aborted\nTraceback (most recent call last):\nSystemExit: 3\n\n\tat org.apache", "SystemExit: 3"),
        ("Job aborted\nTraceback (most recent call last):\nKeyboardInterrupt\n\n\tat org.apache", "KeyboardInterrupt"),
        ("[DIVIDE_BY_ZERO] Division by zero.\n\tat org.apache.spark", "[DIVIDE_BY_ZERO] Division by zero."),
    ],
)
def test_anything_else_is_retriable_and_names_its_cause(text: str, cause: str) -> None:
    error = translate(RuntimeError(text), "checkpoint 3")
    assert isinstance(error, PrepareError)
    assert error.retriable
    assert error.message == f"checkpoint 3 failed: {cause}"


@pytest.mark.parametrize(
    "cause",
    [
        "ModuleNotFoundError: No module named 'pymysql'",
        'Cannot run program "/opt/python": error=2, No such file or directory',
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11",
    ],
)
def test_what_a_worker_lacks_is_cured_by_no_restart(cause: str) -> None:
    before = "" if cause.startswith("Module") else "java.io.IOException: "
    text = f"Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times\n{before}{cause}\n\n\tat org.apache"
    error = translate(RuntimeError(text), "checkpoint 3")
    assert isinstance(error, SparkUnavailableError)
    assert not error.retriable
    assert error.message == f"checkpoint 3 failed on a worker: {cause}"
    assert "eos doctor" in error.remedy


def test_the_last_of_several_is_taken() -> None:
    first, second = _thrown(SinkUnavailableError("first")), _thrown(FencedError("second"))
    assert isinstance(translate(RuntimeError(first + second), "x"), FencedError)
    assert isinstance(translate(RuntimeError(first), "x"), SinkUnavailableError)


def test_state_that_spark_cannot_read_is_told_in_words_and_not_tried_again() -> None:
    report = (
        "Job aborted due to stage failure: Task 1 in stage 4.0 failed 1 times: "
        "org.apache.spark.sql.execution.streaming.state.StateStoreKeySchemaNotCompatible: "
        "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema.\n"
        "\tat org.apache.spark.sql.errors.X(X.scala:1)"
    )
    error = translate(RuntimeError(report), "checkpoint 3")
    assert isinstance(error, IdentityError)
    assert "was kept by other steps: [STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE]" in error.message
    assert ("\tat " in error.message, error.retriable) == (False, False)
