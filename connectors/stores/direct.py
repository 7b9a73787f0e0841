"""A task's at-least-once writer for small stores: rows wait in a temporary file, and land in one step at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

from connectors.row_spool import SpoolingWriter
from connectors.stores.answers import answered_flag, answered_text, done
from connectors.stores.base import RowForm
from connectors.stores.contracts import PreparingStore, TokenStore
from connectors.stores.token import direct_slot, transaction_name
from eos.errors import PrepareError, SinkUnavailableError
from twophase.ids import TransactionId

_ATTEMPTS: Final = 20

Rows = Callable[[], Iterator[pa.RecordBatch]]
"""Gives the rows from the first one on, each time."""

Land = Callable[[TransactionId, Rows], bool]
"""Adds rows in one step; False: other attempts of the task were faster, and nothing happened."""


class StoreDirectWriter(SpoolingWriter):
    """At-least-once writer of a small store."""

    def __init__(self, name: str, land: Land, form: RowForm, transaction: TransactionId) -> None:
        super().__init__(name, form, transaction)
        self._land = land

    def _put(self) -> None:
        if not self._land(self._transaction, self._spool.read):
            message = f"{self._where}: other attempts of the task were faster {_ATTEMPTS} times"
            raise SinkUnavailableError(message, remedy="the task is run again")


def land_in_token_store(sink: str, store: TokenStore, transaction: TransactionId, rows: Rows) -> bool:
    """Add rows under a slot that belongs to this task number, whatever pipeline and attempt it is of.

    The token only serializes attempts of one task; no decision reads it.
    """
    slot = direct_slot(transaction)
    return _replace_token(
        sink, slot, store.applied, lambda expected: store.apply(slot, expected, str(transaction), rows())
    )


def land_in_preparing_store(sink: str, store: PreparingStore, transaction: TransactionId, rows: Rows) -> bool:
    """Prepare rows and commit them at once. See `land_in_token_store`. A start aborts what a crash leaves behind."""
    slot, name = direct_slot(transaction), transaction_name(transaction)
    done(sink, lambda: store.prepare(name, rows()), "`prepare`", failure=PrepareError)
    return _replace_token(
        sink, slot, store.witness, lambda expected: store.commit(slot, expected, str(transaction), [name])
    )


def _replace_token(sink: str, slot: str, read: Callable[[str], str], put: Callable[[str], bool]) -> bool:
    """Replace the token that the slot has; return False if other attempts were always faster."""
    return any(
        answered_flag(sink, put, answered_text(sink, read, slot, failure=PrepareError), failure=PrepareError)
        for _ in range(_ATTEMPTS)
    )
