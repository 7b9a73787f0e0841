"""The formats that are measured: what a topic of each holds, and which rows it becomes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from benchmarks.bench import topic
from benchmarks.bench.comparison.expected import Expected, numbered
from benchmarks.bench.formats import encoding, schemas
from benchmarks.bench.formats.changes import Changes, changes
from benchmarks.bench.formats.encoding import Record

AVRO, PROTOBUF, PROTOBUF_PLAIN = "avro", "protobuf", "protobuf-plain"
DEBEZIUM_JSON, DEBEZIUM_AVRO = "debezium-json", "debezium-avro"


class Content(NamedTuple):
    """What a topic holds."""

    records: Iterable[Record]
    expected: Expected


Register = Callable[[str, str, str], int]
"""Registers a schema for a topic: `key` or `value`, its kind, its text. Returns its id."""


@dataclass(frozen=True, slots=True)
class Form:
    """One format."""

    name: str
    label: str  # in tables
    has_registry: bool
    has_changes: bool  # records are changes of rows, otherwise a new row each
    content: Callable[[int, Register], Content]


def fill(form: Form, rows: int, bootstrap: str, name: str, registry: str) -> Expected:
    """Write so many records into a topic, their schemas into the registry. Blocks until the broker has them all."""
    records, expected = form.content(rows, partial(_register, registry, name))
    topic.deliver(bootstrap, name, records)
    return expected


def _register(registry: str, name: str, part: str, kind: str, text: str) -> int:
    return SchemaRegistryClient({"url": registry}).register_schema(f"{name}-{part}", Schema(text, kind))


def _avro(rows: int, register: Register) -> Content:
    schema_id = register("value", "AVRO", schemas.ROW_AVRO)
    return Content(encoding.avro_rows(rows, schema_id), _rows_expected(rows))


def _protobuf(rows: int, register: Register) -> Content:
    schema_id = register("value", "PROTOBUF", schemas.ROW_PROTOBUF)
    return Content(encoding.protobuf_rows(rows, schema_id), _rows_expected(rows))


def _protobuf_plain(rows: int, _register: Register) -> Content:
    return Content(encoding.protobuf_rows(rows, None), _rows_expected(rows))


def _debezium_json(rows: int, _register: Register) -> Content:
    events = changes(rows)
    return Content(encoding.json_events(events), _changes_expected(events))


def _debezium_avro(rows: int, register: Register) -> Content:
    events = changes(rows)
    key_id = register("key", "AVRO", schemas.KEY_AVRO)
    value_id = register("value", "AVRO", schemas.ENVELOPE_AVRO)
    return Content(encoding.avro_events(events, key_id, value_id), _changes_expected(events))


def _rows_expected(rows: int) -> Expected:
    checksum = sum(_checksum(number, number % topic.AMOUNTS) for number in range(rows))
    simple = numbered(rows)
    return Expected(simple.rows, simple.last_ids, simple.ids_sum, checksum)


def _changes_expected(events: Changes) -> Expected:
    ids, amounts = events.remaining()
    checksum = sum(map(_checksum, ids.tolist(), amounts.tolist()))
    last_ids = events.ids[-topic.PARTITIONS :].tolist()
    return Expected(len(ids), last_ids, int(ids.sum()), checksum, is_changing=True)


def _checksum(number: int, amount: int) -> int:
    """Of a row, as `Table` takes it."""
    text = f"{number}|user-{number % topic.USERS}|{amount}.25|2026-11-21 00:00:00.000000"
    return zlib.crc32(text.encode())


FORMS: Final[Mapping[str, Form]] = MappingProxyType(
    {
        form.name: form
        for form in (
            Form(AVRO, "Avro", has_registry=True, has_changes=False, content=_avro),
            Form(PROTOBUF, "Protobuf", has_registry=True, has_changes=False, content=_protobuf),
            Form(
                PROTOBUF_PLAIN,
                "Protobuf without a registry",
                has_registry=False,
                has_changes=False,
                content=_protobuf_plain,
            ),
            Form(
                DEBEZIUM_JSON, "Debezium's events in JSON", has_registry=False, has_changes=True, content=_debezium_json
            ),
            Form(
                DEBEZIUM_AVRO, "Debezium's events in Avro", has_registry=True, has_changes=True, content=_debezium_avro
            ),
        )
    }
)
