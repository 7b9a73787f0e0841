"""The driver-side half of the SQLite sink: one local transaction per checkpoint, rows and witness in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sqlalchemy import Connection, inspect

from connectors.sql.sqlite.apply import apply_segments
from connectors.sql.sqlite.database import Database
from connectors.sql.sqlite.log import Log, committable, is_sealed, open_log, segment_name, segment_of, while_committing
from connectors.sql.sqlite.ownership import Ownership
from connectors.sql.sqlite.tables import Slot, create_tables, has_tables, read_owner, tables_missing
from twophase import faults
from twophase.errors import IdentityError, TargetError
from twophase.ids import Scope, TransactionId, sink_key
from twophase.participants import Prepared
from twophase.values import CommitOutcome, Committable, SinkState
from wal.errors import SegmentError, WalError
from wal.segment import stat_segment


class SqliteCommitter:
    """See Committer. `inspect` or `claim` comes first: they tell whose checkpoints are committed.

    Permits are not needed: what an older epoch may still seal has a name that no decision mentions.
    """

    def __init__(self, name: str, pipeline: str, path: Path, table: str, log_folder: Path) -> None:
        self.name = name
        self._table = table
        self._database = Database(path)
        self._storage = open_log(log_folder)
        self._owner = Ownership(pipeline, name)

    def inspect(self, incarnation: str, expected: Sequence[Committable]) -> SinkState:
        """See Committer."""
        self._owner.incarnation = incarnation
        self._create_tables()
        asked = [each.transaction for each in expected]
        slot = Slot(incarnation, self.name)
        with self._database.writing() as connection:  # one moment for all three: nobody applies meanwhile
            owner = read_owner(connection, self._owner.pipeline, self.name)
            witness = slot.witness(connection)
            applied = slot.applied(connection, asked)
        return SinkState(
            claim_incarnation=owner.incarnation if owner else None,
            claim_epoch=owner.epoch if owner else 0,
            highest_witness=-1 if witness is None else witness,
            missing=tuple(each for each in asked if each not in applied),
        )

    def claim(self, incarnation: str, epoch: int, *, take_over: bool = False) -> None:
        """See Committer. Sweeps away what older epochs have begun to write, so that they can seal nothing of it."""
        self._create_tables()
        with self._database.writing() as connection:
            self._owner.claim(connection, incarnation, epoch, take_over=take_over)
        try:
            self._owner.sweep(self._storage)
        except WalError as error:
            raise while_committing(error) from error

    def permit(self, scope: Scope) -> None:
        """See Committer. The first permit of an incarnation starts the count of its checkpoints here."""
        with self._database.writing() as connection:
            self._owner.check_exactly(connection, scope.incarnation, scope.epoch)
            slot = Slot(scope.incarnation, self.name)
            if slot.witness(connection) is None:
                slot.seed(connection, scope.checkpoint_id - 1)

    def commit(self, checkpoint_id: int, committables: Sequence[Committable]) -> Sequence[CommitOutcome]:
        """See Committer. All of the checkpoint or nothing of it.

        Raises LostCommittableError for a damaged segment, BadRowError for a row that the table refuses, IdentityError
        if a checkpoint before this one is not applied, FencedError, SinkUnavailableError. None leaves a row behind.
        """
        incarnation = self._owner.incarnation_of(checkpoint_id, committables)
        try:
            with self._database.writing() as connection:
                self._owner.check(connection, incarnation)
                outcomes = self._apply(connection, Slot(incarnation, self.name), checkpoint_id, committables)
            faults.point("between-commits", checkpoint_id)
            if CommitOutcome.LOST not in outcomes:
                Log(self._storage, sink_key(self.name), incarnation).collect(checkpoint_id)
        except WalError as error:
            raise while_committing(error) from error
        return outcomes

    def _apply(
        self, connection: Connection, slot: Slot, checkpoint_id: int, committables: Sequence[Committable]
    ) -> Sequence[CommitOutcome]:
        """Under the write lock: "not applied" and "segment missing" are of one moment. Only then it is lost (R7)."""
        witness = slot.witness(connection)
        if witness is not None and witness >= checkpoint_id:
            return _already(connection, slot, checkpoint_id, committables)
        if witness is None and checkpoint_id == 0:
            slot.seed(connection, -1)
        missing = {each for each in map(segment_of, committables) if each and not is_sealed(self._storage, each)}
        if missing:
            lost, later = CommitOutcome.LOST, CommitOutcome.RETRY_LATER
            return [lost if segment_of(each) in missing else later for each in committables]
        if not slot.advance(connection, checkpoint_id):
            raise self._gap(checkpoint_id, witness)
        apply_segments(connection, self._storage, self._table, committables)
        slot.record(connection, committables)
        return [CommitOutcome.COMMITTED] * len(committables)

    def prepared(self, incarnation: str) -> Sequence[Prepared]:
        """See Committer. What is applied is deleted here if a crash has left it, and not listed."""
        log = Log(self._storage, sink_key(self.name), incarnation)
        with self._database.reading() as connection:
            witness = Slot(incarnation, self.name).witness(connection)
        applied = -1 if witness is None else witness
        try:
            log.collect(applied)
            foreign = [Prepared(None, f"{self._storage.describe()}/{name}") for name in log.foreign()]
            return [*(self._listed(name, each) for name, each in log.waiting(applied)), *foreign]
        except WalError as error:
            raise while_committing(error) from error

    def abort(self, prepared: Iterable[Prepared]) -> None:
        """See Committer. Raises FencedError for a newer epoch's, IdentityError for an applied one; deletes neither."""
        own = [each.transaction for each in prepared if each.transaction is not None]
        self._owner.check_older(own)
        try:
            with self._database.writing() as connection:  # nobody applies one of them meanwhile
                for transaction in own:
                    self._delete(connection, transaction)
            self._owner.sweep(self._storage)
        except WalError as error:
            raise while_committing(error) from error

    def revoke(self, scope: Scope) -> None:
        """See Committer. There are no permits."""

    def prune(self, incarnation: str, below: int) -> None:
        """See Committer. Of the segments only applied ones, whatever `below` says."""
        slot = Slot(incarnation, self.name)
        with self._database.writing() as connection:
            applied = slot.witness(connection)
            if applied is None:
                return
            slot.forget(connection, min(below, applied + 1))
        try:
            Log(self._storage, sink_key(self.name), incarnation).collect(min(below - 1, applied))
        except WalError as error:
            raise while_committing(error) from error

    def close(self) -> None:
        """See Committer. Nothing is held open."""

    def _create_tables(self) -> None:
        with self._database.reading() as connection:
            names = inspect(connection).get_table_names()
        if not has_tables(names):
            try:
                with self._database.writing() as connection:
                    create_tables(connection)
            except TargetError as error:
                raise tables_missing(names, error) from error

    def _delete(self, connection: Connection, transaction: TransactionId) -> None:
        name = segment_name(transaction)
        if Slot(transaction.scope.incarnation, self.name).applied(connection, [transaction]):
            message = f"sink {self.name} is asked to abort {transaction}, whose rows are in table {self._table}"
            raise IdentityError(message, remedy="head and this database are not of one moment: restore both together")
        self._storage.delete(name)
        self._storage.sweep(name)

    def _listed(self, name: str, transaction: TransactionId) -> Prepared:
        description = f"{self._storage.describe()}/{name}"
        try:
            return Prepared(transaction, description, committable(transaction, stat_segment(self._storage, name)))
        except SegmentError as error:  # to abort it, its name is enough; to commit it, the damage is met again
            return Prepared(transaction, f"{description} ({error.message})")

    def _gap(self, checkpoint_id: int, witness: int | None) -> IdentityError:
        stands = "knows of no checkpoint" if witness is None else f"stands at checkpoint {witness}"
        message = f"sink {self.name} {stands} and is asked to apply checkpoint {checkpoint_id}"
        return IdentityError(message, remedy="restore the database and the checkpoint location to the same moment")


def _already(
    connection: Connection, slot: Slot, checkpoint_id: int, committables: Sequence[Committable]
) -> Sequence[CommitOutcome]:
    """The checkpoint is applied; with these very transactions, as far as the history still tells."""
    if not slot.has_history(connection, checkpoint_id):
        return [CommitOutcome.ALREADY_COMMITTED] * len(committables)
    applied = slot.applied(connection, [each.transaction for each in committables])
    already, lost = CommitOutcome.ALREADY_COMMITTED, CommitOutcome.LOST
    return [already if each.transaction in applied else lost for each in committables]
