"""Records that sources leave out (`on_bad_record: skip`): counted in each checkpoint, and bounded there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from connectors.api.contracts import Source
from eos.errors import BadRecordError
from spark_jobs.batch.dead_letters import Ranges, Read

_log: Final = logging.getLogger("eos.source")

Skipped = Mapping[str, int]
"""By source, how many records a checkpoint has left out; without those that left out none."""


@dataclass(frozen=True, slots=True)
class Skipping:
    """What a pipeline's sources may leave out of a checkpoint."""

    sources: Sequence[Source]  # that leave bad records out
    allowed: Callable[[int], int]  # of so many records that a checkpoint reads of a source
    limit: str  # as the spec says it

    @classmethod
    def of(cls, sources: Sequence[Source], allowed: Callable[[int], int], limit: object) -> Skipping:
        """Of all sources of a pipeline."""
        return cls([each for each in sources if each.skips_bad_records], allowed, str(limit))

    def counted(self, batch: DataFrame, ranges: Ranges) -> Skipped:
        """What the job of this batch has left out. Called when it has ended.

        Too few where a task has not read to its end, as Spark does where a join has nothing on its other side.
        """
        reads = [Read.of(batch, source, ranges.get(source.name, ())) for source in self.sources]
        return {each.source.name: _of_one_run(each) for each in reads if each.aside}

    def surplus(self, checkpoint_id: int, skipped: Skipped, ranges: Ranges) -> BadRecordError | None:
        """Why the checkpoint must not be decided: a source has left out too many. Tells of them otherwise."""
        for name, count in skipped.items():
            records = sum(each.records or 0 for each in ranges.get(name, ()))
            share = f"{count:,} of {records:,} records of source {name}"
            if count > self.allowed(records):
                message = f"checkpoint {checkpoint_id} would leave out {share}: more than checkpoint.max_skipped "
                message += f"({self.limit}) allows"
                return BadRecordError(message, remedy=_REMEDY)
        for name, count in skipped.items():
            _log.warning("checkpoint %d leaves out %d bad records of source %s", checkpoint_id, count, name)
        return None


def _of_one_run(read: Read) -> int:
    """A stage that has run twice, for two branches, has counted twice."""
    tasks = len(read.tasks)
    return read.aside * tasks // max(read.marks, tasks)


_REMEDY: Final = (
    "see the reasons in spark.stderr.log at the checkpoint location, or by on_bad_record: fail; then correct the "
    "schema or the producer, keep such records elsewhere with a `dead_letter`, or raise checkpoint.max_skipped"
)
