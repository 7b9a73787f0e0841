"""`commit: write-ahead-log` into a database server: frozen, with another number of slots, and with the server away."""

from __future__ import annotations

import os
import signal

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.services import Services
from wal.testing import files_in

pytestmark = pytest.mark.in_turns

_RECORDS = 8 * CHECKPOINT_RECORDS
_SLOTS = 2


@pytest.fixture
def logged(pipeline: Pipeline) -> Pipeline:
    (sink,) = pipeline.spec["sinks"]
    sink.update(commit="write-ahead-log", slots=_SLOTS)
    return pipeline


def assert_exact(pipeline: Pipeline) -> None:
    """Every record once; the slots are where head is, and the log is empty."""
    pipeline.assert_exact(at_least=_RECORDS)
    slots = pipeline.table.execute("SELECT slot, checkpoint_id FROM eos_slot ORDER BY slot")
    assert slots == [(slot, pipeline.head.committed) for slot in range(len(slots))]
    assert files_in(pipeline.location / "log") == []


@pytest.mark.timeout(600)
@pytest.mark.any_server
def test_a_driver_frozen_in_the_middle_of_a_transaction_gives_way(logged: Pipeline) -> None:
    """Its slot stays locked while it is stopped. The next one ends its connection, and applies the same checkpoint."""
    logged.workload.produce(_RECORDS)
    frozen = logged.start(arm=["applying@1"])
    stopped = frozen.await_point("applying@1")
    os.kill(stopped, signal.SIGSTOP)
    logged.catch_up(take_over=True)
    assert_exact(logged)
    os.kill(stopped, signal.SIGCONT)
    frozen.release("applying@1")
    frozen.fail("fenced: ")
    assert_exact(logged)


@pytest.mark.timeout(900)
@pytest.mark.any_server
def test_another_number_of_slots(logged: Pipeline) -> None:
    """What is decided is applied by the slots that it was written for; the next checkpoint has others."""
    logged.workload.produce(_RECORDS)
    (sink,) = logged.spec["sinks"]
    for slots, stem in ((1, "applying@1"), (3, "after-decide@2"), (2, "between-commits@3")):
        sink["slots"] = slots
        process = logged.start(arm=[stem])
        process.await_point(stem)
        process.kill()
    sink["slots"] = 4
    logged.catch_up()
    assert_exact(logged)
    assert logged.table.execute("SELECT COUNT(*) FROM eos_slot") == [(4,)]


@pytest.mark.timeout(900)
@pytest.mark.any_server
def test_a_table_that_refuses_a_decided_row_stops_the_pipeline_until_it_takes_it(logged: Pipeline) -> None:
    logged.workload.produce(_RECORDS)
    logged.spec["sinks"][0]["slots"] = 1  # of several, the others go on
    name = logged.table.name
    logged.table.execute(f"INSERT INTO `{name}` VALUES (7, 'somebody', 'else')")
    logged.table.execute(f"CREATE UNIQUE INDEX once ON `{name}` (id)")
    logged.start().fail("the server refused ", "uplicate")
    assert logged.table.count() == 1
    logged.table.execute(f"DELETE FROM `{name}`")
    logged.catch_up()
    assert_exact(logged)


@pytest.mark.timeout(900)
def test_the_server_killed_while_a_slot_is_applied(killable: Services, logged: Pipeline) -> None:
    """The answer to the transaction is lost with it; the slot says what has become of it."""
    logged.workload.produce(_RECORDS)
    points = ("applying@1", "after-decide@2", "writing@3")
    process = logged.start(arm=points)
    for stem in points:
        process.await_point(stem)
        killable.kill_database()
        process.release(stem)
        killable.start_database()
    process.succeed()
    assert_exact(logged)
