"""Change events of a table, in numbers: which row each event is about, and the rows that remain at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.bench.topic import AMOUNTS, PARTITIONS

CREATED, UPDATED, DELETED = 0, 1, 2
OPERATIONS: Final = "cud"
BLOCK: Final = 20
"""Events of one partition in a row: 16 creations, 3 updates, and a deletion before the last creation."""
_UPDATES: Final = (5, 10, 15)
_DELETION: Final = 18
_PER_BLOCK: Final = BLOCK - len(_UPDATES) - 1
_DELETED_OF_BLOCK: Final = 2
"""The first two rows that a block creates are deleted, by the blocks 2 n and 2 n + 1 for block n."""
_SEED: Final = 24

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Changes:
    """Events in the order in which they are produced. Event n is in partition n % PARTITIONS, as its key is."""

    operations: Numbers  # CREATED, UPDATED or DELETED
    ids: Numbers
    before: Numbers  # the row's amount before, without the quarter; -1 for a creation
    after: Numbers  # and afterwards; -1 for a deletion

    def remaining(self) -> tuple[Numbers, Numbers]:
        """Return ids and amounts of the rows that exist after the last event, in the order of the ids."""
        ids, newest = np.unique(self.ids[::-1], return_index=True)
        amounts = self.after[::-1][newest]
        exists = amounts >= 0
        return ids[exists], amounts[exists]


def changes(count: int) -> Changes:
    """Return the events of a run. The same count gives the same events; the last event of a partition is a creation."""
    events = np.arange(count, dtype=np.int64)
    partitions, turns = events % PARTITIONS, events // PARTITIONS
    blocks, slots = turns // BLOCK, turns % BLOCK
    operations = np.full(count, CREATED, np.int64)
    operations[np.isin(slots, _UPDATES)] = UPDATED
    operations[slots == _DELETION] = DELETED
    operations[-PARTITIONS:] = CREATED
    created_before = blocks * _PER_BLOCK + np.select(
        [slots > slot for slot in (_DELETION, *reversed(_UPDATES))],
        [slots - taken for taken in (len(_UPDATES) + 1, *range(len(_UPDATES), 0, -1))],
        slots,
    )
    rows = np.select(
        [operations == UPDATED, operations == DELETED],
        [_updated(blocks, created_before), _deleted(blocks)],
        created_before,
    )
    ids = rows * PARTITIONS + partitions
    amounts = events % AMOUNTS
    after = np.where(operations == DELETED, -1, amounts)
    return Changes(operations, ids, _before(ids, after), after)


def _deleted(blocks: Numbers) -> Numbers:
    return blocks // _DELETED_OF_BLOCK * _PER_BLOCK + blocks % _DELETED_OF_BLOCK


def _updated(blocks: Numbers, created: Numbers) -> Numbers:
    """Choose any row that exists. One that is already deleted is replaced by a row that is never deleted."""
    chosen = np.random.default_rng(_SEED).integers(0, created.clip(1))
    place = chosen % _PER_BLOCK
    deleted_in = chosen // _PER_BLOCK * _DELETED_OF_BLOCK + place
    gone = (place < _DELETED_OF_BLOCK) & (deleted_in < blocks)
    return chosen + np.where(gone, _DELETED_OF_BLOCK, 0)


def _before(ids: Numbers, after: Numbers) -> Numbers:
    """Find the amount that the event before of the same row has written, or -1."""
    order = np.argsort(ids, kind="stable")
    previous = np.full(len(ids), -1, np.int64)
    same = ids[order][1:] == ids[order][:-1]
    previous[order[1:][same]] = after[order[:-1][same]]
    return previous
