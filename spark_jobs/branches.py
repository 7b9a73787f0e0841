"""How the rows of one batch come to the sinks: which rows each gets, and which sinks share a task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from connectors.contracts import Sink
from connectors.spec import Spec
from spark_jobs.columns import quoted
from spark_jobs.steps import apply_steps
from spark_jobs.writing import Share


@dataclass(frozen=True, slots=True)
class Branch:
    """Sinks that get the same rows: they are made once, and each task writes its share to all of the sinks."""

    rows: str  # the source or step that they are of; empty in a job of one's own
    sinks: tuple[Sink, ...]  # opened
    partition_by: Sequence[str] | None  # see Sink

    @property
    def columns(self) -> list[str]:
        """What the sinks take, together."""
        return list(dict.fromkeys(column for sink in self.sinks for column in sink.columns))

    @property
    def shares(self) -> tuple[Share, ...]:
        """What each sink gets of rows with these columns."""
        columns = self.columns
        return tuple(Share(sink, tuple(map(columns.index, sink.columns))) for sink in self.sinks)

    def of(self, frame: DataFrame) -> DataFrame:
        """The columns of `columns`."""
        return frame.select(*map(quoted, self.columns))


@dataclass(frozen=True, slots=True)
class Flow:
    """What becomes of the trunk's rows (connectors.spec.flow)."""

    spec: Spec
    branches: tuple[Branch, ...]

    @property
    def sinks(self) -> list[str]:
        """The names of all."""
        return [sink.name for branch in self.branches for sink in branch.sinks]

    def divide(self, batch: DataFrame) -> list[tuple[Branch, DataFrame]]:
        """Each branch's rows of a batch. Called once for each checkpoint. Raises what a step raises."""
        trunk, steps = self.spec.trunk, self.spec.branches
        if not steps or trunk is None:
            return [(branch, branch.of(batch)) for branch in self.branches]
        frames = apply_steps(batch.sparkSession, self.spec, steps, {trunk: batch})
        return [(branch, branch.of(frames[branch.rows])) for branch in self.branches]


def branches_of(rows: str, frame: DataFrame, sinks: Iterable[Sink]) -> list[Branch]:
    """Open the sinks of one frame's rows; those share tasks that want the rows in the same tasks, or in any.

    Raises TargetError, SinkUnavailableError.
    """
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    opened = [sink.open(schema) for sink in sinks]
    wishes = list(dict.fromkeys(tuple(sink.partition_by) for sink in opened if sink.partition_by is not None))
    if not wishes:
        return [Branch(rows, tuple(opened), None)]
    groups: dict[tuple[str, ...], list[Sink]] = {wish: [] for wish in wishes}
    for sink in opened:
        groups[wishes[0] if sink.partition_by is None else tuple(sink.partition_by)].append(sink)
    return [Branch(rows, tuple(group), wish) for wish, group in groups.items()]
