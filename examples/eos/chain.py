"""The stateful steps of the examples: each value of a key is linked to the value before it."""

from __future__ import annotations

import random
from collections.abc import Iterator

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

_INPUT = ("value", "_partition AS split", "_offset AS position")


class InjectedFailureError(RuntimeError):
    """The failure of a task, on purpose."""


def chained(words: DataFrame, failure_probability: float = 0.0) -> DataFrame:
    """Return a row `pre:<previous value>;current:<UPPER>` for each record, in the column `link`.

    Args:
        words: records whose key is a word. Each word has its own chain, which begins with `pre:null`.
        failure_probability: the share of records with an "x" that fail their task. Each attempt draws a new random
            number, so a retry can succeed.
    """
    return _linked(words, "cast(_key AS string)", Chain(failure_probability))


def one_chain(records: DataFrame, failure_probability: float = 0.0) -> DataFrame:
    """Return the rows of `chained` for one chain of all records, which begins with `pre:;`.

    Args:
        records: their keys are ignored.
        failure_probability: as in `chained`. The task fails by `1 / 0`.
    """
    return _linked(records, "'all'", OneChain(failure_probability))


def _linked(records: DataFrame, key: str, chain: Chain) -> DataFrame:
    """Pass the records through `chain`, grouped by the SQL expression `key`."""
    return (
        records.selectExpr(f"{key} AS word", *_INPUT)
        .groupBy("word")
        .transformWithState(
            statefulProcessor=chain,
            outputStructType="link string",
            outputMode="append",
            timeMode="none",
        )
    )


class Chain(StatefulProcessor):
    """A processor whose state is the last value of each key."""

    first = "null"
    """The predecessor of the first value."""

    def __init__(self, failure_probability: float) -> None:
        self._failure_probability = failure_probability

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state. Spark calls this once for each task."""
        self._previous = handle.getValueState("previous", "value string")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:  # noqa: N802, N803 Spark's names
        """Link the rows of one key. Spark calls this once for each key of a checkpoint.

        A shuffle delivers rows in any order. Sorting them into the order of the topic gives a repeated checkpoint the
        same rows.
        """
        state = self._previous.get()
        previous = state[0] if state else self.first
        for row in sorted(rows, key=lambda each: (each.split, each.position)):
            if "x" in row.value and random.random() < self._failure_probability:
                self.fail(row.value)
            yield Row(link=f"pre:{previous};current:{row.value.upper()}")
            previous = row.value
        self._previous.update((previous,))

    def fail(self, value: str) -> None:
        """Fail the task."""
        message = f"{value} contains an x"
        raise InjectedFailureError(message)


class OneChain(Chain):
    """A chain that begins with an empty predecessor and fails by a division."""

    first = ""

    def fail(self, _value: str) -> None:
        """Divide by zero."""
        _ = 1 / 0
