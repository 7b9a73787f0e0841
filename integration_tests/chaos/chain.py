"""The stateful step under attack: each record is joined to the one before it of its key. Stands beside the spec."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

_OUTPUT = "id long, k long, n long, previous long, partition int, offset long"


def chained(incoming: DataFrame) -> DataFrame:
    """A row for each record, `previous`: the id before it, -1 for the first. Called when the query is built."""
    # Spark hands over no column's name that begins with an underscore.
    return (
        incoming.selectExpr("id", "k", "n", "_partition AS partition", "_offset AS offset")
        .groupBy("k")
        .transformWithStateInPandas(
            statefulProcessor=Chain(), outputStructType=_OUTPUT, outputMode="append", timeMode="none"
        )
        .withColumnsRenamed({"partition": "_partition", "offset": "_offset"})
    )


class Chain(StatefulProcessor):
    """Keeps the last id of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once for each task."""
        self._last = handle.getValueState("last", "id long")

    def handleInputRows(  # noqa: N802 Spark's name
        self,
        key: tuple[int],
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803 Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Called once for each key of a checkpoint, whose records a shuffle has put into any order."""
        state = self._last.get()
        found = pd.concat(rows).sort_values("offset", ignore_index=True)
        found["previous"] = found["id"].shift(1, fill_value=state[0] if state else -1)
        self._last.update((int(found["id"].iloc[-1]),))
        yield found[["id", "k", "n", "previous", "partition", "offset"]]
