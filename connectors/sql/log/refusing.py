"""Rows that a table refuses when the log is applied: they become dead letters in the transaction that moves the slot.

Only where the dead letters are a table of the same database. Then each refused row is one dead letter: it is there if
and only if the slot has moved, whoever applies the share, and however often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from connectors.dead_letters import add_checkpoint_id
from connectors.log.writer import Form
from connectors.row_bisector import RowBisector
from connectors.sql.log.store import Store
from connectors.sql.statements import StatementError, savepoint
from eos.errors import BadRowError, TargetError

Put = Callable[[Iterator[pa.RecordBatch]], None]
"""Puts the rows of a share into the table, inside the open transaction."""


@dataclass(frozen=True, slots=True)
class DeadLettersTable:
    """The table of the dead letters, which exists."""

    table: str  # as the spec names it
    form: Form
    columns: Sequence[str]  # of dead_letters.SCHEMA, in the order in which `form` takes them


@contextmanager
def bad_rows(doing: str) -> Iterator[None]:
    """Raise BadRowError for a StatementError that speaks of a row. Other errors pass through as they are."""
    try:
        yield
    except StatementError as error:
        reason = error.connector_error(doing)
        if isinstance(reason, BadRowError):
            raise reason from error
        raise


@dataclass(frozen=True, slots=True)
class Sifting:
    """A Put that leaves out the rows that `put` refuses, and puts them into the table of the dead letters."""

    store: Store
    sink: str
    checkpoint_id: int
    put: Put
    letters: DeadLettersTable
    bisector: RowBisector

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Raises TooManyBadRowsError, and what `put` raises for another reason than a row; StatementError. Raises
        TargetError where the table of the dead letters refuses one.

        A share of several tables has a call for each group of its rows: each call stores its own dead letters only.
        """
        stored = len(self.bisector.letters)
        for batch in batches:
            self.bisector.write(self, self.sink, batch)
        if found := self.bisector.letters[stored:]:
            rows = add_checkpoint_id(pa.Table.from_batches(found), self.checkpoint_id).select(
                list(self.letters.columns)
            )
            letters = rows.combine_chunks().to_batches()  # several where they come to more than 2 GiB
            with self._of_letters():
                self.store.load(self.letters.table, (self.letters.form.convert(each, 1) for each in letters))

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        with savepoint(self.store), bad_rows(f"sink {self.sink}, applying checkpoint {self.checkpoint_id}"):
            self.put(iter([batch]))

    @contextmanager
    def _of_letters(self) -> Iterator[None]:
        try:
            with bad_rows(f"sink {self.sink}, dead letters of checkpoint {self.checkpoint_id}"):
                yield
        except BadRowError as error:
            message = f"dead_letter, table {self.letters.table}, refuses a dead letter: {error.message}"
            remedy = "it has to take every one: drop the constraint, trigger or index that refuses it, and start again"
            raise TargetError(message, remedy=remedy) from error
