"""Rows that get one column more: the pipeline adds it to its tables, and later rows fill it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pandas as pd

from integration_tests.harness.oracle import PostgresTable, SinkTable

Positions = Mapping[str, int]
"""Offset of the next record, by `topic/partition`; a partition that is missing begins at 0."""

_STEP: Final = "widened"


@dataclass(slots=True)
class Evolution:
    """Columns added so far: `added_1` holds `n`, `added_2` twice that, and so on."""

    spec: Path
    step: str  # whose rows the sinks read
    begins: list[Positions] = field(default_factory=list)  # by column: where its first records are

    def add_column(self, begin: Positions) -> str:
        """Write a spec whose rows have one column more from `begin` on, and return the column's name."""
        self.begins.append(begin)
        numbers = range(1, len(self.begins) + 1)
        spec = json.loads(self.spec.read_text())
        added = "".join(f", n * {number} AS added_{number}" for number in numbers)
        steps = [step for step in spec["transforms"] if step["name"] != _STEP]
        spec["transforms"] = [*steps, {"name": _STEP, "sql": f"SELECT *{added} FROM {self.step}"}]
        for sink in spec["sinks"]:
            sink["from"] = _STEP
        self.spec.write_text(json.dumps(spec, indent=2))
        return f"added_{numbers[-1]}"

    def problem_in(self, table: SinkTable | PostgresTable, topic: str, records: pd.DataFrame) -> str:
        """Return the first fault in the columns that were added, or an empty string.

        `records`: of the topic that is read, as `oracle.produced` returns them.
        """
        for number, begin in enumerate(self.begins, 1):
            column = f"added_{number}"
            rows = table.execute(f"SELECT id, {column} FROM {table.name}")
            if found := problem_of_column(number, begin, topic, records, rows):
                return f"{column} in {table.url}: {found}"
        return ""


def problem_of_column(
    number: int, begin: Positions, topic: str, records: pd.DataFrame, rows: Sequence[tuple[Any, ...]]
) -> str:
    """Return what is wrong with an added column, or an empty string.

    Each value must be its record's. Each row of a record from `begin` on must have one; where a record has several
    rows, one of them is enough: the others may be of before the column was added.
    """
    values = pd.DataFrame(rows, columns=["id", "found"], dtype="Int64")
    joined = values.merge(records, on="id")
    wrong = joined[joined["found"].notna() & (joined["found"] != joined["n"] * number)]
    begins = joined["partition"].map(lambda partition: begin.get(f"{topic}/{partition}", 0))
    later = joined[joined["offset"] >= begins]
    filled = later.groupby("id")["found"].count()
    if len(wrong):
        return f"{len(wrong)} rows have another value: {wrong.head(3).to_dict('records')}"
    if not filled.all():
        return f"{int((filled == 0).sum())} rows lack a value: ids {filled[filled == 0].index[:3].to_list()}"
    return "" if len(filled) else "no row is of a record from its begin on"
