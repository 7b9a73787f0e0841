"""Marks: rows by which a source reports to the driver on the records that it reads, without a job of its own.

A source that rejects records, or leaves them out, ends each range that it reads with one more row, a *mark*. A hidden
column of the mark says how many records were bad. A source whose records name schemas has a further mark with their
names and fingerprints before the first record of each schema. Spark counts and collects the marks while the rows pass
and drops them, so no step sees one. The result arrives with the results of the successful tasks, before the job is
over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import DataFrame, functions

from connectors.api.contracts import Source, names_schemas
from twophase.values import OffsetRange

_ASIDE: Final = "_eos_aside"
"""Hidden column of what such a source gives: NULL in a record's row; in a mark, how many were put aside."""
_SCHEMAS: Final = "_eos_schemas"
"""Hidden column of a source whose records name schemas: NULL in a record's row; in a mark of schemas, JSON of them."""


def has_marks(source: Source) -> bool:
    """Whether the driver has to know more of this source than its records."""
    return source.rejects_bad_records or source.skips_bad_records or names_schemas(source)


def with_mark(source: Source) -> pa.Schema:
    """Return the columns of a source with marks."""
    schema = source.schema.append(pa.field(_ASIDE, pa.int64()))
    return schema.append(pa.field(_SCHEMAS, pa.string())) if names_schemas(source) else schema


def read_and_mark(source: Source, ranges: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
    """In a task: the records of its ranges, and then its mark."""
    aside = 0

    def on_bad_records(count: int) -> None:
        nonlocal aside
        aside += count

    schema = with_mark(source)
    hidden = [field.type for field in schema][len(source.schema) :]
    nothing = [_nothing(field) for field in source.schema]
    met = Met()
    for batch in met.read(source, ranges, on_bad_records):
        if schemas := met.new():
            yield pa.record_batch([*nothing, pa.nulls(1, pa.int64()), pa.array([schemas])], schema=schema)
        yield pa.record_batch([*batch.columns, *(pa.nulls(batch.num_rows, kind) for kind in hidden)], schema=schema)
    last = [pa.array([aside]), *(pa.array([met.new() or None], pa.string()) for _ in hidden[1:])]
    yield pa.record_batch([*nothing, *last], schema=schema)


class Met:
    """The schemas that the records of a task have named so far."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()
        self._new: set[tuple[str, str]] = set()

    def read(
        self, source: Source, ranges: Sequence[OffsetRange], on_bad_records: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """Read the ranges, and note the schemas of each batch before the batch is returned. See Source.read."""
        if names_schemas(source):
            return source.read_with_schemas(ranges, on_bad_records, self._add)
        return source.read(ranges, on_bad_records)

    def _add(self, schemas: Mapping[str, str]) -> None:
        self._new.update(schemas.items() - self._seen)
        self._seen |= self._new

    def new(self) -> str:
        """Return JSON of the schemas that are new since the last call; empty without any."""
        new, self._new = self._new, set()
        return json.dumps(sorted(new)) if new else ""


def schemas_in(texts: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Return name and fingerprint of each schema that tasks have met. `texts`: see Met.new."""
    return frozenset((name, fingerprint) for text in texts for name, fingerprint in json.loads(text))


def _nothing(field: pa.Field) -> pa.Array:
    """One value; Spark looks for one even in a row that is dropped, where a column is NOT NULL."""
    return pa.array([None if field.nullable else _zero(field.type)], field.type)


def _zero(kind: pa.DataType) -> Any:
    if pt.is_struct(kind):
        return {child.name: None if child.nullable else _zero(child.type) for child in kind}
    zeros: Mapping[Callable[[pa.DataType], bool], Any] = {
        pt.is_boolean: False,
        pt.is_string: "",
        pt.is_binary: b"",
        pt.is_decimal: Decimal(0),
        pt.is_date: date(1970, 1, 1),
        pt.is_timestamp: datetime(1970, 1, 1),
        pt.is_list: [],
        pt.is_map: [],
    }
    return next((zero for test, zero in zeros.items() if test(kind)), 0)


def counting(source: Source, frame: DataFrame) -> DataFrame:
    """The records of a source as the steps get them. Spark moves no filter of theirs before the count."""
    aside, schemas = functions.col(_ASIDE), functions.col(_SCHEMAS)
    found = [functions.count(aside).alias("marks"), functions.sum(aside).alias("aside")]
    if not names_schemas(source):
        return frame.observe(observation(source), *found).where(aside.isNull()).drop(_ASIDE)
    found.append(functions.array_join(functions.collect_set(schemas), "\n").alias("schemas"))
    is_record = aside.isNull() & schemas.isNull()
    return frame.observe(observation(source), *found).where(is_record).drop(_ASIDE, _SCHEMAS)


def observation(source: Source) -> str:
    """Return the name under which Spark reports the counts of this source."""
    return f"eos_{source.name}"
