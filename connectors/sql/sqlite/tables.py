"""The protocol's own tables in the sink's SQLite file, and every statement on them, in the caller's transaction.

| table | a row says |
| --- | --- |
| `eos_claim` | this incarnation and epoch own the sink under this pipeline's name (R2, R3) |
| `eos_witness` | every checkpoint of this incarnation up to this one is applied; moves by one, with the rows |
| `eos_applied` | this transaction was applied with that checkpoint; kept while the checkpoint is retained |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Integer,
    MetaData,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable

from twophase.errors import TargetError
from twophase.ids import TransactionId
from twophase.values import Committable

SLOT: Final = 0
"""One applier for the whole sink as yet; the column is there so that more need no other table."""

_metadata: Final = MetaData()
_claim: Final = Table(
    "eos_claim",
    _metadata,
    Column("pipeline", Text, primary_key=True),
    Column("sink", Text, primary_key=True),
    Column("incarnation", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
)
_witness: Final = Table(
    "eos_witness",
    _metadata,
    Column("incarnation", Text, primary_key=True),
    Column("sink", Text, primary_key=True),
    Column("slot", Integer, primary_key=True),
    Column("checkpoint_id", Integer, nullable=False),
)
_applied: Final = Table(
    "eos_applied",
    _metadata,
    Column("incarnation", Text, primary_key=True),
    Column("sink", Text, primary_key=True),
    Column("slot", Integer, primary_key=True),
    Column("checkpoint_id", Integer, primary_key=True),
    Column("transaction_id", Text, primary_key=True),
    Column("rows", Integer, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns a sink."""

    incarnation: str
    epoch: int


def create_tables(connection: Connection) -> None:
    """Create what is missing. Idempotent. Where that is forbidden, `definitions` is for an administrator."""
    for table in _metadata.sorted_tables:
        connection.execute(CreateTable(table, if_not_exists=True))


def has_tables(names: Sequence[str]) -> bool:
    """Whether all of them are among `names`, the tables of the database."""
    return set(_metadata.tables) <= set(names)


def definitions() -> str:
    """The tables' DDL."""
    dialect = sqlite.dialect()
    tables = _metadata.sorted_tables
    creates = (str(CreateTable(table, if_not_exists=True).compile(dialect=dialect)) for table in tables)
    return ";\n".join(" ".join(create.split()) for create in creates) + ";"


def tables_missing(names: Sequence[str], why: TargetError) -> TargetError:
    """The error when the tables are missing and may not be created."""
    missing = sorted(set(_metadata.tables) - set(names))
    message = f"the tables {', '.join(missing)} are missing and cannot be created: {why.message}"
    return TargetError(message, remedy=f"have an administrator create them:\n{definitions()}")


def read_owner(connection: Connection, pipeline: str, sink: str) -> Owner | None:
    """The claim row."""
    row = connection.execute(
        select(_claim.c.incarnation, _claim.c.epoch).where(_claim.c.pipeline == pipeline, _claim.c.sink == sink)
    ).one_or_none()
    return Owner(*row) if row is not None else None


def write_owner(connection: Connection, pipeline: str, sink: str, owner: Owner) -> None:
    """Set the claim row."""
    connection.execute(delete(_claim).where(_claim.c.pipeline == pipeline, _claim.c.sink == sink))
    values = {"pipeline": pipeline, "sink": sink, "incarnation": owner.incarnation, "epoch": owner.epoch}
    connection.execute(insert(_claim).values(values))


@dataclass(frozen=True, slots=True)
class Slot:
    """The witness and the history of one slot of one sink, under one incarnation."""

    incarnation: str
    sink: str

    def witness(self, connection: Connection) -> int | None:
        """The newest applied checkpoint; None where no checkpoint was ever permitted here."""
        chosen = select(_witness.c.checkpoint_id).where(*self._is(_witness))
        found: int | None = connection.execute(chosen).scalar_one_or_none()
        return found

    def seed(self, connection: Connection, checkpoint_id: int) -> None:
        """Begin the count: everything up to `checkpoint_id` is taken for applied."""
        connection.execute(insert(_witness).values(**self._key(), checkpoint_id=checkpoint_id))

    def advance(self, connection: Connection, checkpoint_id: int) -> bool:
        """Move the witness from `checkpoint_id - 1` to `checkpoint_id`; False if it stands elsewhere."""
        moved = connection.execute(
            update(_witness)
            .where(*self._is(_witness), _witness.c.checkpoint_id == checkpoint_id - 1)
            .values(checkpoint_id=checkpoint_id)
        )
        return moved.rowcount == 1

    def record(self, connection: Connection, committables: Sequence[Committable]) -> None:
        """Remember which transactions were applied."""
        for each in committables:
            values = {"checkpoint_id": each.transaction.scope.checkpoint_id, "transaction_id": str(each.transaction)}
            connection.execute(insert(_applied).values(**self._key(), **values, rows=each.rows))

    def applied(self, connection: Connection, transactions: Sequence[TransactionId]) -> set[TransactionId]:
        """Those of `transactions` that the history holds."""
        checkpoints = {each.scope.checkpoint_id for each in transactions}
        chosen = select(_applied.c.transaction_id).where(
            *self._is(_applied), _applied.c.checkpoint_id.in_(sorted(checkpoints))
        )
        found = set(connection.execute(chosen).scalars())
        return {each for each in transactions if str(each) in found}

    def has_history(self, connection: Connection, checkpoint_id: int) -> bool:
        """Whether any transaction of this checkpoint is remembered."""
        chosen = select(func.count()).where(*self._is(_applied), _applied.c.checkpoint_id == checkpoint_id)
        return connection.execute(chosen).scalar_one() > 0

    def forget(self, connection: Connection, below: int) -> None:
        """Drop the history of checkpoints below `below`. The witness itself stays for ever."""
        connection.execute(delete(_applied).where(*self._is(_applied), _applied.c.checkpoint_id < below))

    def _key(self) -> dict[str, str | int]:
        return {"incarnation": self.incarnation, "sink": self.sink, "slot": SLOT}

    def _is(self, table: Table) -> tuple[ColumnElement[bool], ...]:
        return tuple(table.c[name] == value for name, value in self._key().items())
