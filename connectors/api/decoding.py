"""The contract of a format: it decodes the values of records into columns. Loads no model of a spec: tasks use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from connectors.api.contracts import Finding


@dataclass(frozen=True, slots=True)
class Undecodable:
    """One record that does not decode.

    Created by: `Format.decode`. Read by: the source, which writes it as a dead letter, skips it, or raises
    BadRecordError with `reason`, as `on_bad_record` in the spec says.
    """

    index: int  # in the column that was given
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result for one column: a value is one or more rows of `rows`, an entry of `bad`, or an index in `omitted`.

    Created by: `Format.decode`. Read by: the source, in a task.
    """

    rows: pa.RecordBatch  # of the good records, in order
    bad: tuple[Undecodable, ...] = ()  # by ascending index
    schemas: Mapping[str, str] = field(default_factory=dict)
    """The schemas that records name, by that name, each with the fingerprint of its content, or `unknown`. Empty where
    records name none, or by their content: only a name can get another schema (H35)."""
    omitted: tuple[int, ...] = ()
    """Ascending indices of records that are well-formed and describe no row, such as the tombstone after a deletion."""
    records: pa.Array | None = None
    """By row, the index of its record: an ascending int64 column without nulls. None: each good record has one row.

    A format whose records may have several rows has the column ROW in its schema. A record is good, bad or omitted as a
    whole: no row of a bad record is in `rows`.
    """

    def record_indices(self, count: int) -> NDArray[np.int64]:
        """Return by row the index of its record. `count`: values of the column that was given."""
        import numpy as np

        if self.records is not None:
            return np.asarray(self.records.to_numpy(), np.int64)
        left = np.ones(count, np.bool_)
        left[[each.index for each in self.bad]] = False
        left[list(self.omitted)] = False
        return np.flatnonzero(left)


ROW: Final = "_row"
"""The column with the number of a row within its record, from 0: an int32. Rows of one record have equal metadata, so
`_partition` and `_offset` identify a row only together with it, and it orders rows of one key."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of one schema that records bring with them.

    Created by: `SelfDescribingFormat.decode_tables`. Read by: the source, in a task, which adds the metadata columns.
    """

    name: str  # of the schema or the table, as the records name it; empty if they do not
    key: tuple[str, ...]  # columns of the records' keys, all in `rows`; empty if the keys name none
    rows: pa.RecordBatch  # the columns of the schema, then the columns of `SelfDescribingFormat.schema`
    places: np.ndarray
    """Ascending indices of the records that the rows are of, one for each row (int64)."""


@dataclass(frozen=True, slots=True)
class DecodedTables:
    """The result for one column: every value is a row of one of `tables`, an entry of `bad`, or an index in `omitted`.

    Created by: `SelfDescribingFormat.decode_tables`. Read by: the source, in a task. The other fields are as in
    `Decoded`.
    """

    tables: tuple[TableRows, ...]
    bad: tuple[Undecodable, ...] = ()
    schemas: Mapping[str, str] = field(default_factory=dict)
    omitted: tuple[int, ...] = ()


class Format(Protocol):
    """A decoder of record values into columns.

    Implemented by: a connector. Called by: a source, in a task. It is pickled inside the source, so it holds
    configuration only.

    Call order: `schema` on the driver and in tasks; `decode` once per batch of records, in any order.

    Blocking: no call blocks, except `decode`, which may request a new schema from a service, once per process.

    Raises: SpecError when it is built with a wrong schema. `decode` raises nothing because of a value, and SourceError
    if a service does not answer: an outage is not a bad record.

    Rule: the same value always decodes to the same rows, so a replayed checkpoint writes the same rows (R4).
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns of `Decoded.rows`."""

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a binary column that may hold nulls. Raises nothing because of a value."""


@runtime_checkable
class NamedSchemas(Protocol):
    """An optional part of a format: records name their schema, which a service keeps (H35).

    Implemented by: a connector, in its `Format`. Called by: a source, on the driver.

    Call order: `with_schemas` before `Format.decode`, once for each start of the query.

    Blocking: no call blocks.

    Raises: nothing. The format that `with_schemas` returns raises IdentityError in `decode`.

    Rule: a replayed checkpoint decodes with the schemas of its first run, whatever the service answers by then.
    """

    @property
    def names_schemas(self) -> bool:
        """Whether `Decoded.schemas` has any."""

    def with_schemas(self, known: Mapping[str, str]) -> Format:
        """Return this format, whose `decode` raises IdentityError where a known name has another schema.

        `known`: names and fingerprints of decided checkpoints.
        """


@runtime_checkable
class KeyedFormat(Protocol):
    """An optional part of a format: a row may have columns of the record's key.

    Implemented by: a connector, in its `Format`. Called by: a source whose records have keys, in a task.

    Call order: `decode_records` in place of `Format.decode`, which decodes the values of records without keys.

    Blocking: as `Format.decode`.

    Raises: as `Format.decode`.

    Rule: the same key and value always decode to the same rows (R4).
    """

    def decode_records(self, keys: pa.Array, values: pa.Array) -> Decoded:
        """Decode two binary columns of equal length that may hold nulls. See `Format.decode`."""


@runtime_checkable
class SelfDescribingFormat(Protocol):
    """A format without a schema in the spec: each record brings the schema of its row.

    Implemented by: a connector, in its `Format`, whose `schema` has only the columns that every row has. Called by: a
    source that writes to a sink of several tables, in a task.

    Call order: `decode_tables` in place of `Format.decode`.

    Blocking: as `Format.decode`.

    Raises: as `Format.decode`.

    Rule: the same key and value always decode to the same row of the same columns (R4).
    """

    def decode_tables(self, keys: pa.Array, values: pa.Array) -> DecodedTables:
        """Decode two binary columns of equal length that may hold nulls.

        There is one `TableRows` for each name, key and schema. See `Format.decode`.
        """


@runtime_checkable
class CheckedFormat(Protocol):
    """An optional part of a format that needs a service: `eos doctor` shows whether the service answers.

    Implemented by: a connector, in its `Format`. Called by: `check` of the source, on the driver.

    Call order: no order. No run calls it.

    Blocking: for some seconds at most.

    Raises: nothing. An error of the service is a finding.

    Rule: it changes nothing at the service.
    """

    def check(self) -> Sequence[Finding]:
        """Return the findings."""
