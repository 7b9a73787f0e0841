"""Change events as Debezium writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from connectors.api.decoding import Decoded
from connectors.formats.ddl import parse_ddl
from connectors.formats.debezium.debezium_format import DebeziumFormat
from connectors.formats.debezium.json_events import JsonEvents
from connectors.formats.debezium.upsert_format import UpsertFormat
from connectors.formats.debezium.written import Written

SOURCE: Final = {"connector": "mariadb", "ts_ms": 1_700_000_000_000, "file": "binlog.000003", "pos": 45, "row": 0}
Row = Mapping[str, Any]


def json_format(ddl: str, types: Mapping[str, str] | None = None, **options: Any) -> DebeziumFormat:
    """The format over JSON. `types`: as in a spec."""
    row = parse_ddl(ddl)
    declared = {column: Written(name) for column, name in (types or {}).items()}
    return DebeziumFormat(row, JsonEvents(row, declared, options.pop("documents", False)), **options)


def event(op: str | None, before: Row | str | None = None, after: Row | str | None = None, **more: Any) -> bytes:
    """An event without a schema."""
    source = more.pop("source", SOURCE)
    return packed({"before": before, "after": after, "source": source, "op": op, "ts_ms": 1, **more})


def packed(document: Any) -> bytes:
    """As JsonConverter writes it: without spaces."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def connect_field(column: str, kind: str, name: str | None = None, scale: int | None = None) -> Mapping[str, Any]:
    """A field of one of Connect's schemas."""
    described: dict[str, Any] = {"type": kind, "optional": True, "field": column}
    if name is not None:
        described |= {"name": name, "version": 1}
    if scale is not None:
        described["parameters"] = {"scale": str(scale), "connect.decimal.precision": "10"}
    return described


def wrapped(fields: Sequence[Mapping[str, Any]], payload: bytes, **more: Any) -> bytes:
    """An event behind its schema. `fields`: of the table."""
    image = {"type": "struct", "fields": fields, "optional": True, "name": "shop.customers.Value"}
    whole = [{**image, "field": "before"}, {**image, "field": "after"}, connect_field("op", "string")]
    schema = {"type": "struct", "fields": whole, "optional": False, "name": "shop.customers.Envelope", **more}
    return b'{"schema":' + packed(schema) + b',"payload":' + payload + b"}"


def wrapped_key(fields: Sequence[Mapping[str, Any]], payload: bytes) -> bytes:
    """A key behind its schema."""
    schema = {"type": "struct", "fields": fields, "optional": False, "name": "shop.customers.Key"}
    return b'{"schema":' + packed(schema) + b',"payload":' + payload + b"}"


def decode(
    decoder: DebeziumFormat | UpsertFormat, values: Sequence[bytes | None], keys: Sequence[bytes | None] = ()
) -> Decoded:
    """Decode records. Each is in exactly one part of the outcome."""
    column = pa.array(keys or [None] * len(values), pa.binary())
    decoded = decoder.decode_records(column, pa.array(values, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == decoder.schema
    bad = [each.index for each in decoded.bad]
    assert bad == sorted(set(bad))
    assert list(decoded.omitted) == sorted(set(decoded.omitted))
    assert not set(bad) & set(decoded.omitted)
    assert decoded.rows.num_rows + len(bad) + len(decoded.omitted) == len(values)
    return decoded


def column(decoder: DebeziumFormat, name: str, values: Sequence[bytes]) -> list[Any]:
    """The values of a column; None of the records may be bad."""
    decoded = decode(decoder, values)
    assert decoded.bad == ()
    return list(decoded.rows.column(name).to_pylist())


def reasons(decoded: Decoded) -> list[str]:
    """Why records are bad."""
    return [each.reason for each in decoded.bad]
