"""Rows in the log on their way to a server: each column as the text that a statement carries, not yet escaped."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, Protocol, Self, TypeVar

import pyarrow as pa

FORM: Final = b"form"
"""Key in the metadata of a segment's column. Its value says how a statement quotes or escapes the text."""


class Plan(Protocol):
    """One column to write, as each server's `fit` plans it."""

    @property
    def name(self) -> str:
        """The column of the rows."""

    @property
    def column(self) -> str:
        """The column of the table."""

    @property
    def form(self) -> Enum:
        """How the values are written."""


P = TypeVar("P", bound=Plan)


@dataclass(frozen=True, slots=True)
class StoredRows(Generic[P]):
    """See connectors.log.writer.Form: columns are named as the table's are, and each says how it is to be quoted."""

    plans: tuple[P, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(plan.column, pa.string(), metadata={FORM: plan.form.value}) for plan in self.plans])

    def convert(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        columns = [self._texts(plan, batch.column(plan.name), first_row) for plan in self.plans]
        for plan, column in zip(self.plans, columns, strict=True):
            self._check(plan, column, first_row)
        return pa.record_batch(columns, schema=self.schema)

    def only(self, names: Sequence[str]) -> Self:
        return type(self)(tuple(plan for plan in self.plans if plan.name in names))

    def stored(self, names: Sequence[str]) -> tuple[str, ...]:
        columns = {plan.name: plan.column for plan in self.plans}
        return tuple(columns[name] for name in names)

    @abstractmethod
    def _texts(self, plan: P, values: pa.Array, first_row: int) -> pa.Array:
        """Return the unescaped text of a column. Raises BadRowError."""

    @abstractmethod
    def _check(self, plan: P, texts: pa.Array, first_row: int) -> None:
        """Raise BadRowError for a value that the server would refuse."""
