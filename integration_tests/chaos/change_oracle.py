"""Counts of a round of change events: the sinks against the topic, and the tables against the producer's table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from integration_tests.chaos import oracle
from integration_tests.chaos.change_load import ChangeLoad, number_of_deletion
from integration_tests.chaos.oracle import COLUMNS, Count
from integration_tests.harness.drain import Record


def produced(records: Sequence[Record]) -> pd.DataFrame:
    """Return the rows of all events, as the pipeline's step must compute them, with partition and offset."""
    rows = (
        (*_row(event), record.partition, record.offset)
        for record in records
        if record.value is not None and not oracle.is_broken(record)
        for event in [record.json]
    )
    frame = pd.DataFrame(rows, columns=[*COLUMNS, "partition", "offset"], dtype="int64")
    return frame.sort_values(["partition", "offset"], ignore_index=True)


def _row(event: dict[str, Any]) -> tuple[int, int, int, int]:
    is_deletion = event["op"] == "d"
    image = event["before" if is_deletion else "after"]
    number = number_of_deletion(image["id"]) if is_deletion else image["id"]
    return number, image["k"], 2 * image["n"] + is_deletion, image["previous"]


def of_table(load: ChangeLoad, rows: Sequence[tuple[Any, ...]]) -> Count:
    """Of a table: its rows must be those of the producer's table, and its marks those of the deleted rows.

    `rows`: the columns of oracle.COLUMNS, and where keys move also the position and whether the row is marked.
    """
    table = ((row.id, row.k, 2 * row.n, row.previous) for row in load.rows.values())
    found = oracle.frame_of(row[: len(COLUMNS)] for row in rows if not (load.has_marks and row[-1]))
    count = oracle.of_rows(oracle.frame_of(table), found)
    return _with_marks(count, load, rows) if load.has_marks else count


def _with_marks(count: Count, load: ChangeLoad, rows: Sequence[tuple[Any, ...]]) -> Count:
    """Add the positions of all keys, and the marks of the deleted ones."""
    expected = {key: (at, key not in load.rows) for key, at in load.positions.items()}
    found = {int(row[1]): (str(row[-2]), bool(row[-1])) for row in rows}
    lost = {key for key, (_, is_marked) in expected.items() if is_marked} - found.keys()
    wrong = {key for key, state in found.items() if expected.get(key) != state}
    shown = [f"position and mark of {key}: {found.get(key)}" for key in sorted(lost | wrong)[:3]]
    return replace(
        count,
        ok=count.ok + len([key for key, (_, is_marked) in found.items() if is_marked and key not in wrong]),
        lost=count.lost + len(lost),
        unexpected=count.unexpected + len(wrong),
        examples=[*count.examples, *shown],
    )
