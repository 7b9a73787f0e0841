"""Where batches begin and end, as Spark's planner process decides it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, cast

import pytest

from connectors.api.contracts import Horizon
from eos.errors import IdentityError, OffsetOutOfRangeError
from spark_jobs.observe.withheld import Poll
from spark_jobs.query.pacing.turns import ALL_THERE, AlwaysDue, Turn
from spark_jobs.query.source import SourceReader
from spark_jobs.query.source_offset import SourceOffset
from spark_jobs.session.failures import TOKEN, CarriedError, translate
from twophase.positions import distance, total
from twophase.values import OffsetRange, StartingPoint


class _Source:
    """A source whose topics are `t` and whatever else `ends` names."""

    name = "s"
    split_above: int | None = None
    join_below = 0
    withheld_by = "a test"

    def __init__(self, ends: Mapping[str, int], first: Mapping[str, int] | None = None) -> None:
        self.ends, self.first = ends, first or {}
        self.made_again: frozenset[str] = frozenset()
        self.asked = 0
        self.withheld: Mapping[str, int] = {}
        self.log: Mapping[str, str] = {}  # by split: what a witness says of it now; without it there is none
        self.compared: list[Mapping[str, str]] = []

    def witnesses(self, ranges: Sequence[OffsetRange]) -> Mapping[str, str]:
        return {each.split: f"{each.end}:{self.log[each.split]}" for each in ranges if each.split in self.log}

    def check_witnesses(self, witnesses: Mapping[str, str]) -> None:
        self.compared += [witnesses] if witnesses else []
        for split, witness in witnesses.items():
            if witness.partition(":")[2] != self.log[split]:
                raise OffsetOutOfRangeError(f"{split} went back in time")

    def horizon(self, known: StartingPoint) -> Horizon:
        self.asked += 1
        for topic in self.made_again & known.identities.keys():
            raise OffsetOutOfRangeError(f"{topic} was made again")
        new = {split: self.first.get(split, 0) for split in self.ends if split not in known.positions}
        topics = {split.partition("/")[0] for split in self.ends}
        ids = {topic: f"id of {topic}" for topic in topics if topic not in known.identities}
        return Horizon(self.ends, StartingPoint(new, ids), self.withheld)

    def limit(self, offsets: OffsetRange, max_records: int) -> int:
        raise AssertionError("integers are cut by their distance")


class _Turns(AlwaysDue):
    """Remembers what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.polls: list[Poll] = []

    def tell(self, poll: Poll) -> None:
        self.polls.append(poll)


def _reader(source: _Source, initial: Mapping[str, int] | None = None, ids: Mapping[str, str] | None = None) -> Any:
    initial = initial or {}
    topics = {split.partition("/")[0] for split in ("t/0", *initial)}
    ids = {topic: f"id of {topic}" for topic in topics} if ids is None else ids
    return SourceReader(cast(Any, source), StartingPoint(initial, ids), ALL_THERE, TOKEN)


def _next(reader: SourceReader, start: Mapping[str, Any]) -> dict[str, Any]:
    """The next offset, as it comes back from Spark's log."""
    with _translated():
        planned: dict[str, Any] = json.loads(json.dumps(reader.latestOffset(dict(start), cast(Any, None))))
    return planned


