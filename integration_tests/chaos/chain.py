"""The stateful step under attack: each record is joined to the one before it of its key. Stands beside the spec."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

_OUTPUT = "id long, k long, n long, previous long, _partition int, _offset long"


def chained(incoming: DataFrame) -> DataFrame:
    """A row for each record, `previous`: the id before it, -1 for the first. Called when the query is built."""
    return (
        incoming.select("id", "k", "n", "_partition", "_offset")
        .groupBy("k")
        .transformWithState(statefulProcessor=Chain(), outputStructType=_OUTPUT, outputMode="append", timeMode="none")
    )


class Chain(StatefulProcessor):
    """Keeps the last id of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once for each task."""
        self._last = handle.getValueState("last", "id long")

    def handleInputRows(self, key: tuple[int], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:  # noqa: N802, N803 Spark's names
        """Called once for each key of a checkpoint, whose records a shuffle has put into any order."""
        state = self._last.get()
        last: int = state[0] if state else -1
        for row in sorted(rows, key=lambda each: each._offset):
            yield Row(id=row.id, k=row.k, n=row.n, previous=last, _partition=row._partition, _offset=row._offset)
            last = row.id
        self._last.update((last,))
