"""The entry `format: {type: debezium}` without `schema`."""

from __future__ import annotations

from typing import Any, Final

import pytest
from pydantic import ValidationError

from connectors.api.contracts import describes_itself
from connectors.formats.change_rows import EVENT
from connectors.formats.debezium.avro_tables import AvroTables
from connectors.formats.debezium.entry import DebeziumEntry
from connectors.formats.debezium.json_tables import JsonTables
from connectors.formats.debezium.self_describing import SelfDescribingDebezium
from connectors.kafka.columns import METADATA
from connectors.kafka.entry import KafkaEntry
from connectors.kafka.source import KafkaSource

_REGISTRY: Final = {"encoding": "confluent", "registry": {"url": "http://localhost:8081"}}
_KAFKA: Final = {"name": "s", "connector": "kafka", "bootstrap_servers": "localhost:9092", "topics_pattern": "shop.*"}


def _entry(**keys: Any) -> DebeziumEntry:
    return DebeziumEntry.model_validate({"type": "debezium", **keys})


@pytest.mark.parametrize(("keys", "encoding"), [({}, JsonTables), (_REGISTRY, AvroTables)])
def test_without_a_schema_events_bring_it(keys: dict[str, Any], encoding: type) -> None:
    entry = _entry(types={"at": "MicroTimestamp"}, truncate="skip", **keys)
    assert (entry.describes_itself, entry.schema_text) == (True, "")
    built = entry.build()
    assert isinstance(built, SelfDescribingDebezium)
    assert isinstance(built.encoding, JsonTables | AvroTables)
    assert isinstance(built.encoding, encoding)
    assert (built.truncate, built.names_schemas, list(built.encoding.types)) == ("skip", bool(keys), ["at"])
    assert not _entry(schema="id BIGINT", **keys).describes_itself


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"documents": True}, "documents do not state their columns"),
        ({"types": {"at": "Micros"}}, "column at is not read from 'Micros'"),
        ({"encoding": "confluent"}, "confluent without a registry"),
        ({"schema": ""}, "at least 1 character"),
    ],
)
def test_keys_that_need_a_schema_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        _entry(**keys)


def test_the_source_of_the_entry() -> None:
    entry = KafkaEntry.model_validate({**_KAFKA, "format": {"type": "debezium"}})
    assert entry.describes_itself
    assert entry.columns == [*EVENT.names, *sorted(METADATA.names)]
    source = entry.build()
    assert isinstance(source, KafkaSource)
    assert describes_itself(source)
    assert source.schema.names == [*EVENT.names, *METADATA.names]
    # Only metadata can be left out: the columns of a batch are those of its records.
    assert source.select(["_offset"]).schema.names == [*EVENT.names, "_offset"]
    assert source.select(["_op", "_topic"]).select([]).schema.names == EVENT.names
    plain = KafkaEntry.model_validate({**_KAFKA, "format": {"type": "raw"}})
    assert not plain.describes_itself
    assert not describes_itself(plain.build())
