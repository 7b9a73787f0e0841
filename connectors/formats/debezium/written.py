"""The types that Debezium and Kafka Connect write values in: a number does not state its unit.

Source: Debezium's reference, "Data type mappings" of each connector; Kafka Connect's `org.apache.kafka.connect.data`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_SPACES: Final = ("io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data.")


@dataclass(frozen=True, slots=True)
class Written:
    """The type in which the values of a column are written."""

    name: str  # such as MicroTimestamp, or a type of Connect without a further meaning, such as int64
    scale: int | None = None  # of a Decimal; None: the column's
    precision: int | None = field(default=None, compare=False)  # of a Decimal; a new spec has it


def of_connect(described: Any) -> Written:
    """Return the type of a field of one of Connect's schemas, given as JSON. Takes any JSON."""
    if not isinstance(described, Mapping):
        return Written(str(described))
    name = str(described.get("name") or described.get("connect.name") or "")
    parameters = described.get("parameters") or described.get("connect.parameters")
    known = parameters if isinstance(parameters, Mapping) else {}
    space = next((each for each in _SPACES if name.startswith(each)), None)
    short = name.removeprefix(space) if space else str(described.get("type"))
    return Written(short, _number(known.get("scale")), _number(known.get("connect.decimal.precision")))


def _number(text: Any) -> int | None:
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < 6 else None


def columns_of(schema: Any) -> Mapping[str, Written] | None:
    """Return the types by column from the schema of an event or of a key. Takes any JSON; None if it is another schema.

    The columns of an event are the fields of its `after`.
    """
    fields = _fields(schema)
    if fields is None:
        return None
    images = [each for each in fields if each.get("field") in ("after", "before")]
    found = _fields(images[-1]) if images else fields
    return {str(each.get("field")): of_connect(each) for each in found or ()}


def _fields(schema: Any) -> list[Mapping[str, Any]] | None:
    fields = schema.get("fields") if isinstance(schema, Mapping) else None
    if not isinstance(fields, list) or not all(isinstance(each, Mapping) for each in fields):
        return None
    return fields
