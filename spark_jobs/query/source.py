"""A connector's source as a Spark data source: plans in a process of its own, reads in tasks, and keeps nothing."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from connectors.admission import admit
from connectors.api.contracts import Horizon, Source
from eos.errors import IdentityError, OffsetOutOfRangeError
from spark_jobs.observe.withheld import Poll
from spark_jobs.query.marks import read_and_mark
from spark_jobs.query.pacing.turns import Turns
from spark_jobs.query.source_offset import SourceOffset, topic_of
from spark_jobs.query.streaming_api import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from spark_jobs.query.tasks import shares
from spark_jobs.session.failures import TOKEN, carried
from spark_jobs.session.worker import settle
from twophase.positions import Positions, check_positions, is_before
from twophase.values import OffsetRange, StartingPoint

if TYPE_CHECKING:
    import pyarrow as pa

    from connectors.spec import SourceEntry


class _Share(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        super().__init__(ranges)
        self.ranges = ranges


class SourceReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are those of `SourceOffset`. The initial ones come from head, where they were stored before (R6, R10)."""

    def __init__(self, source: Source, began: StartingPoint, turns: Turns, token: str, *, marks: bool = False) -> None:
        self._source = source
        self._name = source.name  # in offsets
        self._marks = marks  # see `marks`
        self._token = token  # see failures.carried
        self._began = began
        self._turns = turns
        self._identities = dict(began.identities)  # and those of plans
        self._is_bounded = turns.are_bounded
        self._reached: dict[str, Any] | None = None  # the newest plan that this process knows
        self._target: Horizon | None = None  # of a run until caught up: what there was before its first plan
        self._latest: Positions | None = None
        self._known: Mapping[str, str] | None = (
            None  # witnesses of the newest plan that this process has made or compared
        )

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 Spark's name
        """Spark asks for this again after a crash in batch 0; head gives the same answer for ever (H3)."""
        return self._offset(self._began.positions)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 Spark's name
        """Called once, before the first batch, when the query is to end when it has caught up."""
        self._is_bounded = True  # Kafka is asked with the newest offset, which may have ids of topics

    def latestOffset(  # noqa: N802 Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Where the next batch ends. Called before every batch, and again while nothing comes; asks the service.

        Blocks until a checkpoint is due: Spark can be told no better, and what it makes without new records (time has
        passed in the query) waits for its turn, too.

        Before 4.2 Spark gives no `start`. It is the newest plan: after a start Spark plans the partitions of this
        one first, from its end to its end.

        Raises OffsetOutOfRangeError for a split that ends before what was read, or has other records there: records
        would have offsets that count as done, and be left out (H23).
        """
        start = start or self._reached or self.initialOffset()
        self._reached = self._next(start)
        return self._reached

    def _next(self, start: dict[str, Any]) -> dict[str, Any]:
        with carried(self._token):
            before = self._parsed(start)
            turn = self._turns.next()
            if turn is None:
                return start
            self._identities = {**before.began.identities, **self._identities}
            known = {**self._began.positions, **before.ends}  # a topic added to the spec has a position in head alone
            horizon = self._target or self._ask(StartingPoint(known, self._identities))
            self._target = horizon if self._is_bounded else None
            self._latest = horizon.ends
            _check_not_shorter(known, horizon.ends)
            if before.witnesses != self._known:  # of a plan that another process has made
                self._check_witnesses(before, horizon.ends)
                self._known = before.witnesses
            starts = {**horizon.discovered.positions, **known}
            admitted = admit(starts, horizon.ends, turn.max_records, self._source.limit)
            # Also those that this plan takes nothing of: asked again later, they would begin behind what is deleted.
            found = (split for split in admitted if split not in known)
            new = {split: starts[split] for split in found if is_before(starts[split], horizon.ends[split])}
            ends = {**before.ends, **{split: end for split, end in admitted.items() if split in known or split in new}}
            if ends == before.ends:
                self._turns.nothing_new(self._name)
                return start  # to the letter, or Spark would run a batch of nothing
            began = StartingPoint(new, self._not_stored(ends, horizon))
            return self._witnessed(before, SourceOffset(self._name, ends, began), starts).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 Spark's name
        """Return the ends that the newest plan has seen, for Spark's own progress events."""
        return self._offset(self._latest) if self._latest is not None else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One task for each split that has something new, or for several that have little."""
        self._reached = end
        with carried(self._token):
            before, planned = self._parsed(start), self._parsed(end)
            self._check_same_topics(planned)
        # A split that this plan found begins where it says, though options that name its topic may have stored another.
        ranges = planned.ranges({**self._began.positions, **planned.began.positions, **before.ends})
        if planned.witnesses != self._known:
            with carried(self._token):
                self._check_witnesses(planned, {each.split for each in ranges})
        return [_Share(each) for each in shares(ranges, self._source.split_above, self._source.join_below)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        assert isinstance(partition, _Share)
        settle()
        with carried(self._token):
            source, ranges = self._source, partition.ranges
            yield from read_and_mark(source, ranges) if self._marks else source.read(ranges)

    def _ask(self, known: StartingPoint) -> Horizon:
        horizon = self._source.horizon(known)
        for positions in (horizon.ends, horizon.withheld, horizon.discovered.positions):
            check_positions(positions, f"source {self._name}")
        self._turns.tell(Poll.of(self._source, horizon, known.positions))
        return horizon

    def _not_stored(self, ends: Positions, horizon: Horizon) -> dict[str, str]:
        """Ids of the topics that a plan names, but for those that were stored before the query started."""
        named = {*ends, *map(topic_of, ends)}
        found = {topic: each for topic, each in horizon.discovered.identities.items() if topic in named}
        self._identities = {**found, **self._identities}
        return {topic: each for topic, each in self._identities.items() if topic not in self._began.identities}

    def _check_same_topics(self, planned: SourceOffset) -> None:
        """A plan that another process has made, and did not bring to its end, is of topics that may be others now."""
        if planned.began.identities.keys() - self._identities:
            identities = {**planned.began.identities, **self._identities}
            self._source.horizon(StartingPoint(planned.ends, identities))
            self._identities = identities

    def _check_witnesses(self, plan: SourceOffset, splits: Container[str]) -> None:
        """Compare the witnesses of these splits with the records of today (H23)."""
        self._source.check_witnesses({split: each for split, each in plan.witnesses.items() if split in splits})

    def _witnessed(self, before: SourceOffset, plan: SourceOffset, starts: Positions) -> SourceOffset:
        """The plan with its witnesses. Of splits that go on, those of the plan before are compared (H23).

        They are compared last. Otherwise an input that is replaced in between would get witnesses of its new records,
        and nothing would be compared with those that were read.
        """
        moved = plan.ranges({**starts, **before.ends})
        witnesses = {**before.witnesses, **self._source.witnesses(moved)}
        self._check_witnesses(before, {each.split for each in moved})
        self._known = witnesses
        return replace(plan, witnesses=witnesses)

    def _offset(self, ends: Positions) -> dict[str, Any]:
        return SourceOffset(self._name, ends).to_json()

    def _parsed(self, offset: dict[str, Any]) -> SourceOffset:
        parsed = SourceOffset.from_json(offset)
        self._check_own(parsed)
        return parsed

    def _check_own(self, offset: SourceOffset) -> None:
        """Spark hands out offsets by the place of a source in the query. Raises IdentityError for another source's."""
        if offset.source != self._name:
            message = f"Spark takes the offsets of source {offset.source} for those of {self._name}"
            remedy = (
                "the steps name the sources in another order than before: change it back; or take a savepoint "
                "(`eos savepoint`) and start from it, which finds each by its name"
            )
            raise IdentityError(message, remedy=remedy)


def _check_not_shorter(known: Positions, ends: Positions) -> None:
    for split, offset in known.items():
        if is_before(ends.get(split, offset), offset):
            message = f"{split} ends at {ends[split]}, and the pipeline has read it up to {offset}: "
            message += "the topic was made again, or the log went back in time"
            remedy = "`eos reset --to` restarts with the current records (docs/how-to/backup.md)"
            raise OffsetOutOfRangeError(message, remedy=remedy)


def format_name(source: Source | SourceEntry) -> str:
    """The name under which Spark knows a source."""
    return f"eos_{source.name}"


def data_source(
    source: Source, schema: StructType, began: StartingPoint, turns: Turns, *, marks: bool = False
) -> type[DataSource]:
    """A data source class for this one source. `marks`: with marks behind its records, see `marks`.

    The configuration travels inside the class, by value, and not in Spark's options: those are shown in plans and in
    the UI, and it may hold passwords.
    """
    source_name, token = format_name(source), TOKEN

    class ConfiguredSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def schema(self) -> StructType:
            return schema

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 Spark's name
            return SourceReader(source, began, turns, token, marks=marks)

    return ConfiguredSource
