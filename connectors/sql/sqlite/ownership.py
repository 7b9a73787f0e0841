"""Whose sink it is, as this driver believes and as the claim row says (R2, R3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from connectors.sql.sqlite.log import Log
from connectors.sql.sqlite.tables import Owner, read_owner, write_owner
from twophase.errors import FencedError, IdentityError
from twophase.ids import TransactionId, sink_key
from twophase.values import Committable
from wal.storage import Storage

_FENCED = "another driver of this pipeline has started since; stop one of them"


class Ownership:
    """What this driver knows of itself: its incarnation from the first look on, its epoch from the claim on."""

    def __init__(self, pipeline: str, sink: str) -> None:
        self.pipeline = pipeline
        self.sink = sink
        self.incarnation: str | None = None
        self._epoch: int | None = None

    def claim(self, connection: Connection, incarnation: str, epoch: int, *, take_over: bool) -> None:
        """Raise the claim row. Raises FencedError, and IdentityError for another incarnation without `take_over`."""
        found = read_owner(connection, self.pipeline, self.sink)
        if found is not None and found.incarnation != incarnation and not take_over:
            message = f"sink {self.sink} is claimed by incarnation {found.incarnation}, this pipeline is {incarnation}"
            raise IdentityError(message, remedy="run it from the checkpoint location it had, or use `eos reset`")
        if found is not None and found.incarnation == incarnation and found.epoch > epoch:
            raise self._fenced(found, Owner(incarnation, epoch))
        write_owner(connection, self.pipeline, self.sink, Owner(incarnation, epoch))
        self.incarnation, self._epoch = incarnation, epoch

    def check_exactly(self, connection: Connection, incarnation: str, epoch: int) -> None:
        """Raise FencedError unless the claim row is this one (R5)."""
        found, wanted = read_owner(connection, self.pipeline, self.sink), Owner(incarnation, epoch)
        if found != wanted:
            raise self._fenced(found, wanted)

    def check(self, connection: Connection, incarnation: str) -> None:
        """Raise FencedError unless a checkpoint of this incarnation may be applied.

        Recovery commits before it claims (R3), so that any epoch of the incarnation will do then: what is decided stays
        decided, and the witness lets it through once only.
        """
        found = read_owner(connection, self.pipeline, self.sink)
        if found is None or found.incarnation != incarnation or self._epoch not in (None, found.epoch):
            raise self._fenced(found, Owner(incarnation, self._epoch or 0))

    def check_older(self, transactions: Iterable[TransactionId]) -> None:
        """Raise FencedError if one of them is of a newer epoch than this driver's: that one is not ours to abort."""
        for each in transactions:
            if self._epoch is not None and each.scope.epoch > self._epoch:
                message = f"fenced: {each} at sink {self.sink} is of a newer epoch than this driver's, {self._epoch}"
                raise FencedError(message, remedy=_FENCED)

    def sweep(self, storage: Storage) -> None:
        """Remove what writers of older epochs have begun: they can seal nothing of it any more."""
        if self.incarnation is not None and self._epoch is not None:
            Log(storage, sink_key(self.sink), self.incarnation).sweep(self._epoch)

    def incarnation_of(self, checkpoint_id: int, committables: Sequence[Committable]) -> str:
        """The incarnation whose checkpoint is to be committed. Raises IdentityError if they do not belong together."""
        incarnation = self.incarnation or next((each.transaction.scope.incarnation for each in committables), None)
        if incarnation is None:
            message = f"checkpoint {checkpoint_id} of sink {self.sink}: it is not known of which incarnation it is"
            raise IdentityError(message, remedy="inspect or claim the sink before a checkpoint is committed")
        for each in committables:
            scope = each.transaction.scope
            wanted = (incarnation, checkpoint_id, sink_key(self.sink))
            if (scope.incarnation, scope.checkpoint_id, each.transaction.sink) != wanted:
                message = f"{each.transaction} is not of checkpoint {checkpoint_id} of sink {self.sink}, {incarnation}"
                raise IdentityError(message, remedy="this checkpoint's record is damaged: restore it from a backup")
        return incarnation

    def _fenced(self, found: Owner | None, wanted: Owner) -> FencedError:
        owner = f"incarnation {found.incarnation}, epoch {found.epoch}" if found else "nobody"
        message = f"fenced: sink {self.sink} is owned by {owner}; this is {wanted.incarnation}, epoch {wanted.epoch}"
        return FencedError(message, remedy=_FENCED)
