"""Decoding of record values, on whole Arrow columns: JSON with a given schema, strings, raw bytes.

`ddl` reads a schema as Spark writes it, `decode` says what a format is, `json_values` and `plain` are the formats.
"""

from __future__ import annotations

from connectors.formats.ddl import parse_ddl
from connectors.formats.decode import Decoded, Format, Undecodable
from connectors.formats.json_values import JsonFormat
from connectors.formats.plain import RawFormat, StringFormat
from eos.errors import SpecError

__all__ = ["Decoded", "Format", "JsonFormat", "RawFormat", "StringFormat", "Undecodable", "format_of", "parse_ddl"]

FORMATS = ("json", "string", "raw")
"""The values of the spec's `format.type`."""


def format_of(kind: str, schema: str | None = None) -> Format:
    """Build a format from the spec's `format: {type: …, schema: …}`.

    Raises:
        SpecError: the type is not one of FORMATS, or a schema is missing, not wanted, or wrong.
    """
    if kind == "json":
        if schema is None:
            raise SpecError("format json needs a schema", remedy='add schema: "id BIGINT, user STRING, …"')
        return JsonFormat(parse_ddl(schema))
    if kind not in FORMATS:
        raise SpecError(f"unknown format {kind!r}", remedy=f"use one of {', '.join(FORMATS)}")
    if schema is not None:
        raise SpecError(f"format {kind} takes no schema: its one column is `value`", remedy="remove schema")
    return StringFormat() if kind == "string" else RawFormat()
