"""The suite for sources: a right source passes, and each wrong one fails a test of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.sources.split_source import SplitSource
from connectors.testing import sources as suite
from connectors.testing.sources import Damage, SourceCompliance
from eos.errors import OffsetOutOfRangeError
from twophase.positions import Position

SCHEMA = pa.schema([("n", pa.int64()), ("line", pa.int64())])
FIRST = "0" * 12
NAME = "numbers.txt"


class Lines(SplitSource):
    """The lines of one file. A position is a byte, as text of twelve digits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def splits(self) -> Mapping[str, Position]:
        if not self.folder.is_dir():
            raise OffsetOutOfRangeError(f"{self.folder} is missing")
        return {NAME: FIRST} if (self.folder / NAME).exists() else {}

    def end(self, split: str, start: Position) -> Position:
        whole = (self.folder / NAME).read_bytes()
        return f"{len(whole):012d}"

    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        assert isinstance(start, str)
        assert isinstance(end, str)
        content = (self.folder / NAME).read_bytes()
        if len(content) < int(end):
            raise OffsetOutOfRangeError("the file is shorter")
        numbers = [int(line) for line in content[int(start) : int(end)].splitlines()]
        before = content[: int(start)].count(b"\n")
        for first in range(0, len(numbers), 100_000):
            some = numbers[first : first + 100_000]
            lines = range(before + first, before + first + len(some))
            yield pa.record_batch([pa.array(some, pa.int64()), pa.array(lines, pa.int64())], schema=SCHEMA)

    def witness(self, split: str, position: Position) -> str | None:
        assert isinstance(position, str)
        return hashlib.sha256((self.folder / NAME).read_bytes()[: int(position)]).hexdigest()

    def limit(self, split: str, start: Position, end: Position, max_records: int) -> Position:
        assert isinstance(start, str)
        assert isinstance(end, str)
        lines = (self.folder / NAME).read_bytes()[int(start) : int(end)].splitlines(keepends=True)
        return f"{int(start) + sum(map(len, lines[:max_records])):012d}"


class Compliance(SourceCompliance):
    """`Lines`, or what is wrong of it."""

    source: type[Lines] = Lines

    def make_source(self, folder: Path) -> Lines:
        return self.source(folder)

    def append(self, folder: Path, numbers: range) -> None:
        with (folder / NAME).open("a") as file:
            file.writelines(f"{number}\n" for number in numbers)

    def damages(self) -> Mapping[str, Damage]:
        def replaced(folder: Path) -> None:
            path = folder / NAME
            path.write_text(path.read_text().replace("\n150\n", "\n151\n"))

        def truncated(folder: Path) -> None:
            os.truncate(folder / NAME, 200)

        return {"replaced": replaced, "truncated": truncated}


class TestLines(Compliance):
    """A right source passes."""


class _Rereads(Lines):
    """Gives the record at the end of a range twice."""

    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        batches = list(super().read(split, start, end))
        if batches and start != FIRST:
            yield batches[-1].slice(batches[-1].num_rows - 1)
        yield from batches


class _Shuffles(Lines):
    """Reads in an order of its own."""

    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        for batch in super().read(split, start, end):
            yield batch.take(pa.array(reversed(range(batch.num_rows)), pa.int64()))


class _Counts(Lines):
    """Has a column that says how often this process has read."""

    reads = 0

    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        type(self).reads += 1
        for batch in super().read(split, start, end):
            yield batch.set_column(1, "line", pa.array([self.reads] * batch.num_rows, pa.int64()))


class _OfThisProcess(Lines):
    """Has a column that differs in another process."""

    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        for batch in super().read(split, start, end):
            yield batch.set_column(1, "line", pa.array([os.getpid()] * batch.num_rows, pa.int64()))


class _CountsFromTheRange(Lines):
    """Has a column that depends on where a checkpoint begins."""

    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        for batch in super().read(split, start, end):
            yield batch.set_column(1, "line", pa.array(range(batch.num_rows), pa.int64()))


class _Unordered(Lines):
    """Has positions without leading zeros."""

    def end(self, split: str, start: Position) -> Position:
        return str(int(str(super().end(split, start))))


