"""The stateful step of the example: every value of a key is joined to the value before it."""

from __future__ import annotations

import random
from collections.abc import Iterator

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

_INPUT = ("cast(_key AS string) AS word", "value", "_partition AS split", "_offset AS position")


class InjectedFailureError(RuntimeError):
    """What a task fails with, on purpose."""


def chained(words: DataFrame, failure_probability: float = 0.0) -> DataFrame:
    """One row `pre:<previous value>;current:<UPPER>` for each record, in the column `link`.

    Called once at each start of the query, when it is built.

    Args:
        words: records whose key is a word.
        failure_probability: with which a record that contains an "x" makes its task fail; drawn anew at each attempt,
            so that a retry can succeed.
    """
    keyed = words.selectExpr(*_INPUT).groupBy("word")
    return keyed.transformWithState(
        statefulProcessor=Chain(failure_probability),
        outputStructType="link string",
        outputMode="append",
        timeMode="none",
    )


class Chain(StatefulProcessor):
    """Keeps the last value of each word as state."""

    def __init__(self, failure_probability: float) -> None:
        self._failure_probability = failure_probability

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once for each task."""
        self._previous = handle.getValueState("previous", "value string")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:  # noqa: N802, N803 Spark's names
        """Called once for each word of a checkpoint.

        A shuffle delivers rows in any order, so they are put into that of the topic first: the chain is right, and a
        checkpoint that is run again gives the same rows.
        """
        state = self._previous.get()
        previous = state[0] if state else "null"
        for row in sorted(rows, key=lambda each: (each.split, each.position)):
            self._fail_at_random(row.value)
            yield Row(link=f"pre:{previous};current:{row.value.upper()}")
            previous = row.value
        self._previous.update((previous,))

    def _fail_at_random(self, value: str) -> None:
        if "x" in value and random.random() < self._failure_probability:
            message = f"{value} contains an x"
            raise InjectedFailureError(message)
