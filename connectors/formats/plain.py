"""The formats whose one column is the value itself: text, or bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from connectors.api.format import Decoded
from connectors.formats.decode import sieve

VALUE = "value"
"""The name of the one column of these formats."""


@dataclass(frozen=True, slots=True)
class StringFormat:
    """UTF-8 text. A value of other bytes is a bad record; a tombstone (null) is null."""

    _SCHEMA: ClassVar[pa.Schema] = pa.schema([(VALUE, pa.string())])

    @property
    def schema(self) -> pa.Schema:
        """One nullable string column."""
        return self._SCHEMA

    def decode(self, values: pa.Array) -> Decoded:
        """Validate and pass on, without a copy."""
        return sieve(values, self._SCHEMA, self._parse, lambda: _judge, _not_utf8)

    def _parse(self, values: pa.Array) -> pa.RecordBatch:
        return pa.record_batch([values.cast(pa.string())], schema=self._SCHEMA)


@dataclass(frozen=True, slots=True)
class RawFormat:
    """The bytes as they are. Nothing is ever bad."""

    _SCHEMA: ClassVar[pa.Schema] = pa.schema([(VALUE, pa.binary())])

    @property
    def schema(self) -> pa.Schema:
        """One nullable binary column."""
        return self._SCHEMA

    def decode(self, values: pa.Array) -> Decoded:
        """Pass on."""
        return Decoded(pa.record_batch([values], schema=self._SCHEMA))


NOT_UTF8: Final = object()
"""Stands for a value whose bytes are no text."""


def texts_of(values: pa.Array) -> list[object]:
    """Each value as Python's text, None where it is null, NOT_UTF8 where its bytes are no text."""
    try:
        return list(values.cast(pa.string()).to_pylist())
    except pa.ArrowInvalid:
        return [None if value is None else _text(value) for value in values.to_pylist()]


def _text(value: bytes) -> object:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return NOT_UTF8


def _judge(values: pa.Array) -> list[object | None]:
    return [text if text is NOT_UTF8 else None for text in texts_of(values)]


def _not_utf8(values: pa.Array, _answer: object) -> str:
    return utf8_reason(values[0].as_py())


def utf8_reason(value: bytes) -> str:
    """Where in a value that is not UTF-8 the first wrong byte stands."""
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte 0x{value[error.start]:02x} at position {error.start}"
    return "not UTF-8"
