"""The raw limit, started and watched as the systems are: two plain processes, Kafka to Arrow to LOAD DATA."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path

from benchmarks.bench import raw
from benchmarks.bench.comparison.work import TABLE, Launch, System, Work

NAME = "raw"
_BEGUN = re.compile(r"^begun ([\d.]+)$", re.MULTILINE)


def systems() -> list[System]:
    """It alone."""
    return [System(NAME, "limit: plain LOAD DATA", "none", _prepare, streams=False)]


def _prepare(work: Work) -> Launch:
    arguments = [work.bootstrap, work.topic, str(work.rows), work.database]
    return Launch([sys.executable, "-m", __name__, *arguments], partial(_begun_at, work.log), ends=True)


def _begun_at(log: Path) -> float | None:
    found = _BEGUN.search(log.read_text())
    return None if found is None else float(found[1])


def main() -> None:
    """Copies the records, then tells when the first reader began."""
    bootstrap, topic, rows, database = sys.argv[1:]
    result = raw.copy(bootstrap, topic, int(rows), partial(raw.Table, database, TABLE))
    print(f"begun {result.begun_at:.3f}")


if __name__ == "__main__":
    main()
