"""The small contract of a source: three methods and a schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from twophase.positions import Position

if TYPE_CHECKING:
    import pyarrow as pa

    from connectors.api.contracts import Finding


class SplitSource(ABC):
    """A replayable input: records in splits, each in an order of positions.

    A split is any text that names a part of the input for good (a table, a folder, a queue). A position is an `int`, a
    `str`, or a list of positions: plain JSON. Positions of one split are all of one shape, and Python's order of them
    is the order of the records. A position is where reading goes on: a range `[start, end)` has the record at `start`
    and not the one at `end`.

    The framework stores where each split goes on. The source stores nothing.

    Rules:
        - `read` of one range gives the same records in the same order, byte for byte, at every call, in any process.
        - A range may be divided: `read(s, a, c)` gives the records of `read(s, a, b)` and then of `read(s, b, c)`.
        - Records that `end` has once included stay. Where they change, `read` and `end` raise; they never give others.
        - An instance holds configuration only and can be pickled: it goes to the planner's process and to tasks.

    `eos.testing.SourceCompliance` holds a source to these rules.
    """

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of each batch of `read`, those with metadata included. Must not connect to a service."""

    @abstractmethod
    def splits(self) -> Mapping[str, Position]:
        """Return each split that exists now, with the position of its first record.

        Called on the driver at a start, and in the planner's process before each checkpoint. May block. Raises
        SourceError if the service does not answer; the checkpoint is then tried again. A split that was returned once
        must be returned from then on.
        """

    @abstractmethod
    def end(self, split: str, start: Position) -> Position:
        """Return how far the split may be read now, from `start` on; `start` itself where there is nothing new.

        An unbounded source answers with what may be planned now, and not with an end of the split. Called in the
        planner's process before each checkpoint. Raises SourceError if the service does not answer, and
        OffsetOutOfRangeError if the records before `start` are no longer those that were read, or if records from
        `start` on were removed before they were read: the framework cannot tell that from a gap between positions.
        """

    @abstractmethod
    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        """Yield the records of `[start, end)` in order, in batches of `schema` and of bounded size.

        Called in a task, once more on each retry. Raises SourceError if the service does not answer,
        OffsetOutOfRangeError if the records of the range are gone or changed, BadRecordError for a record that does
        not decode.
        """

    def current_end(self, split: str, start: Position) -> Position | None:
        """Return the end of the records of the split that exist now: the lag needs it. None: it is not known.

        `start`: the position of the pipeline. By default the answer of `end`. A source whose `end` is less than what
        exists, such as an unbounded one, overrides this method. Called at intervals in a thread of the driver, on a
        copy of the source. Raises what `end` raises: the lag is then unknown, and the pipeline continues.
        """
        return self.end(split, start)

    def witness(self, split: str, position: Position) -> str | None:
        """Return a text by which the records before `position` are known again, such as a hash or a version.

        The framework stores the text with each plan. The next plan, and each start, call this method once more and
        refuse to go on where the text is another one. None: this source has no witness. Called in the planner's
        process; may block.
        """
        return None

    def limit(self, split: str, start: Position, end: Position, max_records: int) -> Position:
        """Return the position behind about `max_records` records of the range: after `start`, and not after `end`.

        Called for `max_records_per_checkpoint`, in the planner's process, unless positions are integers: the framework
        then takes `start + max_records`. By default a checkpoint takes all of the range.
        """
        return end

    def check(self) -> Sequence[Finding]:
        """Return what `eos doctor` shows of the source. By default, whether its splits can be listed. Never raises."""
        from connectors.api.contracts import Finding
        from eos.errors import ConnectorError

        try:
            splits = self.splits()
        except ConnectorError as error:
            return [Finding("splits", False, error.message, error.remedy)]
        return [Finding("splits", True, f"{len(splits)} found")]
