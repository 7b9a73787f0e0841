"""A sink's segments in the write-ahead log: their names, and what committables say of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eos.errors import (
    ConnectorError,
    IdentityError,
    LostCommittableError,
    PrepareError,
    SinkUnavailableError,
    TargetError,
)
from twophase.ids import TransactionId
from twophase.values import Committable
from wal.address import ObjectAddress
from wal.errors import (
    SegmentError,
    SegmentFormatError,
    SegmentMissingError,
    StorageError,
    StorageRefusedError,
    WalError,
)
from wal.local import LocalStorage
from wal.segment import SegmentRef, stat_segment
from wal.storage import Storage

_SUFFIX: Final = ".segment"
_SLOTS: Final = "slots"


def segment_name(transaction: TransactionId) -> str:
    """The full transaction id, as a file can be named: nobody else ever writes under it (H8). In a folder of the life
    and the sink, so that each sink lists its own alone, however many share the log."""
    folder = folder_of(transaction.scope.incarnation, transaction.sink)
    return f"{folder}/{str(transaction).replace('/', '.')}{_SUFFIX}"


def transaction_of(name: str) -> TransactionId | None:
    """The transaction that `segment_name` named, in whatever folder, or None for a foreign name."""
    entry = name.rpartition("/")[2]
    if not entry.endswith(_SUFFIX):
        return None
    return TransactionId.parse(entry.removesuffix(_SUFFIX).replace(".", "/"))


def folder_of(incarnation: str, sink: str) -> str:
    """Where the segments of one life of a pipeline lie, of one sink: sink_key(name)."""
    return f"{incarnation}/{sink}"


def committable(transaction: TransactionId, slots: int, rows: int, ref: SegmentRef | None) -> Committable:
    """What a writer acknowledges with: enough for any process to find the rows, to know them, and to share them out.

    `slots`: of the sink, as its writers knew it. `rows`: that the writer was given; the segment may hold fewer. `ref`:
    None for a writer that had no rows.
    """
    data = {_SLOTS: str(slots)}
    if ref is None:
        return Committable(transaction, rows=rows, data=data)
    data |= {"segment": ref.name, "rows": str(ref.rows), "sha256": ref.sha256}
    return Committable(transaction, rows=rows, bytes=ref.bytes, data=data)


def is_of_log(each: Committable) -> bool:
    """Whether it was made by `committable`: another commit variant can do nothing with it."""
    return _SLOTS in each.data


def segment_of(each: Committable) -> SegmentRef | None:
    """The segment that a committable names; None for a writer that had no rows."""
    if "segment" not in each.data:
        return None
    return SegmentRef(each.data["segment"], int(each.data["rows"]), each.bytes, each.data["sha256"])


def slots_of(committables: Sequence[Committable]) -> int | None:
    """How many slots apply these committables of one checkpoint: what their writers were told; None where are none.

    Raises IdentityError for what another commit variant has prepared.
    """
    found = {each.data.get(_SLOTS) for each in committables}
    if not found:
        return None
    (slots, *others) = found
    if slots is None or others:
        transaction = committables[0].transaction
        message = f"{transaction} was not prepared for the write-ahead log as it is now configured"
        raise IdentityError(message, remedy="set the sink's `commit` back as it was, and run once until caught up")
    return int(slots)


def by_slot(committables: Sequence[Committable], slots: int) -> list[list[Committable]]:
    """What each slot applies. All rows of one task are of one slot, so that what shares a key stays together."""
    return [[each for each in committables if each.transaction.task % slots == slot] for slot in range(slots)]


def is_sealed(storage: Storage, ref: SegmentRef) -> bool:
    """Whether the segment exists. Raises SegmentDamagedError if it does and its footer is not whole."""
    try:
        stat_segment(storage, ref.name)
    except SegmentMissingError:
        return False
    return True


def open_log(at: Path | ObjectAddress) -> Storage:
    """The storage of a sink. Raises TargetError for a network filesystem, and for wrong options of an object store."""
    try:
        if isinstance(at, ObjectAddress):
            from wal.object import ObjectStorage  # loads obstore

            return ObjectStorage(at)
        return LocalStorage(at)
    except WalError as error:
        raise TargetError(error.message, remedy=error.remedy) from error


def while_preparing(error: WalError) -> ConnectorError:
    """A task's view: its checkpoint is aborted and run again, unless the storage would refuse the next try as well."""
    if isinstance(error, StorageRefusedError):
        return TargetError(f"the write-ahead log did not take the rows: {error.message}", remedy=error.remedy)
    return PrepareError(f"the write-ahead log did not take the rows: {error.message}", remedy=error.remedy)


def while_committing(error: WalError) -> ConnectorError:
    """The driver's view: the rows are decided, so that either the storage comes back or they are lost."""
    if isinstance(error, StorageRefusedError):
        return TargetError(f"the write-ahead log cannot be used: {error.message}", remedy=error.remedy)
    if isinstance(error, StorageError):
        return SinkUnavailableError(f"the write-ahead log cannot be used: {error.message}", remedy=error.remedy)
    if isinstance(error, SegmentError) and not isinstance(error, SegmentFormatError):
        message = f"rows of a completed checkpoint are lost: {error.message}"
        remedy = f"{error.remedy}; or write its rows again from the source with `eos repair SPEC`"
        return LostCommittableError(message, remedy=remedy)
    return TargetError(error.message, remedy=error.remedy)
