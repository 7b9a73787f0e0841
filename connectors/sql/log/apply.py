"""One slot's share of one checkpoint: rows, witnesses and the slot's own row in one local transaction, or nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pyarrow as pa

from connectors.log.keyed import key_of
from connectors.log.segments import is_sealed, segment_of
from connectors.sql import tables
from connectors.sql.claims import Owner, fenced, read_claim
from connectors.sql.log.slots import hold_slot, move_slot
from connectors.sql.log.store import Store
from connectors.sql.statements import in_transaction
from twophase import faults
from twophase.errors import IdentityError
from twophase.ids import sink_key
from twophase.values import CommitOutcome, Committable
from wal.segment import read_segment
from wal.storage import Storage

_log: Final = logging.getLogger("eos.sink")


@dataclass(frozen=True, slots=True)
class Share:
    """What is to be applied, and by whom."""

    pipeline: str
    sink: str
    table: str
    incarnation: str
    epoch: int | None  # None: of a start, which commits before it claims (R3)
    checkpoint_id: int
    slot: int
    committables: Sequence[Committable]


def apply_share(store: Store, storage: Storage, share: Share) -> list[CommitOutcome]:
    """Apply it, or find that it is applied. One outcome for each committable.

    Raises FencedError, IdentityError if the slot is not at the checkpoint before, BadRowError for a row that the table
    refuses, WalError for a damaged segment, StatementError. None leaves anything behind.
    """
    with in_transaction(store):
        _check_owner(store, share)
        applied = hold_slot(store, share.incarnation, sink_key(share.sink), share.slot)
        if applied is not None and applied >= share.checkpoint_id:
            return _already(store, share)
        if missing := _missing(storage, share):
            _log.error("sink %s: the log lacks %s: restore it, and start again", share.sink, ", ".join(missing))
            return [CommitOutcome.LOST] * len(share.committables)  # all or nothing, so that it can still be mended
        if applied != share.checkpoint_id - 1:
            raise _gap(share, applied)
        move_slot(store, share.incarnation, sink_key(share.sink), share.slot, share.checkpoint_id)
        for each in share.committables:
            tables.insert_witness(store, each.transaction, each.rows)
        refs = [ref for each in share.committables if (ref := segment_of(each)) is not None]
        if refs:
            _put(store, share.table, chain.from_iterable(read_segment(storage, ref) for ref in refs))
            faults.point("applying", share.checkpoint_id)
    return [CommitOutcome.COMMITTED] * len(share.committables)


def _put(store: Store, table: str, batches: Iterator[pa.RecordBatch]) -> None:
    """As the segment says, whatever the spec says by now."""
    first = next(batches, None)
    if first is None:
        return
    rows, key = chain([first], batches), key_of(first.schema)
    if key:
        store.merge(table, key, rows)
    else:
        store.load(table, rows)


def _check_owner(store: Store, share: Share) -> None:
    """What is decided may be applied by any epoch of this life, but not by one that knows that it is not the newest."""
    owner = read_claim(store, share.pipeline, share.sink)
    if owner is None or owner.incarnation != share.incarnation or share.epoch not in (None, owner.epoch):
        raise fenced(share.sink, owner, Owner(share.incarnation, share.epoch or 0))


def _already(store: Store, share: Share) -> list[CommitOutcome]:
    """The checkpoint is applied; with these very transactions, as far as the history still tells."""
    asked = [each.transaction for each in share.committables]
    if not tables.has_witness(store, share.incarnation, sink_key(share.sink), share.checkpoint_id):
        return [CommitOutcome.ALREADY_COMMITTED] * len(asked)
    seen = tables.visible_witnesses(store, asked)
    already, lost = CommitOutcome.ALREADY_COMMITTED, CommitOutcome.LOST
    return [already if each in seen else lost for each in asked]


def _missing(storage: Storage, share: Share) -> list[str]:
    """While the slot is held, "not applied" and "segment missing" are of one moment: only then it is lost (R7)."""
    refs = [segment_of(each) for each in share.committables]
    return [f"{storage.describe()}/{ref.name}" for ref in refs if ref is not None and not is_sealed(storage, ref)]


def _gap(share: Share, applied: int | None) -> IdentityError:
    stands = "knows of no checkpoint" if applied is None else f"stands at checkpoint {applied}"
    message = f"sink {share.sink}, slot {share.slot}, {stands} and is asked to apply checkpoint {share.checkpoint_id}"
    return IdentityError(message, remedy="restore the database and the checkpoint location to the same moment")
