"""Rows that get one column more: the pipeline adds it to its tables, and later rows fill it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from integration_tests.harness.oracle import PostgresTable, SinkTable

_STEP: Final = "widened"


@dataclass(slots=True)
class Evolution:
    """What was added so far: column `added_1` holds `n`, `added_2` twice that, and so on."""

    spec: Path
    columns: int = 0

    def add_column(self) -> str:
        """Write a spec whose rows have one column more, and return the column's name."""
        self.columns += 1
        spec = json.loads(self.spec.read_text())
        added = "".join(f", n * {number} AS added_{number}" for number in range(1, self.columns + 1))
        steps = [step for step in spec["transforms"] if step["name"] != _STEP]
        spec["transforms"] = [*steps, {"name": _STEP, "sql": f"SELECT *{added} FROM chained"}]
        for sink in spec["sinks"]:
            sink["from"] = _STEP
        self.spec.write_text(json.dumps(spec, indent=2))
        return f"added_{self.columns}"

    def problem_in(self, tables: Iterable[SinkTable | PostgresTable]) -> str:
        """Return what is wrong in the columns that were added: a value that is no row's, or no value in any row."""
        for table in tables:
            for number in range(1, self.columns + 1):
                column = f"added_{number}"
                counts = f"COUNT({column}), COUNT(CASE WHEN {column} <> n * {number} THEN 1 END)"
                ((filled, wrong),) = table.execute(f"SELECT {counts} FROM {table.name}")
                if wrong or not filled:
                    return f"{column} in {table.url}: {filled} rows have a value, {wrong} of them another one"
        return ""
