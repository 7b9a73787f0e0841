"""Branches of the flow: the rows of each sink, and the sinks that share a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from connectors.api.contracts import Sink, Unopened
from connectors.dead_letters import PLACE
from connectors.spec import Spec, TransformStep
from eos.errors import SpecError
from spark_jobs.batch.columns import selected
from spark_jobs.batch.writing import Share
from spark_jobs.query.expectations import failing, passing
from spark_jobs.query.roots import RootRows, rows_of
from spark_jobs.query.steps import apply_steps
from spark_jobs.session.arrow import to_arrow

WHOLE: Final = "whole batch"
"""Key of a batch among its frames. No source or step has this name: a name has no blank."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Sinks that get the same rows. The rows are computed once, and each task writes its share to all of the sinks."""

    rows: str  # the source or step of the rows; empty in the user's own job
    sinks: tuple[Sink, ...]  # opened
    partition_by: Sequence[str] | None  # see Sink
    meeting: Sequence[str] | None = None  # columns of the partitioning after a RowLockedError, to find equal rows
    has_place: bool = False  # the rows have the columns of dead_letters.PLACE, and there are dead letters

    @property
    def columns(self) -> list[str]:
        """The columns of all sinks, each once."""
        return list(dict.fromkeys(column for sink in self.sinks for column in sink.columns))

    @property
    def shares(self) -> tuple[Share, ...]:
        """The share of each sink: the indexes of its columns and of its hash."""
        columns, hashes = self.columns, self.hashes
        return tuple(
            Share(sink, tuple(map(columns.index, sink.columns)), hashes.index(_by_name(sink))) for sink in self.sinks
        )

    @property
    def hashes(self) -> list[tuple[str, ...]]:
        """The sets of columns that are hashed (R4): the columns of each sink, independent of the other sinks."""
        return list(dict.fromkeys(map(_by_name, self.sinks)))

    def of(self, frame: DataFrame) -> DataFrame:
        """Select `columns` from a frame."""
        return selected(frame, self.columns)

    @property
    def placed_columns(self) -> list[str]:
        """`columns`, followed by the columns with the place of a row's record, if there are any."""
        return list(dict.fromkeys([*self.columns, *(PLACE if self.has_place else ())]))

    @property
    def places(self) -> tuple[int, ...]:
        """The indexes of the columns with the place of the record in `placed_columns`."""
        return tuple(map(self.placed_columns.index, PLACE)) if self.has_place else ()

    def placed(self, frame: DataFrame) -> DataFrame:
        """Select `placed_columns` from a frame."""
        return selected(frame, self.placed_columns)


def _by_name(sink: Sink) -> tuple[str, ...]:
    return tuple(sorted(sink.columns))


@dataclass(frozen=True, slots=True)
class Flow:
    """The flow behind the roots (connectors.spec.flow): its steps and branches."""

    spec: Spec
    branches: tuple[Branch, ...]

    @property
    def sinks(self) -> list[str]:
        """The names of all sinks."""
        return [sink.name for branch in self.branches for sink in branch.sinks]

    @property
    def roots(self) -> list[str]:
        """The names of the roots; an empty name for the frame of a user's own job."""
        return self.spec.roots or [""]

    def shared(self, frames: Mapping[str, DataFrame]) -> list[str]:
        """Return the names of frames that are used more than once: the batch, roots and steps behind them, in order.

        `frames`: see `frames`.
        """
        roots, steps = self.roots, [step.name for step in self.spec.branches]
        uses = Counter(branch.rows for branch in self.branches)
        uses.update(name for step in steps for name in self.spec.inputs[step])
        whole = [WHOLE] if WHOLE in frames else []
        return [*whole, *(name for name in (*roots, *steps) if uses[name] > 1)]

    @property
    def expecting(self) -> list[TransformStep]:
        """The steps with rules."""
        return self.spec.expecting

    def rejected(self, batch: DataFrame) -> dict[str, DataFrame]:
        """Return the rows of the batch that rules reject, by step: dead letters."""
        found: dict[str, DataFrame] = {}
        self._apply(batch, found)
        return found

    def frames(self, batch: DataFrame) -> dict[str, DataFrame]:
        """Return the frames of the roots and of the steps behind them, by name. Called for each checkpoint.

        Also the whole batch, if the frames of several roots read it in common.

        Raises the errors of the steps; SpecError for a step that reads a frame before its root.
        """
        return self._apply(batch, {})

    def _apply(self, batch: DataFrame, rejected: dict[str, DataFrame]) -> dict[str, DataFrame]:
        roots = self.roots
        rows = rows_of(batch, roots) if len(roots) > 1 else RootRows({roots[0]: batch}, apart=True)
        frames = dict(rows.frames)
        for step in self.spec.transforms:
            if step.name in roots and step.rejects_rows:  # the query leaves these rows in: see run.pipeline
                every = frames[step.name]
                rejected[step.name], frames[step.name] = failing(step, every), passing(step, every)
        if self.spec.branches:
            frames = apply_steps(batch.sparkSession, self.spec, self.spec.branches, frames, rejected)
        for name, frame in frames.items():
            if frame.isStreaming:  # the spec's own look at a query may miss a name that Spark finds
                root = self.spec.root_of(name)
                message = f"step {name} stands behind {root}, where the flow divides, and reads what is before it"
                raise SpecError(message, remedy=f"name {root} or later steps in it, as plain words")
        return frames if rows.apart else {WHOLE: batch, **frames}


def branches_of(
    rows: str, frame: DataFrame, sinks: Iterable[Unopened], *, letters: bool = False, again: bool = False
) -> list[Branch]:
    """Open the sinks of a frame, and group the sinks with the same partitioning into one branch.

    `letters`: refused rows become dead letters. `again`: a batch may have several attempts. If the sinks then reject
    duplicates, the first attempt needs no shuffle.

    Raises TargetError, SinkUnavailableError.
    """
    schema = to_arrow(frame.schema)
    names = [name.lower() for name in frame.columns]  # as Spark tells them apart; those of a join may be there twice
    has_place = letters and all(names.count(each) == 1 for each in PLACE)
    opened = [sink.open(schema) for sink in sinks]
    wishes = list(dict.fromkeys(tuple(sink.partition_by) for sink in opened if sink.partition_by is not None))
    if not wishes:
        return [Branch(rows, tuple(opened), None, has_place=has_place)]
    if again and len(wishes) == 1 and all(sink.rejects_duplicates for sink in opened if sink.partition_by is not None):
        return [Branch(rows, tuple(opened), None, wishes[0], has_place)]
    groups: dict[tuple[str, ...], list[Sink]] = {wish: [] for wish in wishes}
    for sink in opened:
        groups[wishes[0] if sink.partition_by is None else tuple(sink.partition_by)].append(sink)
    return [Branch(rows, tuple(group), wish, has_place=has_place) for wish, group in groups.items()]
