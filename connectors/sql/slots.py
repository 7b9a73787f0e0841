"""`eos_slot`: how many checkpoints each slot of a sink has committed. A row moves from one checkpoint to the next.

With a log a row moves in the transaction of the rows, which makes a replay harmless: a process that comes second finds
the row moved. With two-phase commit a sink has slot 0 alone, which moves once everything of a checkpoint is visible.
In both variants a sink that went back in time shows it here (H26).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import BigInteger, Integer

from connectors.owner import check_counted
from connectors.sql import tables
from connectors.sql.statements import Connected
from eos.errors import IdentityError
from twophase.ids import sink_key

SLOT: Final = tables.table(
    "eos_slot",
    tables.column("incarnation", tables.INCARNATION),
    tables.column("sink", tables.SINK),
    tables.column("slot", Integer),
    tables.column("checkpoint_id", BigInteger, key=False),  # every one up to this is applied; never goes back
)
LOG_TABLES: Final = (tables.CLAIM, SLOT, tables.WITNESS)
"""What a log keeps in the database."""

_KEY: Final = "incarnation = %s AND sink = %s AND slot = %s"


def read_slots(server: Connected, incarnation: str, sink: str) -> Mapping[int, int]:
    """The newest applied checkpoint by slot. Raises StatementError."""
    statement = "SELECT slot, checkpoint_id FROM eos_slot WHERE incarnation = %s AND sink = %s"
    return {int(slot): int(checkpoint_id) for slot, checkpoint_id in server.execute(statement, incarnation, sink)}


def read_count(server: Connected, incarnation: str, sink: str) -> int | None:
    """Return the newest checkpoint that the sink counts; None where it has no count. Raises StatementError."""
    return min(read_slots(server, incarnation, sink_key(sink)).values(), default=None)


def check_count(server: Connected, incarnation: str, sink: str, known: int) -> None:
    """Raise SetBackError where the sink counts less than what is known; StatementError."""
    if known >= 0:
        check_counted(sink, read_count(server, incarnation, sink), known)


def hold_slot(server: Connected, incarnation: str, sink: str, slot: int) -> int | None:
    """The newest applied checkpoint; the row stays locked for the rest of the transaction. None: there is none.

    Raises StatementError, `lock_wait` while somebody else is applying.
    """
    statement = f"SELECT checkpoint_id FROM eos_slot WHERE {_KEY} {server.for_update}"
    rows = server.execute(statement, incarnation, sink, slot)
    return int(rows[0][0]) if rows else None


def find_forgotten(server: Connected, incarnation: str, sink: str, checkpoint_id: int) -> int | None:
    """The count of a sink which lacks the slot that is asked for, and counts this checkpoint; None: it does not.

    `share_out` has forgotten the slot since the checkpoint was applied. Head may not call that committed, since another
    sink is away (H32). Raises StatementError.
    """
    found = read_count(server, incarnation, sink)
    return found if found is not None and found >= checkpoint_id else None


def move_slot(server: Connected, incarnation: str, sink: str, slot: int, checkpoint_id: int) -> None:
    """Say of a slot that is held that it is at this checkpoint now. Raises StatementError."""
    server.execute(f"UPDATE eos_slot SET checkpoint_id = %s WHERE {_KEY}", checkpoint_id, incarnation, sink, slot)


def begin_slots(server: Connected, incarnation: str, sink: str, slots: int, checkpoint_id: int) -> Mapping[int, int]:
    """Return the slots of the incarnation. A sink that has none begins: every checkpoint up to this one is committed.

    Inside a transaction that holds the claim row, so that no other process begins. Raises StatementError.
    """
    if found := read_slots(server, incarnation, sink):
        return found
    for slot in range(slots):
        server.execute(tables.inserting(SLOT), incarnation, sink, slot, checkpoint_id)
    return dict.fromkeys(range(slots), checkpoint_id)


def raise_slots(server: Connected, incarnation: str, sink: str, checkpoint_id: int) -> None:
    """Have no slot stand before this checkpoint. Raises StatementError."""
    statement = "UPDATE eos_slot SET checkpoint_id = %s WHERE incarnation = %s AND sink = %s AND checkpoint_id < %s"
    server.execute(statement, checkpoint_id, incarnation, sink, checkpoint_id)


def share_out(server: Connected, incarnation: str, sink: str, slots: int, checkpoint_id: int) -> None:
    """Have `slots` slots, with every checkpoint up to this one applied. Inside a transaction. Raises StatementError.

    New slots begin here. Those that nobody uses any more are forgotten, so that whoever still wants to apply there
    finds nothing to go on from, and they would be new if they came back.

    Raises IdentityError for a slot that is elsewhere: now, while the checkpoint can still be aborted.
    """
    for slot in range(slots):
        applied = hold_slot(server, incarnation, sink, slot)
        if applied is None:
            server.execute(tables.inserting(SLOT), incarnation, sink, slot, checkpoint_id)
        elif applied != checkpoint_id:
            message = f"slot {slot} stands at checkpoint {applied}, and everything up to {checkpoint_id} was committed"
            raise IdentityError(message, remedy="restore the database and the checkpoint location to the same moment")
    server.execute("DELETE FROM eos_slot WHERE incarnation = %s AND sink = %s AND slot >= %s", incarnation, sink, slots)
