"""A connector's source as a Spark data source: plans in a process of its own, reads in tasks, and keeps nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from connectors.admission import admit
from connectors.contracts import Source
from spark_jobs.failures import TOKEN, carried
from twophase.errors import OffsetOutOfRangeError
from twophase.values import OffsetRange, StartingPoint

if TYPE_CHECKING:
    import pyarrow as pa


class _Range(InputPartition):
    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(offsets)
        self.offsets = offsets


class SourceReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are `{split: next offset}`. The initial ones come from head, where they were stored before (R6, R10)."""

    def __init__(self, source: Source, began: StartingPoint, max_records: int | None, token: str) -> None:
        self._source = source
        self._token = token  # see failures.carried
        self._began = began
        self._max_records = max_records
        self._target: dict[str, int] | None = None  # of a run until caught up: what there was at its start
        self._latest: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 Spark's name
        """Spark asks for this again after a crash in batch 0; head gives the same answer for ever (H3)."""
        return dict(self._began.positions)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 Spark's name
        """Called once, before the first batch, when the query is to end when it has caught up."""
        with carried(self._token):
            self._target = self._source.latest(self._began.identities)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Where the next batch ends. Called before every batch; asks the service.

        Raises OffsetOutOfRangeError for a split that ends before what was read: its next records would get offsets that
        count as done, and be left out (H23).
        """
        with carried(self._token):
            identities = self._began.identities
            self._latest = self._target if self._target is not None else self._source.latest(identities)
            known = {**self._began.positions, **start}  # a topic added to the spec has a position in head alone
            for split, offset in known.items():
                end = self._latest.get(split, offset)
                if end < offset:
                    message = f"{split} ends at {end}, and the pipeline has read it up to {offset}: it was made again"
                    raise OffsetOutOfRangeError(message, remedy="reset the pipeline to read what there is now")
            return {**start, **admit(known, self._latest, self._max_records)}

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802 Spark's name
        """For the lag: what there was when the batch was planned."""
        return self._latest

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One task for each split that has something new."""
        known = {**self._began.positions, **start}
        ranges = (OffsetRange(split, known.get(split, 0), offset) for split, offset in sorted(end.items()))
        return [_Range(each) for each in ranges if each.end > each.start]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        assert isinstance(partition, _Range)
        with carried(self._token):
            yield from self._source.read(partition.offsets)


def data_source(source: Source, schema: StructType, began: StartingPoint, max_records: int | None) -> type[DataSource]:
    """A data source class for this one source.

    The configuration travels inside the class, by value, and not in Spark's options: those are shown in plans and in
    the UI, and it may hold passwords.
    """
    source_name, token = f"eos_{source.name}", TOKEN

    class ConfiguredSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def schema(self) -> StructType:
            return schema

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 Spark's name
            return SourceReader(source, began, max_records, token)

    return ConfiguredSource
