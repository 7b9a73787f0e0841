"""The unit of docker/systemd, run by a systemd: kills, stops, a standby, and mistakes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil
import pytest

from integration_tests.harness import systemd as harness
from integration_tests.harness.faults import Faults
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.systemd import Systemd
from integration_tests.harness.takeovers import COLD_S, WARM_S, assert_within, await_rows, await_takeover, slowdown
from integration_tests.report import Report
from spark_jobs.demo.driver import FAST_START

pytestmark = [
    pytest.mark.any_server,
    pytest.mark.in_turns,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not harness.is_obtained(), reason=f"{Report.NOT_APPLICABLE}: there is no systemd that this user can start"
    ),
]

_RECORDS: Final = 4 * CHECKPOINT_RECORDS
_UNIT: Final = "eos@orders.service"
_STANDBY: Final = "eos@orders-2.service"
_STOP: Final = "set -a; . /etc/eos/orders.env; exec /opt/eos/bin/eos stop /etc/eos/orders.yaml"
_STATE: Final = "/var/lib/eos"
_RESTART_S: Final = 5.0  # RestartSec of the unit
_END_S: Final = 120.0


@contextmanager
def systemd_with(pipeline: Pipeline, tmp_path: Path) -> Iterator[Systemd]:
    """Run a systemd that has the spec of the pipeline as /etc/eos/orders.yaml, and its folder as /var/lib/eos."""
    pipeline.spec["checkpoint"]["location"] = f"{_STATE}/{pipeline.location.name}"
    (pipeline.folder / "faults").mkdir()
    given = {**pipeline.environment, "OPTIONS": "--ui --ui-port 0"}
    variables = "".join(f"{name}={shlex.quote(value)}\n" for name, value in given.items())
    etc = {"orders.yaml": json.dumps(pipeline.spec, indent=2), "orders.env": variables}  # JSON is YAML
    environment = {
        "PYTHONUNBUFFERED": "1",
        "JDK_JAVA_OPTIONS": FAST_START,
        "EOS_FAULT_DIR": f"{_STATE}/faults",
    }
    with Systemd(tmp_path / "systemd", pipeline.folder, etc, environment) as systemd:
        yield systemd


def kill_driver(systemd: Systemd, unit: str) -> list[psutil.Process]:
    """Kill the driver of a unit, and nothing else. Return all processes that the unit had."""
    found, names = [], set()
    for each in systemd.processes(unit):
        with suppress(psutil.NoSuchProcess):  # some live for a moment
            found.append(psutil.Process(each))
            names.add(found[-1].name())
    assert {"java"} < names
    os.kill(systemd.driver(unit), signal.SIGKILL)
    return found


def assert_ended(systemd: Systemd, unit: str, starts: int, stops: int = 1) -> None:
    """The unit has ended without an error, leaves no process, and is not started."""
    systemd.await_that(lambda: systemd.show(unit, "ActiveState") == "inactive", _END_S)
    time.sleep(_RESTART_S + 1)
    assert systemd.show(unit, "ActiveState") == "inactive", systemd.logs()
    assert systemd.processes(unit) == []
    journal = systemd.journal()
    found = journal.count(f"Started {unit}"), journal.count(f"{unit}: Deactivated successfully")
    assert found == (starts, stops), systemd.logs()


def test_a_killed_driver_is_started_and_goes_on(pipeline: Pipeline, tmp_path: Path) -> None:
    with systemd_with(pipeline, tmp_path) as systemd:
        assert systemd.run("sh", "-c", "systemd-analyze verify eos@.service 2>&1") == ""
        systemd.systemctl("start", _UNIT)
        pipeline.workload.produce(_RECORDS)
        await_rows(pipeline)
        takeovers = []
        for number in range(2):
            before = slowdown()
            pipeline.workload.produce(_RECORDS)  # a part is under way, or is not read yet
            killed_s = time.monotonic()
            killed = kill_driver(systemd, _UNIT)
            takeovers.append(await_takeover(pipeline, killed_s, before))
            print(f"started by systemd: {takeovers[-1]}")
            assert systemd.show(_UNIT, "NRestarts") == str(number + 1)
            assert not any(each.is_running() for each in killed)
            assert systemd.output(_UNIT).count("page: http://") == number + 2  # by OPTIONS
        systemd.systemctl("stop", _UNIT)
        assert_ended(systemd, _UNIT, starts=3)
        assert systemd.run("ls", "/tmp") == "", "killed drivers leave files there, and systemd deletes them"
    pipeline.assert_exact(at_least=3 * _RECORDS)
    assert pipeline.head.epoch == 3
    assert_within(COLD_S + _RESTART_S, takeovers)


def test_a_standby_goes_on_and_the_killed_driver_becomes_the_standby(pipeline: Pipeline, tmp_path: Path) -> None:
    with systemd_with(pipeline, tmp_path) as systemd:
        for suffix in ("yaml", "env"):
            systemd.run("ln", "-s", f"orders.{suffix}", f"/etc/eos/orders-2.{suffix}")
        systemd.systemctl("start", _UNIT)
        pipeline.workload.produce(_RECORDS)
        await_rows(pipeline)
        systemd.systemctl("start", _STANDBY)
        takeovers = []
        for running, standby in ((_UNIT, _STANDBY), (_STANDBY, _UNIT)):
            systemd.await_that(lambda each=standby: "standby for " in systemd.output(each), _END_S)  # type: ignore[misc]
            time.sleep(15)  # Spark has started
            before = slowdown()
            pipeline.workload.produce(_RECORDS)
            killed_s = time.monotonic()
            kill_driver(systemd, running)
            takeovers.append(await_takeover(pipeline, killed_s, before))
            print(f"standby, systemd: {takeovers[-1]}")
            assert systemd.show(standby, "NRestarts") == str(len(takeovers) - 1)
        assert pipeline.head.epoch == 3
        systemd.await_that(lambda: systemd.output(_STANDBY).count("standby for ") == 2, _END_S)
        systemd.run("sh", "-c", _STOP, user=harness.USER)
        for unit in (_UNIT, _STANDBY):
            assert_ended(systemd, unit, starts=2)
    pipeline.assert_exact(at_least=3 * _RECORDS)
    assert_within(WARM_S, takeovers)


def test_a_stop_waits_for_the_checkpoint_and_is_no_failure(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.workload.produce(_RECORDS)
    with systemd_with(pipeline, tmp_path) as systemd:
        faults = Faults(pipeline.folder / "faults")
        faults.arm("writing@2")
        systemd.systemctl("start", _UNIT)
        systemd.await_that(lambda: faults.stopped("writing@2") is not None, _END_S)
        workers = [psutil.Process(each) for each in systemd.processes(_UNIT)]
        systemd.systemctl("stop", "--no-block", _UNIT)
        time.sleep(2)
        assert systemd.show(_UNIT, "ActiveState") == "deactivating"
        assert all(each.is_running() for each in workers)
        faults.release("writing@2")
        assert_ended(systemd, _UNIT, starts=1)
        assert not any(each.is_running() for each in workers)
        assert pipeline.prepared() == []
        verdict = pipeline.verdict()
        assert (verdict.clean, verdict.in_sink) == (True, 3 * CHECKPOINT_RECORDS), str(verdict)
        systemd.systemctl("start", _UNIT)
        await_rows(pipeline)
        systemd.systemctl("stop", _UNIT)
        assert_ended(systemd, _UNIT, starts=2, stops=2)
    pipeline.assert_exact(at_least=_RECORDS)


def test_a_wrong_spec_is_not_tried_twice_and_a_failed_start_is(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    source = {"name": "ticks", "connector": "kafka", "bootstrap_servers": "127.0.0.1:1", "topics": ["ticks"]}
    sink = {"name": "rows", "connector": "sqlite", "from": "ticks", "path": "./rows.db", "table": "rows"}
    refused = {
        "pipeline": "refused",
        "checkpoint": {"location": "/etc/eos/checkpoints"},  # where the unit may not write
        "sources": [{**source, "format": {"type": "json", "schema": "id BIGINT"}}],
        "sinks": [{**sink, "commit": "write-ahead-log"}],
    }
    etc = {"wrong.yaml": "pipeline: [", "refused.yaml": json.dumps(refused)}
    with Systemd(tmp_path / "systemd", state, etc, {}) as systemd:
        systemd.systemctl("start", "eos@wrong", "eos@refused")
        systemd.await_that(lambda: int(systemd.show("eos@refused", "NRestarts")) > 1, _END_S)
        found = [systemd.show("eos@wrong", each) for each in ("ActiveState", "ExecMainStatus", "NRestarts")]
        assert found == ["failed", "2", "0"], systemd.logs()
