"""One slot's share of one checkpoint: rows, witnesses and the slot's own row in one local transaction, or nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

import pyarrow as pa

from connectors.log.chunks import by_table, table_in
from connectors.log.ledger import Share, gap, missing_segments
from connectors.log.merge import merge_of
from connectors.log.segments import segment_of
from connectors.owner import check_applier
from connectors.row_bisector import RowBisector
from connectors.sql import tables
from connectors.sql.claims import read_claim
from connectors.sql.log.refusing import DeadLettersTable, Put, Sifting, bad_rows
from connectors.sql.log.store import Store
from connectors.sql.slots import find_forgotten, hold_slot, move_slot
from connectors.sql.statements import in_transaction
from eos.errors import BadRowError
from twophase import faults
from twophase.ids import sink_key
from twophase.values import CommitOutcome
from wal.segment import read_segment
from wal.storage import Storage

_log: Final = logging.getLogger("eos.sink")


class Target(NamedTuple):
    """Where a share goes."""

    pipeline: str
    sink: str
    table: str
    most_letters: int = 0  # of a share


def apply_share(
    store: Store, storage: Storage, target: Target, share: Share, letters: Callable[[], DeadLettersTable] | None = None
) -> list[CommitOutcome]:
    """Apply it, or find that it is applied. One outcome for each committable.

    `letters`: opens the table that takes refused rows, on a connection of its own; None: a refused row is an error.

    Raises FencedError, SetBackError, IdentityError if the slot is not at the checkpoint before, BadRowError for a row
    that the table refuses, TooManyBadRowsError, WalError for a damaged segment, StatementError. None leaves anything
    behind.
    """
    put = partial(_put, store, target.table)
    if letters is None:
        return _apply(store, storage, target, share, put)
    try:
        with bad_rows(f"sink {target.sink}, applying checkpoint {share.checkpoint_id}"):
            return _apply(store, storage, target, share, put)
    except BadRowError as error:
        told = "sink %s: checkpoint %d is applied again, without the rows that are refused: %s"
        _log.warning(told, target.sink, share.checkpoint_id, error.message)
    bisector = RowBisector(target.most_letters)
    sifting = Sifting(store, target.sink, share.checkpoint_id, put, letters(), bisector)
    outcomes = _apply(store, storage, target, share, sifting)
    told = "sink %s: %d rows of checkpoint %d are dead letters"
    _log.warning(told, target.sink, len(bisector.letters), share.checkpoint_id)
    return outcomes


def _apply(store: Store, storage: Storage, target: Target, share: Share, put: Put) -> list[CommitOutcome]:
    sink = sink_key(target.sink)
    with in_transaction(store):
        # H28: shared, and the first of all locks. A claim by another incarnation waits until this transaction ends.
        # Without the lock, rows of the older incarnation could become visible after that claim.
        owner = read_claim(store, target.pipeline, target.sink, lock=store.for_share)
        check_applier(target.sink, owner, share.incarnation, share.epoch)
        applied = hold_slot(store, share.incarnation, sink, share.slot)
        if applied is None:
            applied = find_forgotten(store, share.incarnation, target.sink, share.checkpoint_id)
        if applied is not None and applied >= share.checkpoint_id:
            share.check_not_past(target.sink, applied)
            return _already(store, sink, share, applied)
        if missing := missing_segments(storage, share):
            _log.error("sink %s: the log lacks %s: restore it, and start again", target.sink, ", ".join(missing))
            return [CommitOutcome.LOST] * len(share.committables)  # all or nothing, so that it can still be mended
        if not share.is_next(applied):
            raise gap(target.sink, share, applied)
        move_slot(store, share.incarnation, sink, share.slot, share.checkpoint_id)
        for each in share.committables:
            tables.insert_witness(store, each.transaction, each.rows)
        refs = [ref for each in share.committables if (ref := segment_of(each)) is not None]
        if refs:
            for rows in by_table(read_segment(storage, ref) for ref in refs):
                put(rows)
            faults.point("applying", share.checkpoint_id, sink)
    return [CommitOutcome.COMMITTED] * len(share.committables)


def _put(store: Store, table: str, batches: Iterator[pa.RecordBatch]) -> None:
    """As the segment says, whatever the spec says by now."""
    first = next(batches, None)
    if first is None:
        return
    rows, merge = chain([first], batches), merge_of(first.schema)
    table = table_in(first.schema) or table
    if merge is not None:
        store.merge(table, merge, rows)
    else:
        store.load(table, rows)


def _already(store: Store, sink: str, share: Share, applied: int) -> list[CommitOutcome]:
    """The checkpoint is applied; with these very transactions, as far as the history still tells.

    Of the newest one it tells for certain: rows in the log that have no witness then are of a driver that was set back
    with its memory (H33).
    """
    is_newest = applied == share.checkpoint_id and any(segment_of(each) is not None for each in share.committables)
    if not is_newest and not tables.has_witness(store, share.incarnation, sink, share.checkpoint_id):
        return [CommitOutcome.ALREADY_COMMITTED] * len(share.committables)
    seen = tables.shown(store, share.committables)
    already, lost = CommitOutcome.ALREADY_COMMITTED, CommitOutcome.LOST
    return [already if each.transaction in seen else lost for each in share.committables]
