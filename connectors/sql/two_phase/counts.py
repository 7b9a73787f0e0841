"""How many checkpoints a sink shows, counted in `eos_slot` (H26): compared wherever something could be lost by it.

A server that is replaced by an older copy of itself (a replica that lagged, a backup) cannot be told from its
successor by anything that a statement answers; but it counts less. Each function here runs on the connection that is
then used for what must not happen on such a copy: a server does not go back under a connection that stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from connectors.owner import Owner
from connectors.sql import claims, tables
from connectors.sql.slots import begin_slots, check_count, hold_slot, move_slot
from connectors.sql.statements import Connected, in_transaction
from eos.errors import SetBackError
from twophase.ids import sink_key
from twophase.values import Committable

_SLOT: Final = 0  # the only one


def begin_count(server: Connected, pipeline: str, sink: str, owner: Owner, begins: int, known: int) -> None:
    """Have the sink count in slot 0 alone, from `begins` on where it has no count; then compare as `check_count` does.

    A sink that had a log before has a slot for each of its connections. Raises FencedError, SetBackError,
    StatementError.
    """
    key = sink_key(sink)
    with in_transaction(server):
        claims.hold_claim(server, pipeline, sink, owner)
        found = begin_slots(server, owner.incarnation, key, 1, begins)
        if found.keys() != {_SLOT}:
            server.execute("DELETE FROM eos_slot WHERE incarnation = %s AND sink = %s", owner.incarnation, key)
            begin_slots(server, owner.incarnation, key, 1, min(found.values()))
    check_count(server, owner.incarnation, sink, known)


def count(
    server: Connected, incarnation: str, sink: str, checkpoint_id: int, committed: Sequence[Committable], known: int
) -> None:
    """Move the count to this checkpoint, all of whose `committed` transactions the sink shows. Idempotent.

    `known`: what the sink has counted for certain. Raises SetBackError where one is not shown, or the sink counts less
    than that; StatementError.
    """
    key = sink_key(sink)
    with in_transaction(server):
        found = hold_slot(server, incarnation, key, _SLOT)
        if found is None:  # an earlier version claimed the sink last: the next claim begins to count
            return
        shown = tables.shown(server, committed)
        if found < known or any(each.transaction not in shown for each in committed):
            raise SetBackError.of(sink, min(found, checkpoint_id - 1), checkpoint_id)
        if found < checkpoint_id:
            move_slot(server, incarnation, key, _SLOT, checkpoint_id)
