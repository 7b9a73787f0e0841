"""The load of a round of change events: a table that it changes at random, and Debezium's events of the changes."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any, Final, Literal, NamedTuple

from integration_tests.chaos.load import BROKEN_EVERY, Load

Keys = Literal["in place", "moving"]
"""Whether all events of a key are in one partition, or its partition changes."""

_KEYS: Final = 250
"""Of each partition."""

_UPDATES, _DELETIONS = 0.65, 0.25
"""Parts of the changes of a row. The others change its key."""

_MOVES: Final = 0.2
"""Part of the events before which their key gets another partition, where keys move."""

_FIRST_FILE: Final = 999_997
"""Number of the first file of the log: a later one has a digit more."""

_EVENTS_OF_A_FILE: Final = 2_000
_TS_MS: Final = 1_800_000_000_000


class Row(NamedTuple):
    """A row of the table. `id`: number of the event that wrote it; `n`: events of the key before this one."""

    id: int
    k: int
    n: int
    previous: int  # `id` of the row before it of its key; -1 for the first


class ChangeLoad(Load):
    """Produces until it is stopped: events of inserts, updates, deletions with tombstones, and changes of keys.

    `rows` is the table, and `positions` has the place of the newest event of each key in the log, also of deleted ones.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        records_per_s: float,
        *,
        keys: Keys,
        seed: int,
        breaks: bool = False,
    ) -> None:
        super().__init__(bootstrap, topic, partitions, records_per_s, breaks=breaks)
        self.rows: dict[int, Row] = {}
        self.positions: dict[int, str] = {}
        self.changes: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self.has_marks = keys == "moving"
        self._partitions = partitions
        self._partition_of = [partition for _ in range(_KEYS) for partition in range(partitions)]  # by key
        self._numbers = [0] * len(self._partition_of)
        self._newest = [-1] * len(self._partition_of)  # id of the newest row, by key

    def grow(self, partition: int) -> None:
        """Give a new partition keys of its own. Where keys move, other keys move there, too."""
        self._numbers += [0] * _KEYS
        self._newest += [-1] * _KEYS
        self._partitions = partition + 1
        self._partition_of += [partition] * _KEYS  # the last one: the other thread chooses a key by its length

    def _send(self) -> None:
        if self._breaks and self.produced % BROKEN_EVERY == 0:
            self.changes["broken"] += 1
            self._send_broken(self._chance.randrange(self._partitions))
        key = self._chance.randrange(len(self._partition_of))
        kind = self._chance.random()
        if key not in self.rows:
            self._write(key, "inserted")
        elif kind < _UPDATES:
            self._write(key, "updated")
        else:
            self._delete_row(key)
            if kind >= _UPDATES + _DELETIONS:
                other = self._chance.randrange(len(self._partition_of))
                self._write(other, "updated" if other in self.rows else "inserted")

    def _write(self, key: int, kind: str) -> None:
        before = self.rows.get(key)
        row = Row(self.produced, key, self._numbers[key], self._newest[key])
        self._newest[key] = row.id
        self.rows[key] = row
        self._send_event(row.id, key, {"op": "u" if before else "c", "before": _image(before), "after": _image(row)})
        self.changes[kind] += 1

    def _delete_row(self, key: int) -> None:
        before = self.rows.pop(key)
        self._send_event(number_of_deletion(before.id), key, {"op": "d", "before": _image(before), "after": None})
        self._send_record(self.produced, self._partition_of[key], None, _key(key))
        self.changes["deleted"] += 1

    def _send_event(self, number: int, key: int, event: dict[str, Any]) -> None:
        if self.has_marks and self._chance.random() < _MOVES:
            before, after = self._partition_of[key], self._chance.randrange(self._partitions)
            self._partition_of[key] = after
            self.changes["moved"] += before != after
        file, place = divmod(self.changes["events"], _EVENTS_OF_A_FILE)
        file, place = _FIRST_FILE + file, 4 + 100 * place
        self.positions[key] = f"{file:020}:{place:020}:{0:020}"
        source = {"connector": "mysql", "ts_ms": _TS_MS, "file": f"binlog.{file:06}", "pos": place, "row": 0}
        value = json.dumps({**event, "source": source, "ts_ms": _TS_MS}).encode()
        self._numbers[key] += 1
        self._send_record(number, self._partition_of[key], value, _key(key))
        self.changes["events"] += 1


def number_of_deletion(row_id: int) -> int:
    """Return the number of the event that deletes a row. Each row is deleted once at most."""
    return -1 - row_id


def _image(row: Row | None) -> dict[str, int] | None:
    return None if row is None else row._asdict()


def _key(key: int) -> bytes:
    return json.dumps({"k": key}).encode()
