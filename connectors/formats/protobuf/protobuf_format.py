"""The format `protobuf`: values are messages of one type, of writers whose schemas may be newer or older."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.api.decoding import Decoded
from connectors.formats.framing import CONFLUENT
from connectors.formats.outcome import Outcome
from connectors.formats.protobuf.descriptors import message_named, name_at
from connectors.formats.protobuf.faults import Faults
from connectors.formats.protobuf.indexes import FAULTS, Headers
from connectors.formats.protobuf.message import MessageStep
from connectors.formats.protobuf.resolution import IncompatibleError, Resolution
from connectors.formats.protobuf.wire import Messages, messages_of
from connectors.formats.protobuf.writers import RegisteredWriters, Writer
from connectors.formats.spans import Ints
from eos.errors import SpecError

_PLANS: Final = 1_000
"""Pairs of writer and reader whose plans a process keeps."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The message whose fields are the columns."""

    descriptors: bytes  # a FileDescriptorSet
    message: str
    as_bytes: frozenset[str] = frozenset()  # messages that become BINARY
    truncate: bool = False  # nanoseconds


@dataclass(frozen=True, slots=True)
class ProtobufFormat:
    """Messages in the columns of the reader's message.

    A tombstone is a row of nulls, or a bad record if the message has a field that is never null. Bad is also a record
    that Google's parsers refuse, or with a value that its type or its column cannot hold.
    """

    reader: Reader
    writers: RegisteredWriters | None = None  # None: no header, and the reader's message

    @property
    def schema(self) -> pa.Schema:
        """The columns. Raises SpecError if the reader's message cannot have columns."""
        return _columns(self.reader)

    @property
    def names_schemas(self) -> bool:
        """Whether a registry keeps the writers' schemas."""
        return self.writers is not None

    def with_schemas(self, known: Mapping[str, str]) -> ProtobufFormat:
        """Return this format with pinned schemas. See NamedSchemas."""
        assert self.writers is not None
        return replace(self, writers=replace(self.writers, pinned=known))

    def check(self) -> Sequence[Finding]:
        """Return the findings for `eos doctor`: whether the registry answers, if there is one."""
        return () if self.writers is None else self.writers.check()

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a batch, all records of one writer at once.

        Blocks where this process meets a schema for the first time. Raises SourceError if a registry does not answer.
        """
        outcome = Outcome(self.schema)
        values, given = outcome.take_tombstones(values)
        if self.writers is None:
            self._read(_own_plan(self.reader), messages_of(values), given, outcome)
            return outcome.decoded()
        headers = Headers(values)
        for number, reason in enumerate(FAULTS):
            outcome.reject(given[headers.fault == number], reason)
        found = list(headers.by_message())
        writers = self.writers.find(sorted({written.schema_id for written, _ in found}))
        for written, rows in found:
            writer, name = writers[written.schema_id], CONFLUENT.schema_name.format(written.schema_id)
            outcome.schemas[name] = writer.fingerprint
            plan = _plan(writer, written.path, self.reader)
            if isinstance(plan, str):
                outcome.reject(given[rows], f"written with {name}: {plan}")
            else:
                messages = Messages(headers.data, headers.body[rows], headers.end[rows])
                self._read(plan, messages, given[rows], outcome)
        return outcome.decoded()

    def _read(self, plan: MessageStep, messages: Messages, places: Ints, outcome: Outcome) -> None:
        faults = Faults()
        rows = pa.record_batch(plan.columns(messages, faults), schema=self.schema)
        outcome.add(places, rows, faults.reasons)


@lru_cache(_PLANS)
def _columns(reader: Reader) -> pa.Schema:
    return pa.schema([each.field for each in _own_plan(reader).fields])


@lru_cache(_PLANS)
def _own_plan(reader: Reader) -> MessageStep:
    """Return the plan for records of the reader's own message. Raises SpecError."""
    message = message_named(reader.descriptors, reader.message)
    return Resolution(reader.as_bytes, truncate=reader.truncate).message(message, message)


@lru_cache(_PLANS)
def _plan(writer: Writer, path: tuple[int, ...], reader: Reader) -> MessageStep | str:
    """Return the plan for a writer's message, or why no record of it can be read."""
    if isinstance(writer.descriptors, str):
        return writer.descriptors
    name = name_at(writer.descriptors, path)
    if name is None:
        return f"it has no message at {list(path)}"
    if name != reader.message:
        return f"the record is a {name}, not a {reader.message}"
    written, read = message_named(writer.descriptors, name), message_named(reader.descriptors, name)
    try:
        return Resolution(reader.as_bytes, truncate=reader.truncate).message(written, read)
    except IncompatibleError as error:
        return str(error)


def validate(reader: Reader) -> None:
    """Raise SpecError if the reader's message cannot have columns."""
    unknown = sorted(name for name in reader.as_bytes if not _has(reader, name))
    if unknown:
        raise SpecError(f"as_bytes: the Protobuf schema has no message {unknown[0]!r}", remedy="check the name")
    _columns(reader)


def _has(reader: Reader, name: str) -> bool:
    try:
        message_named(reader.descriptors, name)
    except SpecError:
        return False
    return True
