"""The format `json` for a sample of records, for `eos init --from-topic`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from connectors.api.format import Recognized
from connectors.extras import require
from connectors.formats.connect_envelope import split
from connectors.formats.connect_json import ConnectJsonFormat
from connectors.formats.ddl import parse_ddl
from connectors.formats.framing import CONFLUENT, ids_in
from connectors.formats.json_inference import ddl_name, infer_columns
from connectors.schema_registry.client import schemas_of
from connectors.schema_registry.entry import RegistryEntry
from eos.errors import SpecError

_KIND: Final = "JSON"
_DIGITS: Final = 38


def recognize_json(values: Sequence[bytes], registry: RegistryEntry | None) -> Recognized | None:
    """Return how to decode the values; None if they are not JSON objects. See `FormatEntry.recognize`."""
    ids = ids_in(values) if registry is not None else None
    if ids and registry is not None:
        require("registry")
        found = schemas_of(registry.connection(), ids)
        if any(each is None or each.kind != _KIND for each in found.values()):
            return None
        return _inferred([value[CONFLUENT.size :] for value in values], {"encoding": "confluent"}, is_registered=True)
    return _enveloped(values) or _inferred(values, {})


def _inferred(values: Sequence[bytes], keys: Mapping[str, str], *, is_registered: bool = False) -> Recognized | None:
    found = infer_columns(values)
    if found is None:
        return None
    left_out = f"no type holds all values of {', '.join(found.left_out)}: left out" if found.left_out else ""
    return Recognized({**keys, "schema": found.ddl}, found.columns, left_out, needs_registry=is_registered)


def _enveloped(values: Sequence[bytes]) -> Recognized | None:
    """Return the columns of the longest schema, if all records are in Connect's envelope and decode with them."""
    column = pa.array(values, pa.binary())
    groups = list(split(column, np.arange(len(values))))
    if any(each.reason or each.schema == "null" for each in groups):
        return None
    schema = json.loads(max((each.schema for each in groups), key=len))
    kinds = {each["field"]: _type(each) for each in schema["fields"]}
    left_out = [name for name, kind in kinds.items() if not kind or "`" in name or not name.isprintable()]
    ddl = ", ".join(f"{ddl_name(name)} {kind}" for name, kind in kinds.items() if name not in left_out)
    try:
        decoder = ConnectJsonFormat(parse_ddl(ddl))
    except SpecError:
        return None
    if decoder.decode(column).bad:
        return None
    note = f"no type for {', '.join(left_out)}: left out" if left_out else ""
    return Recognized({"envelope": "connect", "schema": ddl}, tuple(decoder.schema.names), note)


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a field of Connect in Spark's DDL; empty if no column has it."""
    parameters = schema.get("parameters")
    match schema.get("name"):
        case "org.apache.kafka.connect.data.Decimal" if isinstance(parameters, Mapping):
            scale, precision = parameters.get("scale"), parameters.get("connect.decimal.precision", str(_DIGITS))
            return f"DECIMAL({precision},{scale})"
        case "org.apache.kafka.connect.data.Date":
            return "DATE"
        case "org.apache.kafka.connect.data.Time":
            return "STRING"
        case "org.apache.kafka.connect.data.Timestamp":
            return "TIMESTAMP"
    match schema["type"]:
        case "struct":
            inside = [(each["field"], _type(each)) for each in schema["fields"]]
            shown = ", ".join(f"{ddl_name(name)}: {kind}" for name, kind in inside)
            return f"STRUCT<{shown}>" if inside and all(kind for _, kind in inside) else ""
        case "array":
            items = _type(schema["items"])
            return f"ARRAY<{items}>" if items else ""
    return _SCALARS.get(schema["type"], "")


_SCALARS: Final = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "float32": "FLOAT",
    "double": "DOUBLE",
    "float64": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "STRING",
    "bytes": "BINARY",
}
