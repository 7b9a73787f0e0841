"""Rows as Avro records: the format `avro` of a sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final, Literal

import pyarrow as pa

from connectors.api.encoding import MessagePart, UnencodableError, UsedSchema
from connectors.bad_values import first_bad
from connectors.formats.avro.derive import is_name, not_a_name, record_schema, value_schema
from connectors.formats.avro.matching import Matching, differences
from connectors.formats.avro.nodes import Record
from connectors.formats.avro.pieces import constant, joined
from connectors.formats.avro.write_nested import RecordStep
from connectors.formats.avro.write_steps import WriteStep
from connectors.formats.avro.writers import SINGLE_OBJECT, parsed
from connectors.formats.outcome import with_nulls
from connectors.schema_registry.schema_rows import Described, SchemaRows, confluent_header

Encoding = Literal["plain", "single-object", "confluent"]

_PLANS: Final = 100
"""Plans that a process keeps."""


@dataclass(frozen=True, slots=True)
class AvroRows(SchemaRows):
    """A record of a derived schema, or of the given one."""

    kind: ClassVar[str] = "AVRO"

    given: str | None = None  # JSON text; None: derived from the columns
    record: str | None = None  # the full name of a derived record
    encoding: Encoding = "plain"

    def described(self, part: MessagePart, schema: pa.Schema) -> Described:
        name = self.record or part.part.capitalize()
        if self.given is not None:
            record = _record_of(self.given)
            whole = _is_whole(part, schema, self.given)
            return Described(self.given, record.name if record is not None else "", _plan(self.given, schema, whole)[1])
        if part.is_one_value(schema):
            text, problems = value_schema(schema.field(0), name)
            return Described(text, name if pa.types.is_struct(schema.field(0).type) else "", problems)
        return Described(*_of_columns(schema, name))

    def encoder(self, part: MessagePart, schema: pa.Schema, used: UsedSchema) -> AvroEncoder:
        header = confluent_header(used)
        if self.encoding == "single-object":
            header = SINGLE_OBJECT.marker + parsed(used.text).fingerprint
        return AvroEncoder(used, schema, header, _is_whole(part, schema, used.text))

    def name_problems(self, part: MessagePart, names: Sequence[str]) -> Sequence[str]:
        is_one_key = part.part == "key" and len(names) == 1  # perhaps a value, and not a record
        if self.given is None:
            return [] if is_one_key else [not_a_name(name) for name in names if not is_name(name)]
        record = _record_of(self.given)
        return [] if record is None or is_one_key else list(differences(record, names, ""))


@dataclass(frozen=True, slots=True)
class AvroEncoder:
    """See Encoder. Its plan is computed once per process."""

    used: UsedSchema
    schema: pa.Schema
    header: bytes  # in front of each value
    is_whole: bool  # the one column is the value, and not the only field of a record

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        if not self.is_whole or not rows.column(0).null_count:
            return self._encoded(rows.columns, rows.num_rows)
        values = rows.column(0).drop_null()
        return with_nulls(self._encoded([values], len(values)), rows.column(0).is_valid())

    def _encoded(self, columns: Sequence[pa.Array], count: int) -> pa.BinaryArray:
        step, _ = _plan(self.used.text, self.schema, self.is_whole)
        try:
            pieces = step.of_columns(columns) if isinstance(step, RecordStep) else step.pieces(columns[0])
            return joined([constant(self.header), *pieces], count)
        except pa.ArrowInvalid as error:
            self._refuse(step, columns, error)
            raise

    def _refuse(self, step: RecordStep | WriteStep, columns: Sequence[pa.Array], error: pa.ArrowInvalid) -> None:
        """Raise UnencodableError for the first bad value of the first bad column; nothing if no value is bad."""
        parts = step.parts if isinstance(step, RecordStep) else [(0, step)]
        for at, each in parts:
            try:
                each.pieces(columns[at])
            except pa.ArrowInvalid as reason:
                index, text = first_bad(each.pieces, columns[at], str(reason))
                raise UnencodableError(self.schema.names[at], index, text) from error


def _record_of(text: str) -> Record | None:
    schema = parsed(text)
    root = schema.follow(schema.root)
    return root if isinstance(root, Record) else None


def _is_whole(part: MessagePart, schema: pa.Schema, text: str) -> bool:
    """Whether one column is the whole value: it is a key's, and no field of a record."""
    return part.is_one_value(schema) and (_record_of(text) is None or pa.types.is_struct(schema.field(0).type))


@lru_cache(_PLANS)
def _of_columns(schema: pa.Schema, name: str) -> tuple[str, str, Sequence[str]]:
    text, problems = record_schema(list(schema), name)
    return text, name, problems


@lru_cache(_PLANS)
def _plan(text: str, schema: pa.Schema, whole: bool) -> tuple[RecordStep | WriteStep, Sequence[str]]:
    """Return the step that encodes rows, and the reasons why it cannot."""
    matching = Matching(parsed(text))
    step = matching.value(schema.field(0)) if whole else matching.record(list(schema))
    return step or RecordStep(()), matching.problems
