"""The kills that other systems were tried with, tried on this one: what is left, and what a start makes of it.

Killed while transactions are prepared, and between their commit and the note that they are; then started again with
the same identity, and with a fresh one: as after the checkpoint location was lost.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, get_args

import sqlalchemy
from sqlalchemy.exc import OperationalError

from integration_tests import databases, topics
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.services import Services

Identity = Literal["same", "fresh"]

POINTS: Final = {"prepared": "before-decide", "committed": "after-commits"}
"""Kills: while rows are prepared, and when they are committed but not yet noted. Each at a point of the protocol, so
that nothing is left to chance."""

_LOCK_WAIT_S: Final = 2
_CHECKPOINTS: Final = 6
KILLED_IN: Final = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """What one kill and one start came to. The names are those of the trials of other systems, where they have them."""

    server: str
    records: int  # that were produced
    when: str
    identity: Identity
    primary_key: bool  # which would hide that rows come twice, and without which nobody waits for a prepared row
    rows_visible: int  # at the kill
    xa_prepared_after_kill: int
    probe_insert: str  # whether somebody else's row can be written meanwhile: "inserted", or the server's error
    rerun_exit: int
    rerun_says: str  # the error's first line; empty after a run that caught up
    rerun_s: float
    rerun_rows: int
    rerun_distinct: int
    rerun_duplicates: int
    rerun_complete: bool
    xa_prepared_after_rerun: int

    @property
    def is_well(self) -> bool:
        """Nothing came twice; and the same command brought all to its end. Without its memory a start is refused."""
        ended = self.rerun_complete and self.rerun_exit == 0 and not self.xa_prepared_after_rerun
        return not self.rerun_duplicates and (ended if self.identity == "same" else self.rerun_exit != 0)

    def facts(self) -> dict[str, object]:
        """As one JSON line."""
        return {"peer": "eos", "kind": "kill", **asdict(self)}


def trials(services: Services, folder: Path) -> Iterator[Trial]:
    """All four, one after another."""
    for when in POINTS:
        for identity in get_args(Identity):
            yield trial(services, folder / secrets.token_hex(4), when, identity)


def trial(services: Services, folder: Path, when: str, identity: Identity) -> Trial:
    """One of them, in a database and with a topic of its own; `when`: one of POINTS."""
    name = f"eos_trial_{secrets.token_hex(4)}"
    folder.mkdir(parents=True)
    databases.create(services, name)
    topics.create(services.kafka_bootstrap, name, PARTITIONS, {})
    url = f"{services.database_url.rstrip('/')}/{name}"
    try:
        with Pipeline(folder, services.kafka_bootstrap, name, url) as pipeline:
            return _killed(pipeline, str(services.database), when, identity)
    finally:
        topics.delete(services.kafka_bootstrap, [name])
        databases.drop(services, name)


def _killed(pipeline: Pipeline, server: str, when: str, identity: Identity) -> Trial:
    pipeline.table.create()
    if keyed := when == "prepared":
        pipeline.table.execute(f"ALTER TABLE {pipeline.table.name} ADD PRIMARY KEY (id)")
    pipeline.workload.produce(_CHECKPOINTS * CHECKPOINT_RECORDS)
    stem = f"{POINTS[when]}@{KILLED_IN}"
    process = pipeline.start(arm=[stem])
    process.await_point(stem)
    process.kill()
    visible, prepared = pipeline.table.count(), len(pipeline.prepared())
    probe = _probe(pipeline)
    life = pipeline.head.incarnation
    if identity == "fresh":
        shutil.rmtree(pipeline.location)
    began_s = time.monotonic()
    again = pipeline.start()
    code = again.wait()
    rows, distinct = pipeline.table.execute(f"SELECT COUNT(*), COUNT(DISTINCT id) FROM {pipeline.table.name}")[0]
    errors = [line for line in again.output().splitlines() if line.startswith("error: ")]
    left = len(pipeline.table.prepared(life))
    pipeline.table.roll_back(life)
    return Trial(
        server,
        _CHECKPOINTS * CHECKPOINT_RECORDS,
        when,
        identity,
        keyed,
        visible,
        prepared,
        probe,
        code,
        errors[0].removeprefix("error: ") if errors else "",
        round(time.monotonic() - began_s, 1),
        int(rows),
        int(distinct),
        int(rows) - int(distinct),
        int(distinct) == _CHECKPOINTS * CHECKPOINT_RECORDS,
        left,
    )


def _probe(pipeline: Pipeline) -> str:
    """Somebody else's row of the next key that is not visible, which is taken back."""
    engine = sqlalchemy.create_engine(pipeline.table.url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"SET SESSION innodb_lock_wait_timeout = {_LOCK_WAIT_S}")
        try:
            table = pipeline.table.name
            newest = connection.exec_driver_sql(f"SELECT MAX(id) FROM {table}").scalar_one()
            connection.exec_driver_sql(f"INSERT INTO {table} VALUES ({newest + 1}, 'probe', 'probe')")
        except OperationalError as error:
            return str(getattr(error.orig, "args", ("?",))[0])
        finally:
            connection.rollback()
    return "inserted"
