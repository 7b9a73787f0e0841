"""The half of a sink that is the same for every small store: columns as they come, values checked in the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, Protocol, Self, TypeVar

import pyarrow as pa

from connectors.api.contracts import METADATA, Finding
from connectors.known import must_wait
from connectors.stores.answers import answered_findings
from eos.errors import BadRowError, TargetError


class Checked(Protocol):
    """A store that tells whether it takes rows."""

    def check(self, schema: pa.Schema | None) -> Sequence[Finding]:
        """Return the findings of the store; a start with a fatal one is refused. See `TokenStore.check`."""


S = TypeVar("S", bound=Checked)


@dataclass(frozen=True, slots=True)
class SmallStoreSink(Generic[S]):
    """See Sink. Picklable; opens nothing by itself."""

    name: str
    store: S
    form: RowForm | None = field(default=None, kw_only=True)  # of an opened sink

    def open(self, schema: pa.Schema) -> Self:
        """See Sink. Raises TargetError that names the store's fatal findings."""
        stored = stored_schema(schema)
        require(self.name, self._findings(stored))
        return replace(self, form=RowForm(stored))

    def _findings(self, stored: pa.Schema | None) -> Sequence[Finding]:
        """Return the findings of the store itself. Raises TargetError where its `check` does not keep its contract."""
        return answered_findings(self.name, partial(self.store.check, stored))

    @property
    def cached_target(self) -> str | None:
        """See Sink. The columns: a store has nothing else to learn."""
        return None if self.form is None else str(self.form.schema)

    def open_cached(self, schema: pa.Schema, known: str) -> Self:
        stored = stored_schema(schema)
        if str(stored) != known:
            raise must_wait(self.name, "its columns are not those that an earlier start has checked")
        return replace(self, form=RowForm(stored))

    def dry_run(self, schema: pa.Schema) -> Sequence[str]:
        return list(stored_schema(schema).names)

    @property
    def columns(self) -> Sequence[str]:
        return list(self.opened.schema.names)

    @property
    def partition_by(self) -> Sequence[str] | None:
        """See Sink. Any writer may have any row."""
        return None

    @property
    def rejects_duplicates(self) -> bool:
        return False

    @property
    def opened(self) -> RowForm:
        """The form of an opened sink."""
        assert self.form is not None, "open() comes first"
        return self.form


@dataclass(frozen=True, slots=True)
class RowForm:
    """See Form. The log and the store have the columns of the rows, with the same types."""

    schema: pa.Schema

    def convert(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """See Form. Raises BadRowError for a value that Arrow calls invalid, such as text that is not UTF-8."""
        for name, column in zip(self.schema.names, batch.columns, strict=True):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                row = first_row + _first_invalid(column)
                raise BadRowError(f"row {row}, column {name!r}: {error}", remedy="change the value in a step") from None
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns that a store is given: all of the rows, except metadata columns under their own names."""
    return pa.schema([field for field in schema if field.name not in METADATA])


def require(sink: str, findings: Sequence[Finding]) -> None:
    """Refuse a start for the fatal findings of a store. Raises TargetError that names all of them."""
    wrong = [each for each in findings if each.fatal and not each.ok]
    if wrong:
        message = f"sink {sink}: " + "; ".join(f"{each.check}: {each.detail}" for each in wrong)
        raise TargetError(message, remedy="; ".join(dict.fromkeys(each.remedy for each in wrong if each.remedy)))


def _first_invalid(column: pa.Array) -> int:
    for row in range(len(column)):
        try:
            column.slice(row, 1).validate(full=True)
        except pa.ArrowInvalid:
            return row
    return 0
