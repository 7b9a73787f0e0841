"""How the columns of a row become a message. Configuration only; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyarrow import types

from connectors.api.encoding import Form
from connectors.formats.json_text import supported
from connectors.kafka.columns import METADATA
from connectors.spark_types import spark_type
from eos.errors import TargetError

VALUE: Final = "value"
"""The one column that formats other than JSON write."""

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True, slots=True)
class Layout:
    """Names are of columns of the rows."""

    topic: str | None  # of all rows; None: `topic_column` says it row by row
    topic_column: str | None = None
    format: Form = "json"
    key: tuple[str, ...] = ()  # of one: its text or bytes as they are, else JSON; of several: a JSON object
    key_has_schema: bool = False  # a RowFormat writes it
    headers: Mapping[str, str] = field(default_factory=dict)  # header -> column
    carried: str | None = None  # a column with headers that a record had already, as dead_letters.encode_headers
    partition: str | None = None  # None: the partitioner chooses by the key
    timestamp: str | None = None  # None: when it is written
    deleted: str | None = None  # true where the message is a tombstone: a key without a value

    def value_columns(self, schema: pa.Schema) -> list[str]:
        """What the value is made of: every column that says nothing else, but not the source's own metadata."""
        return self.value_names(schema.names)

    def value_names(self, names: Sequence[str]) -> list[str]:
        """Return the columns of the value, of rows with columns of these names."""
        if self.format in ("string", "raw"):
            return [VALUE]
        elsewhere = {*METADATA.names, self.topic_column, self.partition, self.timestamp, self.deleted}
        return [name for name in names if name not in elsewhere and name not in self.headers.values()]

    def columns(self, schema: pa.Schema) -> list[str]:
        """All that is needed of a row, each once."""
        found = (self.topic_column, self.partition, self.timestamp, self.deleted, self.carried)
        single = [each for each in found if each]
        return list(dict.fromkeys([*self.value_columns(schema), *self.key, *self.headers.values(), *single]))

    def check(self, sink: str, schema: pa.Schema) -> None:
        """Raise TargetError that lists every column that is missing or cannot be written."""
        wrong = [f"there is no column {name}" for name in self.columns(schema) if name not in schema.names]
        if not wrong:
            wrong = [f"column {name} is {spark_type(kind)}, not {wanted}" for name, kind, wanted in self._unfit(schema)]
        if cut := [name for name in self.headers if "\0" in name]:
            wrong.append(f"the header {cut[0]!r} would end at its NUL, and be another one")
        if self.deleted is not None and not self.key:
            wrong.append("`deleted` makes tombstones, which mean nothing without a `key`")
        if not self.value_columns(schema):
            wrong.append("no column is left for the value")
        if wrong:
            raise not_messages(sink, wrong)

    def _unfit(self, schema: pa.Schema) -> Sequence[tuple[str, pa.DataType, str]]:
        wanted = {
            self.topic_column: ("text", _is_text),
            self.partition: ("a whole number", types.is_integer),
            self.timestamp: ("a timestamp", types.is_timestamp),
            self.deleted: ("a boolean", types.is_boolean),
        }
        if self.format == "string":
            wanted[VALUE] = ("text", _is_text)
        if self.format == "raw":
            wanted[VALUE] = ("binary", _is_bytes)
        for header in self.headers.values():
            wanted[header] = ("text, binary, a whole number or a timestamp", is_header)
        json_columns = self.value_columns(schema) if self.format == "json" else []
        for name in json_columns:
            wanted[name] = ("of a type that JSON has: encode it, for example with base64()", supported)
        for name in () if self.key_has_schema else self.key:
            wanted.setdefault(name, ("of a type for keys", _is_plain_or_json if len(self.key) == 1 else supported))
        found = [(name, schema.field(name).type, *test) for name, test in wanted.items() if name is not None]
        return [(name, kind, words) for name, kind, words, fits in found if not fits(kind)]


def not_messages(sink: str, reasons: Sequence[str]) -> TargetError:
    """Return the error for rows that cannot be written as messages."""
    message = f"sink {sink}: the rows do not make messages: {'; '.join(reasons)}"
    return TargetError(message, remedy="let the last step select what the sink names, with CAST where it needs")


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _is_plain(kind: pa.DataType) -> bool:
    return _is_text(kind) or _is_bytes(kind)


def is_header(kind: pa.DataType) -> bool:
    """Whether a header's value can be made of it: text and bytes as they are, the others as text."""
    return bool(_is_plain(kind) or types.is_integer(kind) or types.is_timestamp(kind))


def _is_plain_or_json(kind: pa.DataType) -> bool:
    return _is_plain(kind) or supported(kind)
