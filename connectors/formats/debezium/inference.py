"""The columns of a table, from a sample of its change events, for `eos init --from-topic`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from connectors.formats.avro.writers import RegisteredWriters
from connectors.formats.change_rows import EVENT
from connectors.formats.ddl import parse_ddl
from connectors.formats.debezium.avro_events import AvroEvents
from connectors.formats.debezium.avro_schema import table_columns
from connectors.formats.debezium.column_types import connect_type, fitting_type, listed, objects, written_type
from connectors.formats.debezium.debezium_format import DebeziumFormat
from connectors.formats.debezium.events import Encoding
from connectors.formats.debezium.json_events import JsonEvents
from connectors.formats.framing import ids_in
from connectors.formats.json_inference import Inferred, infer_columns
from connectors.schema_registry.client import Connection, schemas_of

_OPS: Final = frozenset("crudt")


def infer_json(values: Sequence[bytes]) -> Inferred | None:
    """Return the columns of events in JSON; None if a value is another record, or an event does not decode. Pure."""
    schemas: list[Any] = []
    images: list[bytes] = []
    for value in values:
        event, schema = _event(value)
        if event is None:
            continue
        if event.get("op") not in _OPS or not event.keys() & {"before", "after"}:
            if not _is_omitted(value):
                return None
            continue
        schemas.append(schema)
        images += [
            json.dumps(each).encode() for name in ("before", "after") if isinstance(each := event.get(name), dict)
        ]
    if not images:
        return None
    found = _of_schema(schemas[-1]) if all(schemas) else infer_columns(images)
    return found if found is not None and _decodes(found, values, JsonEvents) else None


def infer_avro(values: Sequence[bytes], registry: Connection) -> Inferred | None:
    """Return the columns of events in Avro, by the newest schema; None if a schema is of other records.

    May block. Raises SourceError if the registry does not answer, SpecError if a schema fits no columns.
    """
    ids = ids_in(values)
    if ids is None:
        return None
    newest = None
    for found in schemas_of(registry, ids).values():
        if found is None or found.kind != "AVRO":
            return None
        newest = table_columns(found.text, found.references) or newest
    if not newest:
        return None
    types = {name: written_type(written) or fitting_type(kind) for name, (kind, written) in newest.items()}
    inferred = _inferred(types)
    row = parse_ddl(inferred.ddl)
    return inferred if _decodes(inferred, values, lambda _: AvroEvents(row, RegisteredWriters(registry))) else None


def _event(value: bytes) -> tuple[dict[str, Any] | None, Any]:
    """Return an event and its schema; None for a payload that is null."""
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return {}, None
    schema = None
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        schema, document = document["schema"], document["payload"]
    return document if document is None or isinstance(document, dict) else {}, schema


def _is_omitted(value: bytes) -> bool:
    row = pa.schema([("id", pa.int64())])
    return bool(DebeziumFormat(row, JsonEvents(row)).decode(pa.array([value], pa.binary())).omitted)


def _decodes(found: Inferred, values: Sequence[bytes], encoding: Any) -> bool:
    row = parse_ddl(found.ddl)
    events: Encoding = encoding(row)
    decoded = DebeziumFormat(row, events, "skip").decode(pa.array(values, pa.binary()))
    return all("without `before`" in each.reason for each in decoded.bad)  # its key is not in the sample


def _of_schema(schema: Any) -> Inferred | None:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    image = next((each for each in objects(fields) if each.get("field") == "after"), {})
    found = {str(each.get("field")): connect_type(each) for each in objects(image.get("fields"))}
    return _inferred(found) if any(found.values()) else None


def _inferred(types: Mapping[str, str]) -> Inferred:
    taken = {name for name in types if name.lower() in EVENT.names}
    kept = {name: kind for name, kind in types.items() if kind and name not in taken}
    return Inferred(listed(kept, " "), tuple(kept), tuple(sorted(types.keys() - kept.keys())))
