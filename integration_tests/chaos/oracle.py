"""Counts, when a round is over: what is in the sinks against what is in the topic, and what is left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from integration_tests.chaos.load import BROKEN, NUMBER
from integration_tests.harness.drain import Record

COLUMNS: Final = ("id", "k", "n", "previous")


@dataclass(slots=True)
class Count:
    """Of one sink, or of several: records by fate, as Jepsen's total-queue checker names them."""

    ok: int = 0
    lost: int = 0
    duplicated: int = 0  # surplus copies
    unexpected: int = 0  # rows that no record gives
    recovered: int = 0  # there, although the broker never said that it has them
    out_of_order: int = 0  # not after the one before it of its key
    examples: list[str] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        """Each once, in order, and nothing else."""
        return self.complete and not self.duplicated

    @property
    def complete(self) -> bool:
        """Each at least once, in order, and nothing else: all that is promised at-least-once."""
        return not (self.lost or self.unexpected or self.out_of_order)


def produced(records: Sequence[Record]) -> pd.DataFrame:
    """Return what decodes of the topic, with the `previous` that a row of it must have."""
    decoded = (record for record in records if not is_broken(record))
    rows = ((*(record.json[name] for name in COLUMNS[:3]), record.partition, record.offset) for record in decoded)
    frame = pd.DataFrame(rows, columns=[*COLUMNS[:3], "partition", "offset"], dtype="int64")
    frame = frame.sort_values(["partition", "offset"], ignore_index=True)
    frame["previous"] = frame.groupby("k")["id"].shift(1, fill_value=-1)
    return frame


def is_broken(record: Record) -> bool:
    """Whether the load made it so that it does not decode."""
    return record.value is not None and record.value.startswith(BROKEN)


def of_source(
    topic: pd.DataFrame, acknowledged: Iterable[int], others: Sequence[Record] = (), *, in_order: bool = True
) -> Count:
    """What the brokers have made of the load: they must not lose either. `others`: records that are no row.

    `in_order`: the records of a key must be in order, and in one partition.
    """
    known = set(acknowledged)
    there = pd.concat([topic["id"], pd.Series(map(_number, others), dtype="int64")], ignore_index=True)
    lost = sorted(known.difference(there))
    again = there[there.duplicated()]
    return Count(
        ok=len(there) - len(again),
        lost=len(lost),
        duplicated=len(again),
        recovered=len(set(there).difference(known)),
        out_of_order=_unordered(topic) if in_order else 0,
        examples=[f"not in the topic: {each}" for each in lost[:3]],
    )


def _number(record: Record) -> int:
    """Of a record that is no row."""
    if record.value is None:
        return int(record.headers[NUMBER] or b"")
    return int(record.value.removeprefix(BROKEN))


def of_rows(topic: pd.DataFrame, rows: pd.DataFrame) -> Count:
    """Of a sink that holds a row for each record, in any order."""
    twice = rows.duplicated(list(COLUMNS))
    joined = topic[list(COLUMNS)].merge(rows[~twice], on="id", how="outer", suffixes=("", "_found"), indicator=True)
    lost, foreign = joined[joined["_merge"] == "left_only"], joined[joined["_merge"] == "right_only"]
    both = joined[joined["_merge"] == "both"]
    broken = both[both["previous"] != both["previous_found"]]
    strange = both[(both["k"] != both["k_found"]) | (both["n"] != both["n_found"])]
    wrong = {"lost": lost, "twice": rows[twice], "unexpected": foreign, "changed": strange, "after another": broken}
    return Count(
        ok=len(both) - len(strange),
        lost=len(lost),
        duplicated=int(twice.sum()),
        unexpected=len(foreign) + len(strange),
        out_of_order=len(broken),
        examples=[f"{what}: {each}" for what, some in wrong.items() for each in some.head(3).to_dict("records")],
    )


def of_messages(topic: pd.DataFrame, records: Sequence[Record], *, in_order: bool = True) -> Count:
    """Of a topic that was written. `in_order`: the records of a key must be in order, and in one partition."""
    rows = ((*(record.json[name] for name in COLUMNS), record.partition, record.offset) for record in records)
    frame = pd.DataFrame(rows, columns=[*COLUMNS, "partition", "offset"], dtype="int64")
    count = of_rows(topic, frame[list(COLUMNS)])
    if in_order:
        count.out_of_order += _unordered(frame)
    return count


def of_dead_letters(broken: Sequence[Record], letters: Sequence[Record]) -> Count:
    """Of the topic of dead letters: each record that does not decode, with its place and its bytes."""
    expected = {(str(each.partition), str(each.offset)): each.value for each in broken}
    found = Counter(map(_place, letters))
    lost = expected.keys() - found.keys()
    changed = [each for each in letters if expected.get(_place(each), each.value) != each.value]
    foreign = found.keys() - expected.keys()
    wrong = {"lost": lost, "unexpected": foreign, "changed": set(map(_place, changed))}
    return Count(
        ok=len(expected) - len(lost),
        lost=len(lost),
        duplicated=sum(times - 1 for times in found.values()),
        unexpected=len(foreign) + len(changed),
        examples=[f"{what}: {each}" for what, some in wrong.items() for each in sorted(some)[:3]],
    )


def _place(letter: Record) -> tuple[str, str]:
    return _text(letter, "eos.partition"), _text(letter, "eos.offset")


def _text(letter: Record, header: str) -> str:
    return (letter.headers.get(header) or b"").decode()


def of_merged(topic: pd.DataFrame, rows: pd.DataFrame) -> Count:
    """Of a table with a row for each key: that of its newest record."""
    return of_rows(topic.groupby("k", as_index=False).last(), rows)


def frame_of(rows: Iterable[Sequence[Any]]) -> pd.DataFrame:
    """Rows of a table, in the order of COLUMNS."""
    return pd.DataFrame((tuple(row) for row in rows), columns=list(COLUMNS), dtype="int64")


def _unordered(frame: pd.DataFrame) -> int:
    """Records whose number within their key is not above that before it, by partition and offset."""
    ordered = frame.sort_values(["partition", "offset"])
    by_key = ordered.groupby("k")
    return int((by_key["n"].diff() <= 0).sum()) + int((by_key["partition"].nunique() > 1).sum())
