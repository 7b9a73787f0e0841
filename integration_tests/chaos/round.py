"""One round, from the first record to the verdict."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pandas as pd
from confluent_kafka import Consumer, TopicPartition

from connectors.kafka.splits import as_offset
from integration_tests.chaos import change_oracle, oracle
from integration_tests.chaos.arena import Arena, Stack, arena
from integration_tests.chaos.change_load import ChangeLoad
from integration_tests.chaos.load import Load
from integration_tests.chaos.log import TOPIC, VERDICTS
from integration_tests.chaos.nemesis import Done, attack
from integration_tests.chaos.oracle import Count
from integration_tests.chaos.plan import Round
from integration_tests.chaos.progress import ChaosError
from integration_tests.harness.drain import Record, drain

_CAUGHT_UP_S: Final = 300.0
_FEWEST: Final = 0.3
"""Of the records that the load would produce on an idle machine, so many must have been moved."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a round has shown."""

    fought: Round
    done: tuple[Done, ...]
    records: int
    duration_s: float
    exits: Mapping[int, int]  # of drivers, by code
    counts: Mapping[str, Count]  # by place: the topic, each sink
    left: tuple[str, ...]  # prepared, or in the log
    problem: str = ""  # that ended it early
    changes: Mapping[str, int] = field(default_factory=dict)  # of the table, by kind; where records are change events

    @property
    def is_exact(self) -> bool:
        """Nothing was lost, nothing came twice where it must not, nothing is left."""
        enough = [
            count.complete if self.fought.setup.may_repeat and place != TOPIC else count.exact
            for place, count in self.counts.items()
        ]
        return not self.problem and not self.left and all(enough)

    def facts(self) -> dict[str, Any]:
        """One line of the log."""
        faults = Counter(fault.kind for each in self.done for fault in each.faults)
        idle = Counter(fault.kind for each in self.done for fault in each.idle)
        return {
            "seed": self.fought.seed,
            "round": self.fought.number,
            "verdict": VERDICTS[self.fought.setup.may_repeat] if self.is_exact else "BROKEN",
            "setup": asdict(self.fought.setup),
            "records": self.records,
            "duration_s": round(self.duration_s, 1),
            "faults": dict(sorted(faults.items())),
            "without_effect": dict(sorted(idle.items())),
            "recoveries": [
                {"after": [fault.kind for fault in each.faults], "s": round(each.recovery_s, 2)}
                for each in self.done
                if each.faults
            ],
            "driver_exits": {str(code): count for code, count in sorted(self.exits.items())},
            "counts": {
                place: {name: getattr(count, name) for name in Count.__slots__} for place, count in self.counts.items()
            },
            "left": list(self.left),
            **({"changes": dict(sorted(self.changes.items()))} if self.changes else {}),
            **({"problem": self.problem} if self.problem else {}),
        }


def fight(stack: Stack, fought: Round, records_per_s: float, tell: Callable[[str], None]) -> Outcome:
    """Blocks for minutes. What the pipeline does wrong is in the outcome; raises where the servers cannot go on."""
    began_s = time.monotonic()
    done: list[Done] = []
    counts: dict[str, Count] = {}
    left: tuple[str, ...] = ()
    problem = ""
    with arena(stack, fought, records_per_s) as place:
        try:
            for each in attack(place, fought.faults, tell):
                done.append(each)
                tell(f"  recovered in {each.recovery_s:.1f} s; {_so_far(place)}")
                for fault in each.idle:
                    tell(f"  {fault.kind} {fault.target} was not seen to do anything, and does not count")
            moved_s = time.monotonic() - began_s
            place.load.end()
            _await_caught_up(place)
            if (code := place.supervised.finish()) != 0:
                problem = f"the last driver ended with {code}: see {place.supervised.current.log}"
            else:
                records = drain(place.stack.brokers.bootstrap, place.topic)
                topic = change_oracle.produced(records) if place.setup.changes else oracle.produced(records)
                counts, left = _counted(place, records, topic), tuple(place.left())
                columns = (place.evolution.problem_in(table, place.topic, topic) for table in place.tables.values())
                problem = next(filter(None, columns), "")
            problem = problem_of(place.supervised.surprises, place.load, moved_s * records_per_s) or problem
        except (ChaosError, AssertionError) as error:  # as a process says that it does not do what is asked of it
            problem = str(error)
        return Outcome(
            fought,
            tuple(done),
            place.load.produced,
            time.monotonic() - began_s,
            dict(place.supervised.exits),
            counts,
            left,
            problem,
            place.load.changes if isinstance(place.load, ChangeLoad) else {},
        )


def problem_of(surprises: Sequence[str], load: Load, expected: float) -> str:
    """Why a round tells nothing, however well its records came through; empty: it tells something.

    `expected`: records, of an idle machine.
    """
    if surprises:
        return "; ".join(surprises)
    if load.errors:
        return f"the load was not taken: {load.errors[:3]}"
    if load.produced < _FEWEST * expected:
        return f"only {load.produced:,} records were produced, where an idle machine takes {expected:,.0f}"
    return ""


def _so_far(place: Arena) -> str:
    head = place.head()
    committed = f"committed up to checkpoint {head.committed}" if head is not None else "head is away"
    return f"{place.load.produced:,} records; {committed}; epoch {head.epoch if head is not None else '?'}"


def _await_caught_up(place: Arena) -> None:
    """Until everything that is in the topic is committed everywhere."""
    deadline = time.monotonic() + _CAUGHT_UP_S
    ends = _ends(place.stack.brokers.bootstrap, place.topic, place.partitions)
    while True:
        head = place.head()
        if head is not None and head.committed == head.completed:
            at = head.positions.get("incoming", {})
            if all(as_offset(at.get(split, 0)) >= end for split, end in ends.items()):
                return
        if time.monotonic() > deadline:
            message = f"it has not caught up within {_CAUGHT_UP_S:g} s: see {place.folder}"
            raise ChaosError(message)
        time.sleep(0.1)


def _ends(bootstrap: str, topic: str, partitions: int) -> dict[str, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "chaos-ends"})
    try:
        found = {}
        for number in range(partitions):
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=60)
            found[f"{topic}/{number}"] = int(end)
        return found
    finally:
        consumer.close()


def _counted(place: Arena, records: Sequence[Record], topic: pd.DataFrame) -> dict[str, Count]:
    bootstrap, load, setup = place.stack.brokers.bootstrap, place.load, place.setup
    in_order = setup.changes != "moving"
    broken = [record for record in records if oracle.is_broken(record)]
    others = [record for record in records if record.value is None or oracle.is_broken(record)]
    counts = {TOPIC: oracle.of_source(topic, load.acknowledged, others, in_order=in_order)}
    for kind, table in place.tables.items():
        commit = setup.commits[kind]
        marks = ", _position, removed_at IS NOT NULL" if setup.changes == "moving" else ""
        rows = table.execute(f"SELECT id, k, n, previous{marks} FROM {table.name}")
        if isinstance(load, ChangeLoad):
            count = change_oracle.of_table(load, rows)
        else:
            judge = oracle.of_merged if commit == "upsert" else oracle.of_rows
            count = judge(topic, oracle.frame_of(rows))
        counts[f"{kind}, {commit}"] = count
    counts["kafka, write-ahead-log"] = oracle.of_messages(
        topic, drain(bootstrap, place.written), in_order=in_order and not setup.may_repeat
    )
    if setup.has_dead_letters:
        counts["dead letters"] = oracle.of_dead_letters(broken, drain(bootstrap, place.letters))
    return counts
