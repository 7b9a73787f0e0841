"""Options of the Kafka source in anybody's query: what they become, and what is refused by name."""

from __future__ import annotations

import pytest

from connectors.kafka import KafkaSource
from connectors.kafka.starting import FromTimestamp
from spark_jobs.kafka_format import EosKafka, source_of
from twophase.errors import SpecError

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
