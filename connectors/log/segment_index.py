"""Segments of one sink in its log: those that wait, foreign ones, and those that can be deleted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from connectors.log.segments import folder_of, segment_name, transaction_of
from twophase.ids import TransactionId
from wal.storage import Storage


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
