"""The behaviours of every format, and the cost of bad and of omitted records."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Sequence
from typing import Final

import fastavro
import pyarrow as pa
import pytest

from connectors.api.decoding import Format
from connectors.testing.formats import FormatCompliance
from tests.connectors.formats.debezium.registered import Registry, avro_format, envelope, optional
from tests.connectors.formats.debezium.registered import event as avro_event
from tests.connectors.formats.debezium.written import connect_field, event, json_format, wrapped

_FIELDS: Final = [connect_field("n", "int64"), connect_field("word", "string")]
_DDL: Final = "n BIGINT NOT NULL, word STRING"


class TestJsonEvents(FormatCompliance):
    """Events without schemas."""

    def make_format(self) -> Format:
        return json_format(_DDL)

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        return [event("crud"[n % 4], {"n": n, "word": "w"}, {"n": n}) for n in numbers]

    def bad_values(self) -> Sequence[bytes]:
        return [b"", b"{}", event("t"), event("c", None, {"word": "w"}), event("c", None, {"n": 0.5}), event("d")]


class TestJsonEventsWithSchemas(FormatCompliance):
    """Every third event without one."""

    def make_format(self) -> Format:
        return json_format(_DDL)

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        events = [event("c", None, {"n": n}) for n in numbers]
        return [each if n % 3 == 0 else wrapped(_FIELDS, each) for n, each in zip(numbers, events, strict=True)]

    def bad_values(self) -> Sequence[bytes]:
        good = event("c", None, {"n": 1})
        return [wrapped(_FIELDS, b"{}"), wrapped(_FIELDS, good)[:-1], b'{"schema":1,"payload":' + good + b"}"]


class TestAvroEvents(FormatCompliance):
    """Events of two writers by turns, whose schemas the process has met."""

    def make_format(self) -> Format:
        return avro_format(_DDL)

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        return [_avro(n) for n in numbers]

    def bad_values(self) -> Sequence[bytes]:
        return [b"", b"\0\0\0\0\1", b"\0\0\0\0\7\0", b"\1" + _avro(1)[1:], _avro(1) + b"\0", _avro(0)[:-1]]

    @pytest.fixture(autouse=True)
    def _registry(self, monkeypatch: pytest.MonkeyPatch) -> None:
        registry = Registry().install(monkeypatch)
        for number, schema in enumerate(_SCHEMAS):
            registry.add(number, schema)

    test_another_process_decodes_the_same = None  # type: ignore[assignment]  # it has no registry


_SCHEMAS: Final = [envelope({"n": "long", "word": optional("string")}), envelope({"word": "string", "n": "int"})]
_PARSED: Final = [fastavro.parse_schema(json.loads(json.dumps(each))) for each in _SCHEMAS]


def _avro(number: int) -> bytes:
    content = io.BytesIO()
    content.write(b"\0" + (number % 2).to_bytes(4))
    fastavro.schemaless_writer(content, _PARSED[number % 2], avro_event("c", None, {"n": number, "word": "w"}))
    return content.getvalue()


_RECORDS: Final = 20_000
_MOST_RATIO: Final = 20.0
_TRIES: Final = 10
_DDL_OF_MANY: Final = "id BIGINT NOT NULL, " + ", ".join(f"c{n} STRING" for n in range(30))


def _good(number: int) -> bytes:
    return event("u", None, {"id": number, **{f"c{n}": "text" for n in range(5)}})


_ODD: Final[dict[str, Callable[[int], bytes | None]]] = {
    "tombstone": lambda number: None,
    "heartbeat": lambda number: b'{"ts_ms":%d}' % number,
    "no event": lambda number: b'{"id":%d}' % number,
    "unknown op": lambda number: event(f"op {number}"),
    "no row": lambda number: event("u"),
    "not fitting": lambda number: event("u", None, {"id": f"{number}"}),
    "not null": lambda number: event("u", None, {}),
    "other schemas": lambda number: wrapped([connect_field(f"more{number}", "int64")], _good(number)),
    "broken schemas": lambda number: b'{"schema":{"fields":%d},"payload":{}}' % number,
    "deletion without a key": lambda number: event("d"),
}


def _seconds(values: Sequence[bytes | None]) -> float:
    decoder, column = json_format(_DDL_OF_MANY), pa.array(values, pa.binary())
    start_s = time.process_time()
    decoder.decode(column)
    return time.process_time() - start_s


@pytest.mark.parametrize("kind", _ODD)
def test_odd_records_cost_at_most_twenty_times_as_much_as_good_ones(kind: str) -> None:
    good = [_good(number) for number in range(_RECORDS)]
    for step in (50, 1):
        values = [_ODD[kind](at) if at % step == 0 else each for at, each in enumerate(good)]
        ratios: list[float] = []
        while len(ratios) < _TRIES and min(ratios, default=_MOST_RATIO) >= _MOST_RATIO:  # others use the machine, too
            ratios.append(_seconds(values) / _seconds(good))
        assert min(ratios) < _MOST_RATIO, f"1 of {step}: {ratios} times"
