"""The columns of JSON records, from a sample of them, for `eos init --from-topic`.

The format itself has decoded every record of the sample with the columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from connectors.formats.ddl import parse_ddl
from connectors.formats.json_values import JsonFormat
from connectors.spark_types import quoted
from eos.errors import SpecError

_MOMENTS: Final = ("DATE", "TIMESTAMP_NTZ", "TIMESTAMP")
"""Types of a text, in the order in which they are tried: TIMESTAMP takes texts without a zone, too."""
_NAME: Final = re.compile(r"\w[\w .@/-]*")
"""Names of columns that fit into a line of YAML and of SQL. Other fields are left out."""
_INT64: Final = range(-(2**63), 2**63)
_DIGITS: Final = 38
_WIDE: Final = f"DECIMAL({_DIGITS},0)"

Kind = str | dict[str, Any] | list[Any] | None
"""A type in Spark's DDL; fields of a STRUCT by name; the one type of an ARRAY's items; None: only nulls so far."""


class NoTypeError(Exception):
    """Values of one field have types that no column can hold."""


@dataclass(frozen=True, slots=True)
class Inferred:
    """The columns of a sample."""

    ddl: str  # Spark's
    columns: tuple[str, ...]
    left_out: tuple[str, ...]  # fields for which no type holds all values


def infer_columns(values: Sequence[bytes]) -> Inferred | None:
    """Return the columns; None if a value is not a JSON object, or if no field is left.

    Pure. A thousand records of a kilobyte take about a second. `values`: at least one.
    """
    fields: dict[str, Kind] = {}
    left_out: set[str] = set()
    for value in values:
        try:
            record = json.loads(value)
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, dict):
            return None
        for name, item in record.items():
            try:
                fields[name] = _joined(fields.get(name), _kind(item))
            except NoTypeError:
                left_out.add(name)
    left_out |= _same_names(fields) | {name for name in fields if not _NAME.fullmatch(name)}
    kept = {name: kind for name, kind in fields.items() if name not in left_out}
    column = pa.array(values, pa.binary())
    texts = [name for name, kind in kept.items() if kind == "STRING"]
    kept.update({name: _moment(name, column) for name in texts})
    left_out |= {name for name in kept if not _fits(_ddl({name: kept[name]}), column)}
    kept = {name: kind for name, kind in kept.items() if name not in left_out}
    return Inferred(_ddl(kept), tuple(kept), tuple(sorted(left_out))) if kept else None


def _kind(value: object) -> Kind:
    match value:
        case None:
            return None
        case bool():
            return "BOOLEAN"
        case int():
            if value in _INT64:
                return "BIGINT"
            if len(str(abs(value))) <= _DIGITS:
                return _WIDE
            raise NoTypeError
        case float():
            return "DOUBLE"
        case str():
            return "STRING"
        case dict():
            return {name: _kind(item) for name, item in value.items()}
        case list():
            found: Kind = None
            for item in value:
                found = _joined(found, _kind(item))
            return [found]
        case _:
            raise NoTypeError


def _joined(first: Kind, second: Kind) -> Kind:
    """Return the type that holds values of both."""
    if first is None or second is None or first == second:
        return second if first is None else first
    if isinstance(first, dict) and isinstance(second, dict):
        return {name: _joined(first.get(name), second.get(name)) for name in {**first, **second}}
    if isinstance(first, list) and isinstance(second, list):
        return [_joined(first[0], second[0])]
    if not (isinstance(first, str) and isinstance(second, str)):
        raise NoTypeError
    others = {first, second} - {"BIGINT"}
    if len(others) == 1 and others <= {"DOUBLE", _WIDE}:
        return others.pop()
    raise NoTypeError


def _same_names(fields: Iterable[str]) -> set[str]:
    """Return names that differ from an earlier one only in case: Spark takes them for one column."""
    first: dict[str, str] = {}
    return {name for name in fields if first.setdefault(name.casefold(), name) != name}


def _moment(name: str, column: pa.Array) -> str:
    return next((kind for kind in _MOMENTS if _fits(_ddl({name: kind}), column)), "STRING")


def _fits(ddl: str, column: pa.Array) -> bool:
    """Whether the format decodes each of the values with this column."""
    try:
        return not JsonFormat(parse_ddl(ddl)).decode(column).bad
    except SpecError:
        return False


def _ddl(fields: Mapping[str, Kind]) -> str:
    return ", ".join(f"{ddl_name(name)} {_type(kind)}" for name, kind in fields.items())


def _type(kind: Kind) -> str:
    if isinstance(kind, dict):
        inside = ", ".join(f"{ddl_name(name)}: {_type(each)}" for name, each in kind.items())
        return f"STRUCT<{inside}>"
    if isinstance(kind, list):
        return f"ARRAY<{_type(kind[0])}>"
    return kind or "STRING"


def ddl_name(name: str) -> str:
    """Return the name of a column or field in Spark's DDL, quoted if it has to be."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if plain else quoted(name)
