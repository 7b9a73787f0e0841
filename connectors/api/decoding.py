"""The contract of a format: it decodes the values of records into columns. Loads no model of a spec: tasks use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

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
    """The result for one column: every value is a row of `rows`, an entry of `bad`, or an index in `omitted`.

    Created by: `Format.decode`. Read by: the source, in a task.
    """

    rows: pa.RecordBatch  # the good records, in order
    bad: tuple[Undecodable, ...] = ()  # by ascending index
    schemas: Mapping[str, str] = field(default_factory=dict)
    """The schemas that records name, by that name, each with the fingerprint of its content, or `unknown`. Empty where
    records name none, or by their content: only a name can get another schema (H35)."""
    omitted: tuple[int, ...] = ()
    """Ascending indices of records that are well-formed and describe no row, such as the tombstone after a deletion."""


class Format(Protocol):
    """A decoder of record values into columns.

    Implemented by: a connector. Called by: a source, in a task. It is pickled inside the source, so it holds
    configuration only.

    Call order: `schema` on the driver and in tasks; `decode` once per batch of records, in any order.

    Blocking: no call blocks, except `decode`, which may request a new schema from a service, once per process.

    Raises: SpecError when it is built with a wrong schema. `decode` raises nothing because of a value, and SourceError
    if a service does not answer: an outage is not a bad record.

    Rule: the same value always decodes to the same row, so a replayed checkpoint writes the same rows (R4).
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns of `Decoded.rows`."""

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a binary column that may hold nulls. Raises nothing because of a value."""


@runtime_checkable
class NamedSchemas(Protocol):
    """An optional part of a format: records name their schema, which a service keeps (H35)."""

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

    Rule: the same key and value always decode to the same row (R4).
    """

    def decode_records(self, keys: pa.Array, values: pa.Array) -> Decoded:
        """Decode two binary columns of equal length that may hold nulls. See `Format.decode`."""


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