def _ranges(reader: SourceReader, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[OffsetRange]:
    with _translated():
        return [each for share in reader.partitions(dict(start), dict(end)) for each in cast(Any, share).ranges]


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except CarriedError as error:
        raise translate(error, "planning") from error


def test_h3_the_initial_offset_is_what_head_has_stored_and_not_asked_anew() -> None:
    """Spark wants it again after a crash in its first batch; the oldest records may be deleted by then."""
    source = _Source({"t/0": 9}, first={"t/0": 4})
    initial = _reader(source, {"t/0": 2}).initialOffset()
    assert SourceOffset.from_json(json.loads(json.dumps(initial))).ends == {"t/0": 2}
    assert source.asked == 0


def test_a_split_that_is_no_longer_asked_for_stays() -> None:
    start = SourceOffset("s", {"t/0": 5, "old/0": 7}).to_json()
    assert _next(_reader(_Source({"t/0": 6})), start) == {"source": "s", "ends": {"t/0": 6, "old/0": 7}}


def test_a_split_found_on_the_way_begins_at_its_first_record_whoever_plans_again() -> None:
    source = _Source({"t/0": 5, "t/1": 20, "new/0": 9}, first={"t/1": 17, "new/0": 2})
    reader = _reader(source, {"t/0": 0}, {"t": "id of t"})
    start = SourceOffset("s", {"t/0": 5}).to_json()
    planned = _next(reader, start)
    assert planned == {
        "source": "s",
        "ends": {"t/0": 5, "t/1": 20, "new/0": 9},
        "began": {"positions": {"t/1": 17, "new/0": 2}, "identities": {"new": "id of new"}},
    }
    expected = [OffsetRange("new/0", 2, 9), OffsetRange("t/1", 17, 20)]
    source.first = {"t/1": 19, "new/0": 8}  # retention goes on
    for again in (reader, _reader(source, {"t/0": 0}, {"t": "id of t"})):
        assert _ranges(again, start, planned) == expected
    source.ends = {"t/0": 5, "t/1": 21, "new/0": 9}
    following = _next(reader, planned)
    assert following["ends"] == {"t/0": 5, "t/1": 21, "new/0": 9}
    assert following["began"]["positions"] == {}
    assert _ranges(reader, planned, following) == [OffsetRange("t/1", 20, 21)]


def test_each_look_tells_what_is_withheld_and_plans_none_of_it() -> None:
    source, told = _Source({"t/0": 5}), _Turns()
    source.withheld = {"t/0": 9}
    reader = SourceReader(cast(Any, source), StartingPoint({"t/0": 0}, {"t": "id of t"}), told, TOKEN)
    start = SourceOffset("s", {"t/0": 5}).to_json()
    assert _next(reader, start) == _next(reader, start) == start
    assert [(each.source, each.reason, each.splits) for each in told.polls] == [("s", "a test", {"t/0": (5, 9)})] * 2
    source.withheld = {}
    _next(reader, start)
    assert told.polls[-1].splits == {}
    assert [each.unread for each in told.polls] == [0, 0, 0]


def test_each_look_tells_how_much_no_plan_before_has_taken() -> None:
    source, told = _Source({"t/0": 9, "new/0": 30}), _Turns()
    source.first = {"new/0": 20}
    reader = SourceReader(cast(Any, source), StartingPoint({"t/0": 0}, {"t": "id of t"}), told, TOKEN)
    planned = _next(reader, SourceOffset("s", {"t/0": 5}).to_json())
    _next(reader, planned)
    source.ends = {"t/0": 10, "new/0": 30}
    _next(reader, planned)
    assert [each.unread for each in told.polls] == [4 + 10, 0, 1]


def test_the_id_of_a_topic_found_on_the_way_goes_from_plan_to_plan() -> None:
    """Whoever starts the query again is given the newest offset, and nothing of the one that found the topic (H23)."""
    source = _Source({"t/0": 5, "new/0": 9})
    reader = _reader(source, {"t/0": 0})
    found = _next(reader, SourceOffset("s", {"t/0": 5}).to_json())
    source.ends = {"t/0": 6, "new/0": 9}
    following = _next(reader, found)
    assert following["began"] == {"positions": {}, "identities": {"new": "id of new"}}
    assert _next(_reader(source, {"t/0": 0}), following) == following, "nothing came"
    source.ends = {"t/0": 6, "new/0": 15}
    assert _next(_reader(source, {"t/0": 0}), following)["began"] == following["began"]
    source.made_again = frozenset({"new"})
    until_caught_up = _reader(source, {"t/0": 0})
    until_caught_up.prepareForTriggerAvailableNow()
    for again in (reader, _reader(source, {"t/0": 0}), until_caught_up):
        with pytest.raises(OffsetOutOfRangeError, match="new was made again"):
            _next(again, following)


def test_h23_witnesses_go_from_plan_to_plan_and_are_compared_as_splits_go_on() -> None:
    source = _Source({"t/0": 5, "t/1": 7})
    source.log = {"t/0": "a", "t/1": "a"}
    reader = _reader(source, {"t/0": 0, "t/1": 0})
    first = _next(reader, reader.initialOffset())
    assert (first["format"], first["witnesses"]) == (2, {"t/0": "5:a", "t/1": "7:a"})
    assert source.compared == []
    source.ends = {"t/0": 9, "t/1": 7}
    second = _next(reader, first)
    assert second["witnesses"] == {"t/0": "9:a", "t/1": "7:a"}
    assert source.compared == [{"t/0": "5:a"}], "its own plan: only the split that goes on"
    assert _next(reader, second) == second
    again = _reader(source, {"t/0": 0, "t/1": 0})
    assert _next(again, second) == second, "nothing came"
    assert source.compared[1:] == [second["witnesses"]], "another process compares all of them, once"
    source.ends = {"t/0": 9, "t/1": 8}
    source.log = {"t/0": "a", "t/1": "another"}
    for each in (reader, _reader(source, {"t/0": 0, "t/1": 0})):
        with pytest.raises(OffsetOutOfRangeError, match="t/1 went back in time"):
            _next(each, second)


def test_h23_a_plan_that_is_run_again_is_of_the_log_that_it_names() -> None:
    source = _Source({"t/0": 5})
    source.log = {"t/0": "a"}
    reader = _reader(source, {"t/0": 0})
    start = reader.initialOffset()
    planned = _next(reader, start)
    assert _ranges(reader, start, planned) == _ranges(_reader(source, {"t/0": 0}), start, planned)
    assert source.compared == [planned["witnesses"]], "who has made the plan compares nothing"
    source.log = {"t/0": "another"}
    with pytest.raises(OffsetOutOfRangeError, match="t/0 went back in time"):
        _ranges(_reader(source, {"t/0": 0}), start, planned)


def test_h23_an_input_that_is_replaced_while_a_plan_is_made_is_refused() -> None:
    """Otherwise the plan has a witness of the records of today, and those that were read are never compared."""

    class Replaced(_Source):
        def witnesses(self, ranges: Sequence[OffsetRange]) -> Mapping[str, str]:
            self.log = {"t/0": "another"} if self.is_planned else self.log
            self.is_planned = True
            return super().witnesses(ranges)

        is_planned = False

    source = Replaced({"t/0": 5})
    source.log = {"t/0": "a"}
    reader = _reader(source, {"t/0": 0})
    first = _next(reader, reader.initialOffset())
    source.ends = {"t/0": 9}
    with pytest.raises(OffsetOutOfRangeError, match="t/0 went back in time"):
        _next(reader, first)


def test_h23_the_witness_of_a_split_that_is_no_longer_read_stays_and_is_not_compared() -> None:
    """Its topic may be deleted."""
    start = {"source": "s", "ends": {"t/0": 5, "old/0": 7}, "format": 2, "witnesses": {"t/0": "5:a", "old/0": "7:a"}}
    source = _Source({"t/0": 6})
    source.log = {"t/0": "a"}
    following = _next(_reader(source, {"t/0": 0}), start)
    assert following["witnesses"] == {"t/0": "6:a", "old/0": "7:a"}
    assert {split for compared in source.compared for split in compared} == {"t/0"}


def test_h23_a_plan_of_before_there_were_witnesses_is_read_on() -> None:
    source = _Source({"t/0": 6})
    source.log = {"t/0": "a"}
    earlier = {"source": "s", "ends": {"t/0": 5}}
    following = _next(_reader(source, {"t/0": 0}), earlier)
    assert following == {"source": "s", "ends": {"t/0": 6}, "format": 2, "witnesses": {"t/0": "6:a"}}
    assert source.compared == []


def test_a_plan_that_is_run_again_is_of_the_topics_that_it_names() -> None:
    source = _Source({"t/0": 5, "new/0": 9})
    reader = _reader(source, {"t/0": 0})
    start = SourceOffset("s", {"t/0": 5}).to_json()
    found = _next(reader, start)
    source.made_again = frozenset({"new"})
    assert _ranges(reader, start, found) == [OffsetRange("new/0", 0, 9)]
    assert source.asked == 1, "who has made the plan asks nobody again"
    with pytest.raises(OffsetOutOfRangeError, match="new was made again"):
        _ranges(_reader(source, {"t/0": 0}), start, found)


def test_an_id_that_is_stored_already_is_in_no_plan() -> None:
    """It may be another one than that of an older plan: a savepoint or a reset has said so."""
    source = _Source({"t/0": 6})
    start = SourceOffset("s", {"t/0": 5}, StartingPoint({}, {"t": "older"})).to_json()
    assert _next(_reader(source, {"t/0": 0}), start) == {"source": "s", "ends": {"t/0": 6}}


def test_an_id_that_nothing_has_stored_is_in_the_next_plan() -> None:
    reader = _reader(_Source({"t/0": 6, "empty/0": 0}), {"t/0": 0}, {})
    planned = _next(reader, SourceOffset("s", {"t/0": 5}).to_json())
    assert planned["began"] == {"positions": {}, "identities": {"t": "id of t"}}


def test_a_new_split_begins_with_the_plan_that_finds_it_though_that_takes_nothing_of_it() -> None:
    """Asked again when its turn comes, it would begin behind what retention has deleted meanwhile (R6)."""
    large = {f"t/{number}": 100 for number in range(11)}
    source = _Source({**large, "t/11": 5}, first={"t/11": 2})
    began = StartingPoint(dict.fromkeys(large, 0), {"t": "id of t"})
    start = {"source": "s", "ends": dict(began.positions)}
    for found in ({"t/11": 2}, {}):  # a restart between two plans
        reader = SourceReader(cast(Any, source), began, AlwaysDue(10), TOKEN)
        planned = _next(reader, start)
        assert planned["ends"]["t/11"] == 2
        ranges = _ranges(reader, start, planned)
        assert "t/11" not in {each.split for each in ranges}
        assert total(distance(each.start, each.end) for each in ranges) == 10
        assert SourceOffset.from_json(planned).began.positions == found
        start, source.first = planned, {"t/11": 4}
    reader = SourceReader(cast(Any, source), began, ALL_THERE, TOKEN)
    assert OffsetRange("t/11", 2, 5) in _ranges(reader, start, _next(reader, start))


def test_a_new_split_without_records_is_looked_at_again() -> None:
    start = SourceOffset("s", {"t/0": 5}).to_json()
    reader = _reader(_Source({"t/0": 6, "t/1": 3}, first={"t/1": 3}), {"t/0": 0})
    assert _next(reader, start) == {"source": "s", "ends": {"t/0": 6}}


def test_a_run_until_caught_up_ends_where_the_source_was_at_its_first_plan() -> None:
    """Or it would never end while producers go on."""
    source = _Source({"t/0": 9})
    reader = _reader(source, {"t/0": 0})
    reader.prepareForTriggerAvailableNow()
    first = _next(reader, reader.initialOffset())
    source.ends = {"t/0": 20}
    assert SourceOffset.from_json(first).ends == {"t/0": 9}
    assert _next(reader, first) == first
    assert source.asked == 1


def test_nothing_new_is_the_same_offset_to_the_letter() -> None:
    start = SourceOffset("s", {"t/0": 5}, StartingPoint({"t/0": 1}, {"t": "id of t"})).to_json()
    assert _next(_reader(_Source({"t/0": 5})), start) == start


def test_a_topic_that_was_added_later_starts_where_head_says() -> None:
    reader = _reader(_Source({"t/0": 5, "new/0": 9}), {"t/0": 0, "new/0": 8})
    start = SourceOffset("s", {"t/0": 5}).to_json()
    end = _next(reader, start)
    assert end == {"source": "s", "ends": {"t/0": 5, "new/0": 9}}
    assert _ranges(reader, start, end) == [OffsetRange("new/0", 8, 9)]


def test_a_plan_that_found_a_split_says_where_it_begins_though_it_was_stored_again_since() -> None:
    """As where `eos_kafka` had a pattern, and names the topic now: what lies between would be read by nobody."""
    start = SourceOffset("s", {"t/0": 5}).to_json()
    found = _next(_reader(_Source({"t/0": 5, "new/0": 9}, first={"new/0": 2}), {"t/0": 0}), start)
    later = _reader(_Source({"t/0": 5, "new/0": 9}), {"t/0": 0, "new/0": 7})
    assert _ranges(later, start, found) == [OffsetRange("new/0", 2, 9)]


def test_a_topic_that_was_made_again_is_not_passed_over() -> None:
    with pytest.raises(OffsetOutOfRangeError, match="t/1 ends at 3, and the pipeline has read it up to 9"):
        _next(_reader(_Source({"t/0": 6, "t/1": 3})), SourceOffset("s", {"t/0": 5, "t/1": 9}).to_json())


def test_offsets_of_another_source_are_refused() -> None:
    with pytest.raises(IdentityError, match="takes the offsets of source other for those of s"):
        _next(_reader(_Source({"t/0": 6})), SourceOffset("other", {"t/0": 5}).to_json())


class _Over(AlwaysDue):
    def next(self) -> Turn | None:
        return None

    def tell(self, poll: Poll) -> None:
        pytest.fail(f"a query that is stopped has planned: {poll}")


class _Bounded(_Turns):
    """Of a run until caught up on a version of Spark that does not tell its sources."""

    def __init__(self) -> None:
        super().__init__()
        self.are_bounded = True
        self.rests: list[str] = []

    def nothing_new(self, source: str) -> None:
        self.rests.append(source)


def test_without_a_start_a_plan_follows_the_newest_one() -> None:
    """Spark 4.0 and 4.1 give no start. After a start of the query they plan the partitions of the newest offset."""
    source = _Source({"t/0": 3})
    reader = _reader(source, {"t/0": 1})
    first = reader.latestOffset()
    assert first["ends"] == {"t/0": 3}
    source.ends = {"t/0": 9}
    assert _ranges(reader, first, reader.latestOffset()) == [OffsetRange("t/0", 3, 9)]
    restarted = _reader(source, {"t/0": 1})
    planned = SourceOffset("s", {"t/0": 5, "old/0": 7}).to_json()
    assert _ranges(restarted, planned, planned) == []
    following = restarted.latestOffset()
    assert following["ends"] == {"t/0": 9, "old/0": 7}
    assert _ranges(restarted, planned, following) == [OffsetRange("t/0", 5, 9)]


def test_a_bounded_query_ends_where_its_first_plan_has_seen_and_says_so() -> None:
    source, told = _Source({"t/0": 5}), _Bounded()
    reader = SourceReader(cast(Any, source), StartingPoint({"t/0": 0}, {"t": "id of t"}), told, TOKEN)
    assert reader.latestOffset()["ends"] == {"t/0": 5}
    assert told.rests == []
    source.ends = {"t/0": 9}
    assert reader.latestOffset()["ends"] == {"t/0": 5}
    assert told.rests == ["s"]


def test_a_query_that_is_stopped_plans_nothing_and_asks_nobody() -> None:
    start = SourceOffset("s", {"t/0": 5}).to_json()
    source = _Source({"t/0": 9})
    assert _next(SourceReader(cast(Any, source), StartingPoint(), _Over(), TOKEN), start) == start
    assert source.asked == 0


@pytest.mark.parametrize(
    ("most", "cuts"), [(None, [10, 31]), (21, [10, 31]), (20, [10, 20, 31]), (6, [10, 15, 20, 25, 31])]
)
def test_a_large_range_in_pieces(most: int | None, cuts: list[int]) -> None:
    source = _Source({"t/0": 31, "t/1": 4})
    source.split_above = most
    start, end = (SourceOffset("s", ends).to_json() for ends in ({"t/0": 10, "t/1": 4}, {"t/0": 31, "t/1": 4}))
    assert _ranges(_reader(source), start, end) == [OffsetRange("t/0", a, b) for a, b in pairwise(cuts)]


@pytest.mark.parametrize(
    ("join_below", "tasks"),
    [(0, ["t/0", "t/1", "t/2", "t/3"]), (4, ["t/0", "t/1 t/2", "t/3"]), (12, ["t/0 t/1 t/2 t/3"])],
)
def test_small_ranges_share_a_task(join_below: int, tasks: list[str]) -> None:
    source = _Source({"t/0": 4, "t/1": 2, "t/2": 3, "t/3": 1, "t/4": 0})
    source.join_below = join_below
    start, end = (SourceOffset("s", ends).to_json() for ends in (dict.fromkeys(source.ends, 0), source.ends))
    shares = [cast(Any, share).ranges for share in _reader(source).partitions(start, end)]
    assert [" ".join(each.split for each in share) for share in shares] == tasks
    assert all((each.start, each.end) == (0, source.ends[each.split]) for share in shares for each in share)
