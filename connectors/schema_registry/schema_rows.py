"""The common part of formats of sinks that describe rows by a schema, which a registry may keep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.api.encoding import Encoder, MessagePart, UsedSchema
from connectors.schema_registry.client import check_registry
from connectors.schema_registry.registration import Registration


@dataclass(frozen=True, slots=True)
class Described:
    """The schema of some rows."""

    text: str
    record: str  # the full name of its record; empty: it is not a record
    problems: Sequence[str] = ()  # reasons why the rows cannot be written with it


@dataclass(frozen=True, slots=True)
class SchemaRows(ABC):
    """A RowFormat whose schema has a text. A subclass describes rows, and encodes them."""

    kind: ClassVar[str]  # as registries name it

    registration: Registration | None  # None: no registry

    @abstractmethod
    def described(self, part: MessagePart, schema: pa.Schema) -> Described:
        """Return the schema that rows with these columns are written with. Pure."""

    @abstractmethod
    def encoder(self, part: MessagePart, schema: pa.Schema, used: UsedSchema) -> Encoder:
        """Return the encoder for rows without problems."""

    @abstractmethod
    def name_problems(self, part: MessagePart, names: Sequence[str]) -> Sequence[str]:
        """Return the reasons that follow from the names of the columns. See RowFormat."""

    def problems(self, part: MessagePart, schema: pa.Schema) -> Sequence[str]:
        found = self.described(part, schema)
        if found.problems or self.registration is None or self.registration.strategy == "topic-name" or found.record:
            return found.problems
        return ["the subject has the name of a record, and the schema is not a record"]

    def open(self, part: MessagePart, schema: pa.Schema) -> Encoder:
        found, number = self.described(part, schema), None
        if self.registration is not None:
            subject = self.registration.subject(part, found.record)
            number = self.registration.id_of(part.sink, subject, self.kind, found.text)
        return self.encoder(part, schema, UsedSchema(found.text, number))

    def reopen(self, part: MessagePart, schema: pa.Schema, used: UsedSchema) -> Encoder | None:
        is_same = self.described(part, schema).text == used.text and (used.id is None) == (self.registration is None)
        return self.encoder(part, schema, used) if is_same else None

    def dry_run(self, part: MessagePart, schema: pa.Schema) -> None:
        if self.registration is not None:
            found = self.described(part, schema)
            self.registration.dry_run(part.sink, self.registration.subject(part, found.record), self.kind, found.text)

    def check(self, part: MessagePart, schema: pa.Schema | None) -> Sequence[Finding]:
        if self.registration is None:
            return []
        if schema is None or self.problems(part, schema):  # problems are a finding of the sink
            return [check_registry(self.registration.connection)]
        found = self.described(part, schema)
        subject = self.registration.subject(part, found.record)
        return [self.registration.finding(part.sink, subject, self.kind, found.text)]


def confluent_header(used: UsedSchema) -> bytes:
    """Return the bytes in front of each value: a zero, and the id in four bytes. Empty without a registry."""
    return b"" if used.id is None else b"\0" + used.id.to_bytes(4)
