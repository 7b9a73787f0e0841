"""The format `avro`: values in Avro's binary encoding, of writers whose schemas are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.api.decoding import Decoded
from connectors.formats.avro.arrow_types import ArrowTypes
from connectors.formats.avro.cursor import ALL, Cursor
from connectors.formats.avro.nested import RecordStep
from connectors.formats.avro.nodes import Schema
from connectors.formats.avro.resolution import IncompatibleError, check_defaults, resolve
from connectors.formats.avro.writers import RegisteredWriters, Writers, parsed
from connectors.formats.outcome import Outcome
from connectors.formats.spans import Flags, Ints
from eos.errors import SpecError

_PLANS: Final = 1_000
"""Pairs of writer and reader whose plans a process keeps."""


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """Records of one or more writers' schemas, in the columns of a reader's schema.

    A tombstone is a row of nulls, or a bad record if the reader's schema has a field that is never null. Bad is also a
    record of another length than its schema gives, or with a value that the reader's schema or Spark's type
    cannot hold.
    """

    reader: str  # JSON text
    writers: Writers
    truncate: bool = False  # nanoseconds

    @property
    def schema(self) -> pa.Schema:
        """The columns of the reader's schema. Raises SpecError if it is not valid."""
        return columns_of(self.reader)

    @property
    def names_schemas(self) -> bool:
        """Whether a registry keeps the writers' schemas. A fingerprint in front of a record names no other schema."""
        return isinstance(self.writers, RegisteredWriters)

    def with_schemas(self, known: Mapping[str, str]) -> AvroFormat:
        """Return this format with pinned schemas. See NamedSchemas."""
        assert isinstance(self.writers, RegisteredWriters)
        return replace(self, writers=replace(self.writers, pinned=known))

    def check(self) -> Sequence[Finding]:
        """Return the findings for `eos doctor`: whether the registry answers, if there is one."""
        return self.writers.check()

    def validate(self) -> None:
        """Raise SpecError if a schema is not valid, or a given writer's cannot be read with the reader's."""
        columns_of(self.reader)
        check_defaults(parsed(self.reader))
        for writer in self.writers.given():
            plan = _plan(writer, self.reader, self.truncate)
            if isinstance(plan, str):
                message = f"the writer's Avro schema cannot be read with the reader's: {plan}"
                raise SpecError(message, remedy="give a reader's schema that is compatible with it")

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a batch, all records of one writer at once.

        Blocks where this process meets a schema for the first time. Raises SourceError if a registry does not answer.
        """
        outcome = Outcome(self.schema)
        values, given = outcome.take_tombstones(values)
        for plan, chosen in self._by_writer(values, given, outcome):
            group = values if chosen.all() else values.filter(pa.array(chosen))
            cursor = Cursor(group, self.writers.header.size if self.writers.header else 0)
            columns = plan.columns(cursor, ALL)
            cursor.finish()
            outcome.add(given[chosen], pa.record_batch(columns, schema=self.schema), cursor.faults)
        return outcome.decoded()

    def _by_writer(self, values: pa.Array, places: Ints, outcome: Outcome) -> Iterator[tuple[RecordStep, Flags]]:
        """Yield the plan for each writer's schema, with its records. `places`: of the values, for `outcome`."""
        header = self.writers.header
        if header is None:
            keys, marked = np.zeros(len(values), np.uint64), np.ones(len(values), np.bool_)
        else:
            keys, marked = header.keys(values)
            outcome.reject(places[~marked], header.missing)
        for key, writer in self.writers.find(np.unique(keys[marked]).tolist()).items():
            chosen = marked & (keys == np.uint64(key))
            plan = _plan(writer.schema, self.reader, self.truncate)
            name = header.schema_name.format(key) if header else "the writer's schema"
            if self.names_schemas:
                outcome.schemas[name] = writer.fingerprint
            if isinstance(plan, str):
                outcome.reject(places[chosen], f"written with {name}: {plan}")
            else:
                yield plan, chosen


@lru_cache(_PLANS)
def columns_of(reader: str) -> pa.Schema:
    """Return the columns of a reader's schema. Raises SpecError if it is not valid."""
    return ArrowTypes(parsed(reader)).columns()


@lru_cache(_PLANS)
def _plan(writer: Schema | str, reader: str, truncate: bool) -> RecordStep | str:
    """Return the plan, or why no value of the writer can be read."""
    if isinstance(writer, str):
        return writer
    try:
        return resolve(writer, parsed(reader), truncate=truncate)
    except IncompatibleError as error:
        return str(error)
