"""The behaviours of every source. Derive from `SourceCompliance`; three methods say how to reach the input.

    class TestMySource(SourceCompliance):
        def make_source(self, folder): ...      # over the input in this folder, which may be empty
        def append(self, folder, numbers): ...  # add records: an int64 column `n` has these numbers, in order
        def damages(self): ...                  # ways in which records that were read can change

The suite calls the source as the framework does: plans in one process, reads in another, cuts ranges where a checkpoint
may end, and starts again from JSON.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute
import pytest

from connectors.api.contracts import MeasuredSource, Source
from connectors.sources.built import BuiltSource
from connectors.sources.split_source import SplitSource
from eos.errors import ConnectorError
from twophase.positions import Position, check_position, is_before
from twophase.values import OffsetRange, StartingPoint

MILLION: Final = 1_000_000
MAX_BATCH_ROWS: Final = 250_000
"""Greatest number of rows in one batch: a task holds a few batches at a time."""

_IN_A_TASK: Final = """
import pickle, sys
source, ranges = pickle.load(sys.stdin.buffer)
from connectors.testing.sources import content
sys.stdout.write(content(source, ranges))
"""

Damage = Callable[[Path], None]
"""Change records in the input of a folder that were read before."""


class SourceCompliance:
    """Each test is one behaviour, on a fresh input. pytest finds the tests of a subclass."""

    column: ClassVar[str] = "n"
    """The int64 column that holds a record's number."""

    def make_source(self, folder: Path) -> SplitSource | Source:
        """Return a source that reads the input of this folder. The folder may be missing: then `check` says so."""
        raise NotImplementedError

    def append(self, folder: Path, numbers: range) -> None:
        """Add one record for each number to the input, in this order, behind the records that are there."""
        raise NotImplementedError

    def damages(self) -> Mapping[str, Damage]:
        """Return by name the ways in which records that were read can change: replaced, grown, removed, put between.

        The source must notice each. Empty only for a service that cannot change a record.
        """
        raise NotImplementedError

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """An empty folder for an input."""
        folder = tmp_path / "input"
        folder.mkdir()
        return folder

    def test_every_record_is_read_once_and_in_order(self, folder: Path) -> None:
        """`read` gives what was appended."""
        source = self._filled(folder, range(1_000))
        ranges = _planned(source)
        assert sorted(self._numbers(source, ranges)) == list(range(1_000))
        for each in ranges:
            numbers = self._numbers(source, [each])
            assert numbers == sorted(numbers), f"the records of {each.split} are not in the order of the input"

    def test_a_replay_gives_the_same_bytes(self, folder: Path) -> None:
        """R4: a decided batch that runs again must be what was decided."""
        source = self._filled(folder, range(500))
        ranges = _planned(source)
        assert content(source, ranges) == content(source, ranges) == content(self._source(folder), ranges)

    def test_another_process_reads_the_same_bytes(self, folder: Path) -> None:
        """A source goes to tasks by pickle, and a restart is another process."""
        source = self._filled(folder, range(500))
        ranges = _planned(source)
        assert _in_a_task(source, ranges) == content(source, ranges)

    def test_batches_have_the_declared_schema(self, folder: Path) -> None:
        """The query is built from `schema`, before anything is read."""
        source = self._filled(folder, range(100))
        assert {batch.schema for batch in source.read(_planned(source))} == {source.schema}

    def test_positions_are_json(self, folder: Path) -> None:
        """Head, records and Spark's plans keep positions as JSON, and compare them after that."""
        source = self._filled(folder, range(100))
        for each in _planned(source):
            for position in (each.start, each.end):
                assert check_position(position, each.split) == json.loads(json.dumps(position)) == position

    def test_positions_are_in_the_order_of_the_records(self, folder: Path) -> None:
        """Each end is after the end before it, and behind the records in between."""
        source = self._source(folder)
        ends: dict[str, Position] = {}
        for first in range(0, 300, 100):
            self.append(folder, range(first, first + 100))
            for each in _planned(source, ends):
                assert is_before(each.start, each.end)
                ends[each.split] = each.end

    def test_ranges_split_and_join(self, folder: Path) -> None:
        """The records do not depend on where checkpoints end."""
        source = self._source(folder)
        ends: dict[str, Position] = {}
        cuts: dict[str, list[Position]] = {}
        for first in range(0, 300, 100):
            self.append(folder, range(first, first + 100))
            for each in _planned(source, ends):
                cuts.setdefault(each.split, [each.start]).extend(_cut(source, each, 30))
                ends[each.split] = each.end
        for split, found in cuts.items():
            whole = content(source, [OffsetRange(split, found[0], found[-1])])
            for step in (1, 3, max(len(found) - 1, 1)):
                at = [*found[:-1:step], found[-1]]
                parts = [OffsetRange(split, start, end) for start, end in pairwise(at)]
                assert content(source, *([each] for each in parts)) == whole

    def test_an_empty_range_has_no_records(self, folder: Path) -> None:
        """Of a split that got nothing new."""
        source = self._filled(folder, range(10))
        for each in _planned(source):
            for at in (each.start, each.end):
                assert not self._numbers(source, [OffsetRange(each.split, at, at)])

    def test_without_news_the_end_stays_the_same(self, folder: Path) -> None:
        """Spark takes any other JSON for a new batch."""
        source = self._filled(folder, range(10))
        ends = {each.split: each.end for each in _planned(source)}
        for _ in range(2):
            assert _planned(self._source(folder), ends) == []

    def test_an_empty_input_has_nothing_to_plan(self, folder: Path) -> None:
        """A pipeline may start before its input has records."""
        assert _planned(self._source(folder)) == []

    def test_what_was_planned_stays_as_the_input_grows(self, folder: Path) -> None:
        """A replay reads the range of the plan, whatever came behind it."""
        source = self._filled(folder, range(200))
        ranges = _planned(source)
        before = content(source, ranges)
        self.append(folder, range(200, 400))
        assert content(self._source(folder), ranges) == before
        more = _planned(source, {each.split: each.end for each in ranges})
        assert sorted(self._numbers(source, more)) == list(range(200, 400))

    def test_splits_stay(self, folder: Path) -> None:
        """A split that the pipeline has begun to read is there at each later plan."""
        source = self._filled(folder, range(200))
        before = _planned(source)
        self.append(folder, range(200, 400))
        assert {each.split for each in before} <= source.horizon(StartingPoint()).ends.keys()

    def test_current_ends_hide_no_record(self, folder: Path) -> None:
        """The lag is the distance to these ends: an end before the last record would show too small a lag."""
        source = self._source(folder)
        known: dict[str, Position] = {}
        for first in range(0, 300, 100):
            self.append(folder, range(first, first + 100))
            current = source.current_ends(StartingPoint(dict(known))) if isinstance(source, MeasuredSource) else None
            planned = _planned(source, known)
            if current is None:
                return
            firsts = {**current.discovered.positions, **known}
            for each in planned:
                end = check_position(current.ends[each.split], each.split)
                assert firsts[each.split] == each.start
                assert not is_before(end, each.end), f"{each.split} can be read beyond its current end"
                known[each.split] = each.end

    def test_a_limit_is_within_the_range(self, folder: Path) -> None:
        """`max_records_per_checkpoint` ends each checkpoint somewhere, and together they read everything."""
        source = self._filled(folder, range(100))
        for each in _planned(source):
            assert _cut(source, each, 7)[-1] == each.end

    def test_the_records_that_were_read_are_known_again(self, folder: Path) -> None:
        """H23: the plan's witnesses hold for an input that did not change, also as it grows."""
        source = self._filled(folder, range(200))
        ranges = _planned(source)
        witnesses = json.loads(json.dumps(source.witnesses(ranges)))
        self.append(folder, range(200, 300))
        self._source(folder).check_witnesses(witnesses)

    def test_records_that_changed_are_noticed(self, tmp_path: Path) -> None:
        """H23: a start and the next plan compare the witnesses before anything is read, and refuse."""
        for name, damage in self.damages().items():
            folder = tmp_path / "".join(filter(str.isalnum, name))
            folder.mkdir()
            ends: dict[str, Position] = {}
            witnesses: dict[str, str] = {}
            for first in range(0, 300, 100):
                self.append(folder, range(first, first + 100))
                planned = _planned(self._source(folder), ends)
                ends |= {each.split: each.end for each in planned}
                witnesses |= self._source(folder).witnesses(planned)
            assert not _refuses(self._source(folder), ends, witnesses)
            damage(folder)
            assert _refuses(self._source(folder), ends, witnesses), f"{name}: the next plan does not notice it"

    def test_columns_can_be_left_out(self, folder: Path) -> None:
        """A query reads only the columns that it uses."""
        source = self._filled(folder, range(100))
        ranges = _planned(source)
        narrow = source.select([self.column])
        assert narrow.schema.names == [self.column]
        assert self._numbers(narrow, ranges) == self._numbers(source, ranges)

    def test_a_million_records(self, folder: Path) -> None:
        """Batches stay bounded, and nothing is lost."""
        self.append(folder, range(MILLION))
        source = self._source(folder)
        count = total = 0
        for batch in source.read(_planned(source)):
            assert batch.num_rows <= MAX_BATCH_ROWS
            count += batch.num_rows
            total += pa.compute.sum(batch.column(self.column)).as_py()
        assert (count, total) == (MILLION, MILLION * (MILLION - 1) // 2)

    def test_check_raises_nothing(self, folder: Path) -> None:
        """`eos doctor` shows findings, also of an input that is not there."""
        self.append(folder, range(10))
        assert all(each.ok for each in self._source(folder).check())
        missing = self._source(folder / "missing").check()
        assert missing
        assert all(each.detail for each in missing)

    def _source(self, folder: Path) -> Source:
        made = self.make_source(folder)
        return BuiltSource("compliance", made) if isinstance(made, SplitSource) else made

    def _filled(self, folder: Path, numbers: range) -> Source:
        self.append(folder, numbers)
        return self._source(folder)

    def _numbers(self, source: Source, ranges: Sequence[OffsetRange]) -> list[int]:
        return [number for batch in source.read(ranges) for number in batch.column(self.column).to_pylist()]


def content(source: Source, *ranges: Sequence[OffsetRange]) -> str:
    """Return the number and the digest of the records of ranges that are read one after another, however batched.

    Short on purpose: where a test fails in CI, pytest compares two long values line by line, for minutes.
    """
    batches = [batch for each in ranges for batch in source.read(each)]
    table = pa.Table.from_batches(batches, schema=source.schema).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return f"{table.num_rows} records with digest {sha256(sink.getvalue()).hexdigest()}"


def _planned(source: Source, ends: Mapping[str, Position] | None = None) -> list[OffsetRange]:
    """Return what the next checkpoint reads, as the planner's process finds it."""
    known = StartingPoint(dict(ends or {}))
    begun = source.starting_point(known)
    horizon = source.horizon(StartingPoint({**begun.positions, **known.positions}))
    starts = {**horizon.discovered.positions, **begun.positions, **known.positions}
    ranges = [OffsetRange(split, starts[split], end) for split, end in sorted(horizon.ends.items())]
    for each in ranges:
        assert not is_before(each.end, each.start), f"{each.split} ends before its start"
    return [each for each in ranges if not each.is_empty]


def _cut(source: Source, offsets: OffsetRange, records: int) -> list[Position]:
    """Return where the checkpoints of a backlog end."""
    cuts: list[Position] = []
    at = offsets.start
    while is_before(at, offsets.end):
        if isinstance(at, int) and isinstance(offsets.end, int):
            end: Position = min(at + records, offsets.end)
        else:
            end = source.limit(OffsetRange(offsets.split, at, offsets.end), records)
        assert is_before(at, end), f"limit makes no progress at {at!r}"
        assert not is_before(offsets.end, end), f"limit goes past the end of the range, to {end!r}"
        cuts.append(check_position(end, offsets.split))
        at = end
    return cuts


def _refuses(source: Source, ends: Mapping[str, Position], witnesses: Mapping[str, str]) -> bool:
    try:
        source.horizon(StartingPoint(dict(ends)))
        source.check_witnesses(witnesses)
    except ConnectorError as error:
        return not error.retriable  # waiting does not bring the records back
    return False


def environment() -> dict[str, str]:
    """Return the environment of a process that imports what this process can import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _in_a_task(source: Source, ranges: Sequence[OffsetRange]) -> str:
    given = pickle.dumps((source, ranges))
    done = subprocess.run(
        [sys.executable, "-c", _IN_A_TASK], input=given, env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode()
