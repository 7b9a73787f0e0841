"""A sink's segments in the write-ahead log: their names, their committables, and an index of what a storage holds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
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
from wal.stores import open_storage

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
            return open_storage(at)
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


@dataclass(frozen=True, slots=True)
class SegmentIndex:
    """The segments of one sink and one incarnation in a storage that others may share."""

    storage: Storage
    sink: str  # sink_key(name)
    incarnation: str
    everywhere: bool = False
    """Also in no folder, where all sinks of earlier versions wrote: a start looks there, a checkpoint does not."""

    def prepare(self) -> None:
        """Make its folder, before any writer does."""
        self.storage.prepare(folder_of(self.incarnation, self.sink))

    def sealed(self) -> Iterator[tuple[str, TransactionId]]:
        """Segments that are whole, by name."""
        for name in self._listed(self.storage.names):
            transaction = self._own(name)
            if transaction is not None:
                yield name, transaction

    def foreign(self) -> Iterator[str]:
        """Names that no sink of ours wrote."""
        return (name for name in self._listed(self.storage.names) if transaction_of(name) is None)

    def collect(self, applied: int) -> None:
        """Delete what can never be asked for again: segments, finished or not, of checkpoints up to `applied`.

        Of those that were not applied, the writer lost against a sibling of the same checkpoint (H1).
        """
        for name in self._listed(self.storage.names):
            if self._is_up_to(name, applied):
                self.storage.delete(name)
        unfinished = self._listed(self.storage.unfinished)
        self.storage.sweep([name for name in unfinished if self._is_up_to(name, applied)])

    def sweep(self, epoch: int) -> None:
        """Remove what writers of epochs below `epoch` have begun: they can seal nothing of it any more."""
        own = ((name, self._own(name)) for name in self._listed(self.storage.unfinished))
        self.storage.sweep([name for name, each in own if each is not None and each.scope.epoch < epoch])

    def delete(self, transactions: Collection[TransactionId]) -> None:
        """Delete the segments of these, finished or not, whichever version wrote them."""
        given_up = frozenset(transactions)
        earlier = [name for listed in (self.storage.names, self.storage.unfinished) for name in listed("")]
        names = [*map(segment_name, given_up), *(name for name in earlier if self._own(name) in given_up)]
        for name in names:
            self.storage.delete(name)
        self.storage.sweep(names)

    def _listed(self, names: Callable[[str], Sequence[str]]) -> Iterator[str]:
        for folder in (folder_of(self.incarnation, self.sink), *([""] if self.everywhere else [])):
            yield from names(folder)

    def _own(self, name: str) -> TransactionId | None:
        transaction = transaction_of(name)
        if transaction is None or transaction.sink != self.sink or transaction.scope.incarnation != self.incarnation:
            return None
        return transaction

    def _is_up_to(self, name: str, checkpoint_id: int) -> bool:
        transaction = self._own(name)
        return transaction is not None and transaction.scope.checkpoint_id <= checkpoint_id
