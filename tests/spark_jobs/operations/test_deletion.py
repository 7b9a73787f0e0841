"""What `eos stop --delete` deletes of a life that has ended, and what it leaves to others."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest

from connectors.registry import build_sink, open_requests
from connectors.spec import Spec, load_spec
from eos.errors import HeadError
from spark_jobs.cli import run_command_line
from spark_jobs.observe.head_reader import read_head, read_pause
from spark_jobs.operations.deletion import UncommittedError, delete
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.run.open_driver import open_driver
from tests.connectors.sql.sqlite.test_sink_protocol import ROWS, CrashError, Job, World, crashing
from twophase.driver import Driver
from twophase.head_value import HeadValue
from twophase.reset import Begun
from wal.testing import files_in

_SPEC = """
pipeline: orders
checkpoint: {location: ./state%s}
sources:
  - {name: orders, connector: kafka, bootstrap_servers: "127.0.0.1:1", topics: [orders],
     format: {type: json, schema: "id BIGINT"}}
sinks:
  - {name: archive, from: orders, connector: sqlite, path: ./archive.db, table: t, commit: write-ahead-log}
"""

_SET_BACK = """
pipeline: p
checkpoint: {location: .}
sources:
  - {name: kafka, connector: kafka, bootstrap_servers: "127.0.0.1:1", topics: [t],
     format: {type: json, schema: "n BIGINT"}}
sinks:
  - {name: s, from: kafka, connector: sqlite, path: ./t.db, table: t, commit: write-ahead-log}
"""


def _born(folder: Path, more: str = "") -> tuple[Spec, str]:
    """A pipeline whose life has left something, and which life that is."""
    (folder / "archive.db").touch()
    (folder / "orders.yaml").write_text(_SPEC % more)
    spec = load_spec(folder / "orders.yaml", {})
    sinks = [build_sink(spec, entry) for entry in spec.outputs]
    with open_driver(spec, sinks, LocalSparkLog(spec.checkpoint.folder), session=secrets.token_hex(8)) as driver:
        life = driver.reset(expected=None).head.incarnation
    of_life = (f"spark/{life}/offsets/0", f"plans/{life}.json", f"log/{life}-1.segment")
    for name in (*of_life, "admission.json", "submit/environment/bin/python"):
        _write(spec.checkpoint.folder / name)
    return spec, life


def _write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")


def _names(location: Path) -> set[str]:
    return {path.name for path in location.iterdir()}


def test_what_is_decided_and_not_committed_keeps_all_that_tells_of_it(tmp_path: Path) -> None:
    """The driver was killed between the decision and the commit: its rows wait in the log alone."""
    world = World(tmp_path)
    driver = world.driver(crashing(world, after=False))
    driver.start()
    with pytest.raises(CrashError):
        world.run(driver, 0, Job(world))
    (tmp_path / "p.yaml").write_text(_SET_BACK)
    before = files_in(tmp_path)
    with pytest.raises(UncommittedError, match="p: 1 checkpoints are decided and not committed in every sink"):
        delete(load_spec(tmp_path / "p.yaml", {}))
    assert files_in(tmp_path) == before
    assert len(files_in(tmp_path / "log")) >= 2


def test_it_leaves_a_small_head_alone(tmp_path: Path) -> None:
    spec, life = _born(tmp_path)
    deleted = delete(spec)
    assert deleted is not None
    assert deleted.incarnation == life
    assert _names(spec.checkpoint.folder) <= {"head", "records"}


def test_the_next_life_is_not_paused(tmp_path: Path) -> None:
    spec, _ = _born(tmp_path)
    with open_requests(spec) as channel:
        channel.pause("user@host")
    assert read_pause(spec) is not None
    delete(spec)
    assert read_pause(spec) is None


def test_the_life_that_a_supervisor_starts_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, life = _born(tmp_path)
    location, reset = spec.checkpoint.folder, Driver.reset

    def started(driver: Driver, *, expected: HeadValue | None) -> Begun:
        begun = reset(driver, expected=expected)
        for name in (f"spark/{begun.head.incarnation}/offsets/0", f"plans/{begun.head.incarnation}.json"):
            _write(location / name)
        return begun

    monkeypatch.setattr(Driver, "reset", started)
    delete(spec)
    head = read_head(spec)
    assert head is not None
    assert (location / "spark" / head.incarnation / "offsets" / "0").exists()
    assert (location / "plans" / f"{head.incarnation}.json").exists()
    assert [path for path in location.rglob("*") if path.name.startswith(life)] == []


def test_state_on_another_disk_goes_and_what_others_keep_in_the_log_stays(tmp_path: Path) -> None:
    spec, _ = _born(tmp_path)
    location, disk = spec.checkpoint.folder, tmp_path / "disk"
    (location / "spark").rename(disk)
    (location / "spark").symlink_to(disk)
    _write(disk / "older" / "offsets" / "7")
    _write(location / "log" / "another-life-1.segment")
    delete(spec)
    assert list(disk.iterdir()) == []
    assert _names(location / "log") == {"another-life-1.segment"}


def test_what_cannot_be_deleted_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, _ = _born(tmp_path)

    def refuse(_path: Path, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(HeadError, match="Permission denied"):
        delete(spec)


def test_a_stopped_pipeline_whose_head_is_in_a_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody can see whether it runs elsewhere: it is asked, and nobody answers."""
    spec, life = _born(tmp_path, f", head: 'sqlite:///{tmp_path}/head.db'")
    assert run_command_line(["stop", str(tmp_path / "orders.yaml"), "--delete", "--timeout", "300ms"]) == 0
    assert "are deleted" in capsys.readouterr().out
    assert [path for path in spec.checkpoint.folder.rglob("*") if path.name.startswith(life)] == []


def _set_back(folder: Path) -> tuple[World, str]:
    """A pipeline whose sink was restored from a backup without its newest checkpoint of ten rows, and its spec."""
    world = World(folder)
    driver = world.driver()
    driver.start()
    world.run(driver, 0, Job(world))
    backup = world.sink.path.read_bytes()
    world.run(driver, 1, Job(world))
    assert driver.owned.committed == 1
    world.sink.path.write_bytes(backup)
    world.check_rows(1)
    (folder / "p.yaml").write_text(_SET_BACK)
    return world, str(folder / "p.yaml")


def test_rows_that_a_sink_which_went_back_has_lost_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world, spec = _set_back(tmp_path)
    assert run_command_line(["stop", spec, "--delete", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    (gone,) = facts["abandoned"]
    assert (facts["deleted"], gone["checkpoint_id"], gone["sinks"], len(gone["transactions"])) == (True, 1, ["s"], 2)
    assert gone["ranges"] == {"kafka": [{"split": "t/0", "start": ROWS, "end": 2 * ROWS}]}
    world.check_rows(1)


def test_rows_that_are_lost_are_named_to_people_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, spec = _set_back(tmp_path)
    assert run_command_line(["stop", spec, "--delete"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Given up: checkpoint 1 in s: " in shown
    assert f"its records are t/0[{ROWS}, {2 * ROWS}); transactions: " in shown
    assert "Its checkpoints up to 1 are deleted" in shown
