"""This project's variants, started as a user would: `eos run spec.yaml`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from benchmarks.bench.comparison.work import RECORDS_AT_ONCE, TABLE, Launch, System, Warm, Work, planned_at
from benchmarks.bench.product import spec

_EXACTLY_ONCE, _AT_LEAST_ONCE = "exactly-once", "at-least-once"


def systems() -> list[System]:
    """Every variant of the sink for MySQL."""
    return [
        _system("eos-two-phase", "eos, two-phase", "two-phase", _EXACTLY_ONCE),
        _system("eos-log", "eos, write-ahead log", "write-ahead-log", _EXACTLY_ONCE),
        _system("eos-upsert", "eos, upsert", "upsert", _EXACTLY_ONCE),
        _system("eos-alo", "eos, at-least-once", "two-phase", _AT_LEAST_ONCE),
    ]


def entry(database: str, commit: str) -> dict[str, object]:
    """The sink of a spec."""
    key = {"key": ["id"]} if commit == "upsert" else {}
    return {"connector": "mysql", "url": database, "table": TABLE, "commit": commit, **key}


def _system(name: str, label: str, commit: str, mode: str) -> System:
    prepare = partial(_prepare, commit, mode)
    return System(name, label, mode, prepare, keyed=mode == _EXACTLY_ONCE, warm=Warm(commit, mode))


def _prepare(commit: str, mode: str, work: Work) -> Launch:
    bound = {} if work.live else {"max_records_per_checkpoint": RECORDS_AT_ONCE}
    path = work.folder / "spec.yaml"
    path.write_text(spec(work.bootstrap, work.topic, "json", {"mode": mode, **bound}, [entry(work.database, commit)]))
    # The first run that ends by itself keeps Spark's classes for the later ones.
    until = [] if work.live else ["--until-caught-up"]
    command = [str(Path(sys.executable).parent / "eos"), "run", str(path), *until]
    return Launch(command, partial(planned_at, work.folder / "checkpoint"), ends=not work.live)