class _Tuples(Lines):
    """Has positions that JSON gives back as something else."""

    def splits(self) -> Mapping[str, Position]:
        return {split: tuple(str(at)) for split, at in super().splits().items()}  # type: ignore[misc]

    def end(self, split: str, start: Position) -> Position:
        return tuple(str(super().end(split, start)))  # type: ignore[return-value]


class _NoWitness(Lines):
    """Does not know its records again."""

    def witness(self, split: str, position: Position) -> str | None:
        return None


class _WitnessOfAll(Lines):
    """Takes a file that grew for another one."""

    def witness(self, split: str, position: Position) -> str | None:
        return hashlib.sha256((self.folder / NAME).read_bytes()).hexdigest()


class _ReadsToTheEnd(Lines):
    """Reads what there is now, and not what was planned."""

    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        yield from super().read(split, start, self.end(split, start))


class _Forgets(Lines):
    """Lists a split no more once it was read."""

    def splits(self) -> Mapping[str, Position]:
        return {} if (self.folder / NAME).exists() and (self.folder / NAME).stat().st_size > 1_000 else super().splits()


class _EndsElsewhere(Lines):
    """Names an end that moves without news."""

    ends = 0

    def end(self, split: str, start: Position) -> Position:
        type(self).ends += 1
        return f"{int(str(super().end(split, start))) + self.ends:012d}"


class _OtherSchema(Lines):
    """Declares a column that it does not give."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*SCHEMA, ("more", pa.string())])


class _OneBatch(Lines):
    """Gives a range as one batch."""

    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(super().read(split, start, end), schema=SCHEMA).combine_chunks()
        yield from table.to_batches()


class _LimitsToNothing(Lines):
    """Names a limit that makes no progress."""

    def limit(self, split: str, start: Position, end: Position, max_records: int) -> Position:
        return start


class _HidesRecords(Lines):
    """Names a current end before the last records."""

    def current_end(self, split: str, start: Position) -> Position | None:
        return start


class _RaisesInCheck(Lines):
    """Has a check that fails."""

    def check(self) -> Any:
        self.splits()
        return super().check()


WRONG = {
    _Rereads: "test_ranges_split_and_join",
    _Shuffles: "test_every_record_is_read_once_and_in_order",
    _Counts: "test_a_replay_gives_the_same_bytes",
    _OfThisProcess: "test_another_process_reads_the_same_bytes",
    _CountsFromTheRange: "test_ranges_split_and_join",
    _Unordered: "test_positions_are_in_the_order_of_the_records",
    _Tuples: "test_positions_are_json",
    _NoWitness: "test_records_that_changed_are_noticed",
    _WitnessOfAll: "test_the_records_that_were_read_are_known_again",
    _ReadsToTheEnd: "test_what_was_planned_stays_as_the_input_grows",
    _Forgets: "test_splits_stay",
    _EndsElsewhere: "test_without_news_the_end_stays_the_same",
    _OtherSchema: "test_batches_have_the_declared_schema",
    _OneBatch: "test_a_million_records",
    _LimitsToNothing: "test_a_limit_is_within_the_range",
    _HidesRecords: "test_current_ends_hide_no_record",
    _RaisesInCheck: "test_check_raises_nothing",
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_wrong_source_fails_the_suite(wrong: type[Lines], tmp_path: Path) -> None:
    tried = Compliance()
    tried.source = wrong
    folder = tmp_path / "input"
    folder.mkdir()
    test = WRONG[wrong]
    given = tmp_path if test == "test_records_that_changed_are_noticed" else folder
    with pytest.raises((AssertionError, Exception)) as failed:
        getattr(tried, test)(given)
    assert not isinstance(failed.value, NotImplementedError)


def test_each_behaviour_has_a_wrong_source() -> None:
    behaviours = {name for name in vars(SourceCompliance) if name.startswith("test_")}
    covered_elsewhere = {
        "test_an_empty_range_has_no_records",  # the framework reads no empty range
        "test_an_empty_input_has_nothing_to_plan",
        "test_columns_can_be_left_out",  # done by the framework for a small source
    }
    assert behaviours - set(WRONG.values()) == covered_elsewhere
    assert suite.MAX_BATCH_ROWS < suite.MILLION
