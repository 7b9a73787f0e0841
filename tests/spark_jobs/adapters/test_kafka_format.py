"""Options of the Kafka source in anybody's query: what they become, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql.datasource import DataSourceStreamReader

from connectors.api.contracts import Horizon
from connectors.kafka.source import KafkaSource
from connectors.kafka.starting import FromTimestamp
from eos.errors import HeadFormatError, IdentityError, OffsetOutOfRangeError, SpecError
from spark_jobs.adapters.kafka_format import EosKafka, source_of
from twophase.local_head import LocalHead
from twophase.values import StartingPoint

_GOOD = {"bootstrap_servers": "h:1", "topics": "a, b", "schema": "id BIGINT"}


def test_options_become_a_source() -> None:
    source = source_of(
        {
            **_GOOD,
            "Starting_Offsets": '{"timestamp": "1970-01-01T00:00:01Z"}',
            "split_above": "1000",
            "fail_on_data_loss": "false",
            "kafka.sasl.password": "secret",
        }
    )
    assert isinstance(source, KafkaSource)
    assert (source.topics, source.starting_offsets) == (("a", "b"), FromTimestamp(1000))
    assert (source.split_above, source.fail_on_data_loss) == (1000, False)
    assert source.properties == {"sasl.password": "secret"}
    assert EosKafka(options=_GOOD).schema().names[0] == "id"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topcis": "a"}, "unknown option 'topcis'; did you mean 'topics'"),
        ({"starting_offsets": "latst"}, "starting_offsets"),
        ({"starting_offsets": '{"timestamp": "1970-01-01T00:00:01"}'}, "has no time zone"),
        ({"split_above": "many"}, "option split_above: 'many' is not JSON"),
        ({"topics_pattern": "a.*"}, "both topics and topics_pattern"),
        ({"schema": "id BIGNT"}, "BIGNT"),
        ({"kafka.group.id": "g"}, "write it as group_id"),
    ],
)
def test_a_wrong_option_is_refused_by_name(change: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        source_of({**_GOOD, **change})


def test_without_a_place_for_the_first_offsets_no_query_starts() -> None:
    with pytest.raises(SpecError, match="option location is missing"):
        EosKafka(options=_GOOD).streamReader(EosKafka(options=_GOOD).schema())


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Ends of the topics that there are, each of one partition; sources begin at 0."""
    ends = {"a": 5, "b": 7}

    def splits(source: KafkaSource) -> dict[str, int]:
        return {f"{topic}/0": ends[topic] for topic in source.topics}

    def starting_point(source: KafkaSource, known: StartingPoint) -> StartingPoint:
        return StartingPoint({split: 0 for split in splits(source) if split not in known.positions})

    monkeypatch.setattr(KafkaSource, "starting_point", starting_point)
    monkeypatch.setattr(KafkaSource, "witnesses", lambda _source, _ranges: {})
    monkeypatch.setattr(KafkaSource, "check_witnesses", lambda _source, _witnesses: None)
    monkeypatch.setattr(KafkaSource, "horizon", lambda source, _known: Horizon(splits(source), StartingPoint()))
    return ends


def _reader(topics: str, location: Path) -> DataSourceStreamReader:
    options = {**_GOOD, "topics": topics, "location": str(location)}
    return EosKafka(options=options).streamReader(EosKafka(options=options).schema())


def _next(reader: DataSourceStreamReader, start: dict[str, Any] | None = None) -> dict[str, Any]:
    planned: dict[str, Any] = cast(Any, reader).latestOffset(start or reader.initialOffset(), None)
    return planned


def test_sources_that_change_places_in_the_query_are_refused(kafka: dict[str, int], tmp_path: Path) -> None:
    """Spark hands out offsets by place: each would take the other's, and read all of its own topics again."""
    offsets = [_next(_reader(topic, tmp_path / topic)) for topic in ("a", "b")]
    assert [offset["ends"] for offset in offsets] == [{"a/0": 5}, {"b/0": 7}]
    of_a, of_b = offsets
    kafka["b"] = 9
    reader = _reader("b", tmp_path / "b")
    with pytest.raises(IdentityError, match=rf"offsets of another eos_kafka source \(a\).*at {tmp_path}/b"):
        _next(reader, of_a)
    with pytest.raises(IdentityError, match="another eos_kafka source"):
        reader.partitions(of_a, of_b)
    assert _next(reader, of_b) == {**of_b, "ends": {"b/0": 9}}


def test_two_readers_of_one_topic_are_two_sources(kafka: dict[str, int], tmp_path: Path) -> None:
    offset = _next(_reader("a", tmp_path / "one"))
    with pytest.raises(IdentityError, match="another eos_kafka source"):
        _next(_reader("a", tmp_path / "two"), offset)


def test_a_folder_that_holds_another_sources_first_offsets_is_refused(kafka: dict[str, int], tmp_path: Path) -> None:
    of_a = _next(_reader("a", tmp_path))
    with pytest.raises(IdentityError, match="holds the first offsets of a, of which the source reads none"):
        _reader("b", tmp_path)
    for topics in ("a, b", "b"):  # one that joins, and one that goes
        assert _next(_reader(topics, tmp_path), of_a)["source"] == of_a["source"]


def test_offsets_and_a_folder_of_before_there_were_ids(kafka: dict[str, int], tmp_path: Path) -> None:
    for topic in ("a", "b"):
        old = {"format": 1, "positions": {f"{topic}/0": 0}, "identities": {}}
        assert LocalHead(tmp_path / topic).swap(None, json.dumps(old).encode())
    old_offset = {"source": "eos_kafka", "ends": {"a/0": 3}}
    with pytest.raises(IdentityError, match="another eos_kafka source"):
        _next(_reader("b", tmp_path / "b"), old_offset)
    named = _next(_reader("a", tmp_path / "a"), old_offset)
    assert named["ends"] == {"a/0": 5}
    assert named["source"].startswith("eos_kafka-")
    kafka["a"] = 6
    assert _next(_reader("a", tmp_path / "a"), named) == {**named, "ends": {"a/0": 6}}


def test_h23_a_topic_is_known_by_the_id_of_the_plan_that_found_it(kafka: dict[str, int], tmp_path: Path) -> None:
    """Options that had a pattern and name the topic now have stored its id anew: perhaps of one that was made again."""
    stored = {"format": 1, "source": "eos_kafka-1", "positions": {"a/0": 0, "b/0": 0}}
    assert LocalHead(tmp_path).swap(None, json.dumps({**stored, "identities": {"a": "1", "b": "2"}}).encode())
    offset = {"source": "eos_kafka-1", "ends": {"a/0": 3}, "began": {"positions": {}, "identities": {"a": "1"}}}
    assert _next(_reader("a, b", tmp_path), offset)["ends"] == {"a/0": 5, "b/0": 7}
    offset["began"] = {"positions": {}, "identities": {"a": "an older one"}}
    for call in (lambda reader: _next(reader, offset), lambda reader: reader.partitions(offset, offset)):
        with pytest.raises(OffsetOutOfRangeError, match="topic a was deleted and made again"):
            call(_reader("a, b", tmp_path))


def test_damaged_first_offsets_are_refused(kafka: dict[str, int], tmp_path: Path) -> None:
    assert LocalHead(tmp_path).swap(None, b"[]")
    with pytest.raises(HeadFormatError, match="are damaged"):
        _reader("a", tmp_path)
