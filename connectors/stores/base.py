"""The half of a sink that is the same for every small store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, Self, TypeVar

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.known import must_wait
from connectors.stores.rows import RowForm, require, stored_schema


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
        require(self.name, self.store.check(stored))
        return replace(self, form=RowForm(stored))

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
