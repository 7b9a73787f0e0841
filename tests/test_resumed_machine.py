"""A machine is restored from a snapshot with its memory (H33): the real driver, head in files, and SQLite with a log.

`integration_tests/test_set_back.py` does it to servers.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.log.place import LogPlace
from connectors.sql.sqlite.sink import SqliteSink
from twophase.driver import Driver
from twophase.errors import IdentityError, LostCommittableError, SetBackError
from twophase.ids import Scope, TransactionId, fresh_attempt, sink_key
from twophase.local_head import LocalHead
from twophase.messages import Acknowledged, Begin
from twophase.values import SparkState, StartingPoint

SCHEMA = pa.schema([("n", pa.int64())])


@dataclass
class World:
    """A pipeline with one sink and one task. The sink is on another machine than all else."""

    machine: Path
    database: Path
    planned: int = -1
    attempts: int = 0
    rows_of: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with closing(sqlite3.connect(self.database)) as connection:
            connection.execute("CREATE TABLE t (n INTEGER)")
        self.sink = SqliteSink("s", self.database, "t", LogPlace(self.machine / "log")).open(SCHEMA)

    def state(self, _incarnation: str) -> SparkState:
        log = {number: f"offsets {number}" for number in range(self.planned + 1)}
        return SparkState("query" if self.planned >= 0 else None, self.planned, self.planned - 1, log)

    def start(self) -> Driver:
        committers = {"s": self.sink.committer("p")}
        driver = Driver(
            "p", LocalHead(self.machine / "head"), committers, self, f"{secrets.token_hex(4)}.0", "i" * 20, 2
        )
        driver.start()
        return driver

    def checkpoint(self, driver: Driver, *rows: int) -> None:
        number = driver.owned.completed + 1
        self.planned, self.rows_of[number] = number, list(rows)
        begin = Begin(number, {"k": {"k/0": number + 1}}, f"offsets {number}", 0.0, {"k": StartingPoint({"k/0": 0})})
        driver.checkpoint(begin, self)
        driver.set_query("query")

    def run_writers(self, scope: Scope, *, direct: bool) -> Acknowledged:
        self.attempts += 1
        assert not direct
        writer = self.sink.writer(TransactionId(scope, sink_key("s"), 0, fresh_attempt(self.attempts)))
        if rows := self.rows_of[scope.checkpoint_id]:
            writer.write(pa.record_batch([pa.array(rows, pa.int64())], schema=SCHEMA))
        return Acknowledged({"s": (writer.prepare(),)}, at=0.0)

    def discard(self, _digest_methods: Any) -> None:
        return None

    def rows(self) -> list[int]:
        with closing(sqlite3.connect(self.database)) as connection:
            return sorted(n for (n,) in connection.execute("SELECT n FROM t"))

    def set_back(self, driver: Driver, meanwhile: Callable[[], None], *, with_disk: bool) -> None:
        """Restore memory, and the disk, to before `meanwhile`, which is done by a copy of the process that ends."""
        driver.committers["s"].close()
        copy = self.machine.with_name("copy")
        shutil.copytree(self.machine, copy)
        if (pid := os.fork()) == 0:
            done = 1
            try:
                meanwhile()
                done = 0
            finally:
                os._exit(done)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        if with_disk:
            shutil.rmtree(self.machine)
            shutil.copytree(copy, self.machine)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "machine", tmp_path / "t.db")


@pytest.mark.parametrize("before", [[1, 2, 3], []], ids=["rows", "no rows"])
def test_h33_what_a_log_has_applied_is_not_taken_for_other_rows(world: World, before: list[int]) -> None:
    """Driver, head and log go back. Each later start says so, too."""
    driver = world.start()
    world.checkpoint(driver, 0)
    world.set_back(driver, lambda: world.checkpoint(driver, *before), with_disk=True)
    assert world.rows() == [0, *before]
    with pytest.raises(LostCommittableError, match=r"lost: checkpoint 1 is completed, but sink s neither .* 2 rows"):
        world.checkpoint(driver, 4, 5)
    for _ in range(2):
        with pytest.raises(LostCommittableError, match="lost: checkpoint 1"):
            world.start()
    assert world.rows() == [0, *before]


def test_h33_a_log_is_further_than_its_history_tells(world: World) -> None:
    driver = world.start()
    world.checkpoint(driver, 0)

    def meanwhile() -> None:
        for number in range(1, 8):
            world.checkpoint(driver, number)

    world.set_back(driver, meanwhile, with_disk=True)
    with pytest.raises(SetBackError, match="sink s already has checkpoint 7, which this driver is only about to write"):
        world.checkpoint(driver, 10, 11)
    with pytest.raises(IdentityError, match="sink s holds rows of checkpoint 7, the newest completed is 1"):
        world.start()
    assert world.rows() == list(range(8))


def test_h33_a_swap_of_the_same_driver_from_before_is_not_taken_for_its_own(world: World) -> None:
    """The memory alone goes back: the next start goes on, and every row is there once."""
    driver = world.start()
    world.checkpoint(driver, 0)
    world.set_back(driver, lambda: world.checkpoint(driver, 1, 2, 3), with_disk=False)
    with pytest.raises(IdentityError, match="checkpoint 1 cannot follow 1"):
        world.checkpoint(driver, 4, 5)
    world.checkpoint(world.start(), 6, 7)
    assert world.rows() == [0, 1, 2, 3, 6, 7]


def test_h33_no_attempt_has_the_number_of_another_one() -> None:
    numbers = [fresh_attempt(attempt) for attempt in (7, 7, 8, 2**31)]
    assert len({*numbers}) == 4
    assert max(numbers) < 2**63, "it is a BIGINT"
    found = [TransactionId(Scope("i" * 20, 1, 0), sink_key("s"), 0, each) for each in numbers]
    assert [each.spark_attempt for each in found] == [7, 7, 8, 2**31]
    assert [TransactionId.parse(str(each)) for each in found] == found
