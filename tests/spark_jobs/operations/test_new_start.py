"""`--to`: what it may say, and what follows for each split; the service is a double with what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.api.contracts import Horizon
from connectors.kafka.entry import KafkaEntry
from connectors.sources.built import BuiltSource
from connectors.sources.split_source import SplitSource
from connectors.spec import Spec, load_spec
from eos.errors import OffsetOutOfRangeError, SpecError
from spark_jobs.operations import new_start
from spark_jobs.operations.new_start import parse, resolve
from twophase.head_value import HeadValue
from twophase.positions import Position
from twophase.values import StartingPoint

SPEC = """\
pipeline: orders
checkpoint: {location: state}
sources: [{name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}, starting_offsets: latest}]
sinks: [{name: out, from: s, connector: sqlite, path: x.db, table: t, commit: write-ahead-log}]
"""
FIRST, LAST = {"t/0": 10, "t/1": 0, "t/2": 0}, {"t/0": 100, "t/1": 50, "t/2": 7}
HEAD = HeadValue(
    "orders",
    "a" * 20,
    3,
    ("n",),
    completed=5,
    initial={"s": {"t/0": 20, "t/1": 5}},
    identities={"s": {"t": "one"}},
    positions={"s": {"t/0": 60, "t/1": 50}},
)


class Kafka:
    """The topic `t` with three partitions."""

    def __init__(self, entry: KafkaEntry) -> None:
        assert entry.starting_offsets == "latest"

    def horizon(self, known: StartingPoint) -> Horizon:
        assert known == StartingPoint()
        return Horizon(LAST, StartingPoint(FIRST, {"t": "one"}))

    def starting_point(self, known: StartingPoint) -> StartingPoint:
        begun = {split.partition("/")[0] for split in known.positions}
        new = {split: at for split, at in LAST.items() if split.partition("/")[0] not in begun}
        return StartingPoint(new, {"t": "one"})


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spec:
    monkeypatch.setattr(new_start, "build_source", Kafka)
    path = tmp_path / "orders.yaml"
    path.write_text(SPEC)
    return load_spec(path, {})


def found(spec: Spec, text: str, head: HeadValue | None = HEAD) -> list[tuple[Any, ...]]:
    begins, splits = resolve(spec, parse(text), head)
    assert begins["s"] == StartingPoint({each.split: each.start for each in splits}, {"t": "one"})
    return [(each.split, each.was_at, each.start, each.written_again, each.never_written) for each in splits]


def test_from_the_beginning_only_what_was_read_is_written_twice(spec: Spec) -> None:
    assert found(spec, "earliest") == [
        ("t/0", 60, 10, 40, 0),  # it began at 20
        ("t/1", 50, 0, 45, 0),
        ("t/2", None, 0, 0, 0),
    ]


def test_from_the_end_what_was_not_read_is_never_written(spec: Spec) -> None:
    assert found(spec, "latest") == [("t/0", 60, 100, 0, 40), ("t/1", 50, 50, 0, 0), ("t/2", None, 7, 0, 7)]


def test_offsets_of_single_splits(spec: Spec) -> None:
    assert found(spec, "t/0=70, t/1=49") == [("t/0", 60, 70, 0, 10), ("t/1", 50, 49, 1, 0), ("t/2", None, 0, 0, 0)]


def test_where_the_newest_completed_checkpoint_ended_nothing_is_twice_or_left_out(spec: Spec) -> None:
    assert found(spec, "completed") == [("t/0", 60, 60, 0, 0), ("t/1", 50, 50, 0, 0), ("t/2", None, 0, 0, 0)]


def test_of_a_pipeline_that_never_ran(spec: Spec) -> None:
    assert found(spec, "t/0=15", None) == [("t/0", None, 15, 0, 5), ("t/1", None, 0, 0, 0), ("t/2", None, 0, 0, 0)]
    assert [each[4] for each in found(spec, "latest", None)] == [90, 50, 7]


def test_a_topic_that_was_made_again_was_not_read(spec: Spec) -> None:
    head = HeadValue("orders", "a" * 20, 3, ("n",), identities={"s": {"t": "zero"}}, positions={"s": {"t/0": 60}})
    assert found(spec, "earliest", head)[0] == ("t/0", None, 10, 0, 0)


@pytest.mark.parametrize("text", ["t/0=9", "t/0=101", "t/0=999999999999999999"])
def test_an_offset_that_there_is_not(spec: Spec, text: str) -> None:
    with pytest.raises(SpecError, match=r"t/0 cannot begin at offset \d+: it has \[10, 100\)"):
        resolve(spec, parse(text), HEAD)


class Small(SplitSource):
    """The split `t/1` is not listed at this moment."""

    schema = pa.schema([("n", pa.int64())])

    def splits(self) -> Mapping[str, Position]:
        return {"t/0": 0}

    def end(self, split: str, start: Position) -> Position:
        return 100

    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        raise AssertionError


@pytest.mark.parametrize("text", ["completed", "t/0=70"])
def test_a_small_source_that_does_not_list_a_split_goes_on_nowhere(
    spec: Spec, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Listed again, the split would begin at its first record, and its rows would be there twice."""
    monkeypatch.setattr(new_start, "build_source", lambda entry: BuiltSource(entry.name, Small()))
    with pytest.raises(OffsetOutOfRangeError, match="source s: t/1 is gone"):
        resolve(spec, parse(text), HEAD)
    assert [each.start for each in resolve(spec, parse("earliest"), HEAD)[1]] == [0], "that is what was asked for"


def test_a_split_that_there_is_not(spec: Spec) -> None:
    with pytest.raises(SpecError, match=r"no source reads t/9, u/0") as refused:
        resolve(spec, {"u/0": 1, "t/9": 1, "t/0": 10}, HEAD)
    assert "t/0, t/1, t/2" in refused.value.remedy


@pytest.mark.parametrize(
    "text",
    ["", "Earliest", "t/0", "t/0=-1", "t=1", "t/0=1,", "t/0=1,t/0=2", "/0=1", "t/x=1", "t/0=1.5", "t/0=٣", "x" * 10**6],
)
def test_what_is_no_beginning(text: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse(text)
    assert "orders/0=17" in refused.value.remedy
