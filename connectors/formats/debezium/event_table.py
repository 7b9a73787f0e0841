"""The table of change events, as the schemas of their values and keys describe it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from connectors.formats.casting import is_castable
from connectors.formats.change_rows import EVENT
from connectors.formats.ddl import parse_ddl
from connectors.formats.debezium.avro_schema import OMITTED, Declared, event_plan, record_of, table_columns
from connectors.formats.debezium.column_types import connect_type, objects, written_type
from connectors.formats.debezium.readings import check_written
from connectors.formats.debezium.written import Written
from connectors.formats.tables import columns_problem, is_text
from connectors.spark_types import spark_type
from eos.errors import SpecError

_TEXTS: Final = (
    "its rows are texts, as the connector for MongoDB writes them, which do not state their columns; set `schema` and "
    "`documents: true`"
)
_NO_TYPE: Final = "has a type that no column can have; set `schema` with the other columns"
_SUFFIXES: Final = (".Envelope", ".Value")


@dataclass(frozen=True, slots=True)
class EventTable:
    """The table that the events of one schema are of."""

    name: str  # as the schema names it, such as server.schema.table; empty if it does not
    row: pa.Schema


def of_connect_schema(schema: Mapping[str, Any], declared: Declared) -> EventTable | str | None:
    """Return the table of the events of one of Connect's schemas, in JSON; or why there is not any. Pure.

    None: the schema is of other records. Takes any object of JSON.
    """
    fields = {str(each.get("field")): each for each in objects(schema.get("fields"))}
    if "op" not in fields or "after" not in fields:
        return None
    image = fields["after"]
    if image.get("type") == "string":
        return _TEXTS
    columns = list(objects(image.get("fields")))
    names = [str(each.get("field")) for each in columns]
    problem = columns_problem(names, EVENT.names)
    if problem:
        return problem
    known = dict(declared)
    row = []
    for name, each in zip(names, columns, strict=True):
        kind = _resolved(name, _parsed(connect_type(each)), known.get(name))
        if isinstance(kind, str):
            return kind or f"column {name} {_NO_TYPE}"
        row.append(pa.field(name, kind, nullable=each.get("optional") is not False))
    return EventTable(_table_name(schema.get("name")), pa.schema(row))


def of_avro_schema(text: str, references: tuple[str, ...], declared: Declared) -> EventTable | str | None:
    """Return the table of the events of a writer's schema, or why there is not any. Pure.

    None: the schema is of records that describe no row.
    """
    try:
        columns = table_columns(text, references)
        if columns is None:
            plan = event_plan(text, references, pa.schema([]), declared)
            if isinstance(plan, str):
                return plan
            return None if plan is OMITTED else _TEXTS
        problem = columns_problem(list(columns), EVENT.names)
        if problem:
            return problem
        known = dict(declared)
        row = []
        for name, (kind, written) in columns.items():
            own = _parsed(written_type(written)) if written else None
            found = _resolved(name, own or _as_written(kind, written), known.get(name))
            if isinstance(found, str):
                return found or f"column {name} {_NO_TYPE}"
            row.append(pa.field(name, found))
        return EventTable(_table_name(record_of(text, references)[0]), pa.schema(row))
    except SpecError as error:
        return error.message


def key_problem(key: Sequence[str], row: pa.Schema) -> str:
    """Return why rows do not have the columns of the key; empty if they have them."""
    missing = [name for name in key if name not in row.names]
    return f"the record's key: its field {missing[0]!a:.60} is not a column of the row" if missing else ""


def _as_written(kind: pa.DataType, written: Written | None) -> pa.DataType | None:
    """Return the type of values that are not converted; None for bytes that are a number, and for no value at all."""
    if kind == pa.null() or (written is not None and written.name == "Decimal"):
        return None
    same = _parsed(spark_type(kind))  # the type that a schema in the spec has: it does not name the items of a list
    return kind if same is None or not is_castable(kind, same) else same


def _resolved(column: str, own: pa.DataType | None, declared: Written | None) -> pa.DataType | str:
    """Return the type of a column: its own, or the type that the spec declares; or why it has none."""
    if declared is None:
        return "" if own is None else own
    if own is not None:
        try:
            check_written(column, own, declared.name)
        except SpecError:
            pass  # the spec means another type
        else:
            return own
    found = _parsed(_DECLARED.get(declared.name) or written_type(declared))
    if found is not None:
        return found
    written = "it has no type" if own is None else f"it is {spark_type(own)}"
    return f"types: column {column} is not read from {declared.name!r}: {written} by its schema"


_DECLARED: Final = {"IsoDate": "DATE"}


@lru_cache(1_000)
def _parsed(ddl: str) -> pa.DataType | None:
    """Return a type by its name in Spark's DDL; None for no name, or for names of fields that the DDL cannot have."""
    try:
        return parse_ddl(f"v {ddl}").field(0).type if ddl else None
    except (SpecError, UnicodeEncodeError):
        return None


def _table_name(name: Any) -> str:
    """Return the name of a table from the name of a schema."""
    if not isinstance(name, str) or not is_text(name):
        return ""
    whole = next((each for each in _SUFFIXES if name.endswith(each)), "")
    return name.removesuffix(whole) if whole else "" if f".{name}" in _SUFFIXES else name
