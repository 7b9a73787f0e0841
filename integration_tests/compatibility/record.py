"""The record of the matrix, one JSON line for each cell, and the table of the page that is generated from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from integration_tests.harness.pipeline_process import PROJECT
from spark_jobs.session.versions import parsed

RECORD: Final = PROJECT / "docs" / "compatibility" / "matrix.jsonl"
PAGE: Final = PROJECT / "docs" / "reference" / "compatibility.md"
BEGIN: Final = "<!-- begin: scripts/matrix -->"
END: Final = "<!-- end: scripts/matrix -->"
COLUMNS: Final = {
    "eos run": "`eos run`",
    "state": "`eos run` with state",
    "savepoint": "savepoint of state",
    "rescale": "`eos rescale`",
    "foreachBatch": "`foreachBatch`",
    "format eos": '`format("eos")`',
    "connect": "Spark Connect",
    "pipelines": "declarative pipeline",
}
"""Titles of the ways in the table, in its order."""
_SINCE: Final = {"connect": (4, 0), "pipelines": (4, 1)}

Line = Mapping[str, Any]


def is_in(version: str, way: str) -> bool:
    """Return whether this version of the package `pyspark` has what the way needs of it."""
    return parsed(version) >= _SINCE.get(way, (0, 0))


def read(path: Path = RECORD) -> list[Line]:
    """Return the cells, in the order of versions."""
    return sorted(map(json.loads, path.read_text().splitlines()), key=_place)


def write(found: Line, path: Path = RECORD) -> None:
    """Put a cell in the place of an older result of the same cell."""
    others = [each for each in read(path) if _key(each) != _key(found)] if path.exists() else []
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in sorted([*others, found], key=_place)))


def table(lines: Sequence[Line]) -> str:
    """Return the table of the page: a row for each version of PySpark and Python, a column for each way."""
    rows: dict[tuple[str, str], dict[str, Line]] = {}
    for each in lines:
        rows.setdefault((each["pyspark"], each["python"]), {})[each["way"]] = each
    header = ["PySpark", "Python", *COLUMNS.values()]
    cells = [
        [*versions, *(_cell(found.get(way)) if is_in(versions[0], way) else "not in PySpark" for way in COLUMNS)]
        for versions, found in rows.items()
    ]
    return "\n".join(_row(each) for each in (header, ["---"] * len(header), *cells))


def with_table(page: str, lines: Sequence[Line]) -> str:
    """Return the page with the table of these cells between its two marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table(lines)}\n\n{END}{rest.partition(END)[2]}"


def _cell(found: Line | None) -> str:
    if found is None:
        return "not run"
    what = f"exactly once, {found['rows']:,} rows" if found["result"] == "exactly once" else found["result"]
    return f"{what} ({found['revision']})"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _key(line: Line) -> tuple[str, str, str]:
    return line["pyspark"], line["python"], line["way"]


def _place(line: Line) -> tuple[tuple[int, int], tuple[int, int], int]:
    return parsed(line["pyspark"]), parsed(line["python"]), list(COLUMNS).index(line["way"])
