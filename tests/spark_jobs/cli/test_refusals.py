"""What commands refuse while a driver goes on, is silent, or has not committed; with a real head, log and table."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from connectors.log.committer import LogCommitter
from connectors.registry import open_requests
from connectors.spec import load_spec
from eos.errors import AlreadyRunningError
from spark_jobs.cli import reset, run_command_line
from spark_jobs.cli import run as run_module
from spark_jobs.observe.head_reader import read_head
from spark_jobs.observe.run_lock import present
from tests.connectors.sql.sqlite.test_sink_protocol import ROWS, Job, World
from twophase.checkpoint import decide
from twophase.codec import decode_head, decode_record, encode_head, encode_record, sha256_of
from twophase.driver import Driver
from twophase.head import Versioned
from twophase.head_value import RecordRef
from twophase.ids import TransactionId
from twophase.local_head import LocalHead
from twophase.messages import BatchStart
from twophase.participants import Prepared
from twophase.requests import Answer, Request
from twophase.values import Committable, StartingPoint

SPEC = """\
pipeline: p
checkpoint: {location: .%s}
sources: [{name: kafka, connector: kafka, bootstrap_servers: "127.0.0.1:1", topics: [t], format: {type: raw}}]
sinks: [{name: s, from: kafka, connector: sqlite, path: t.db, table: t, commit: write-ahead-log}]
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text(SPEC % "")
    return path


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def started(world: World) -> Driver:
    """A driver that has committed checkpoint 0."""
    driver = world.driver()
    driver.start()
    world.run(driver, 0, Job(world))
    return driver


def decided(world: World, driver: Driver, number: int) -> None:
    """A checkpoint that is completed and not committed."""
    world.planned = number
    begin = BatchStart(number, {"kafka": {"t/0": (number + 1) * ROWS}}, f"offsets {number}", 0.0)
    driver._carry_out(decide(driver._ownership, begin, ("s",)), Job(world))


def facts_of(capsys: pytest.CaptureFixture[str], code: int, *command: str) -> dict[str, Any]:
    assert run_command_line([*command, "--json"]) == code
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


def completed(spec: Path) -> tuple[str, int]:
    """The life that head has, and its newest completed checkpoint."""
    head = read_head(load_spec(spec, {}))
    assert head is not None
    return head.incarnation, head.completed


def chosen(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object] = lambda: None) -> None:
    """`eos reset --to` is told offset 7 without a broker, which it would ask; `meanwhile` happens then."""

    def resolve(*_: object) -> tuple[dict[str, StartingPoint], list[object]]:
        meanwhile()
        return {"kafka": StartingPoint({"t/0": 7}, {"t": "one"})}, []

    monkeypatch.setattr(reset, "resolve", resolve)


def test_h30_a_reset_to_positions_is_refused_where_a_driver_goes_on_while_the_broker_is_asked(
    world: World, spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = started(world)
    life, _ = completed(spec)
    chosen(monkeypatch, lambda: world.run(driver, 1, Job(world)))
    facts = facts_of(capsys, 1, "reset", str(spec), "--to", "t/0=7", "--yes")
    assert facts["ok"] is False
    assert completed(spec) == (life, 1)
    world.run(driver, 2, Job(world))
    world.check_rows(3)


def test_a_reset_to_positions_begins_there(
    world: World, spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started(world)
    life, _ = completed(spec)
    chosen(monkeypatch)
    facts_of(capsys, 0, "reset", str(spec), "--to", "t/0=7")
    assert completed(spec) == (life, 0), "nothing was to be done without --yes"
    facts_of(capsys, 0, "reset", str(spec), "--to", "t/0=7", "--yes")
    head = read_head(load_spec(spec, {}))
    assert head is not None
    assert head.incarnation != life
    assert (head.initial, head.identities) == ({"kafka": {"t/0": 7}}, {"kafka": {"t": "one"}})


def test_a_repair_finds_what_a_sink_that_went_back_has_lost(
    world: World, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = started(world)
    backup = world.sink.path.read_bytes()
    world.run(driver, 1, Job(world))
    world.sink.path.write_bytes(backup)
    (loss,) = facts_of(capsys, 0, "repair", str(spec))["losses"]
    assert (loss["checkpoint_id"], loss["rows"]) == (1, ROWS)
    assert loss["ranges"] == {"kafka": [{"split": "t/0", "start": ROWS, "end": 2 * ROWS}]}
    world.check_rows(1)


@pytest.mark.parametrize("left_out", [False, True])
def test_a_repair_needs_each_sink_of_the_checkpoints_that_it_would_commit(
    world: World, spec: Path, capsys: pytest.CaptureFixture[str], left_out: bool
) -> None:
    """Also one that has lost nothing: a claim without it would drop it out of head, and no repair could end."""
    driver = started(world)
    backup = world.sink.path.read_bytes()
    world.run(driver, 1, Job(world))
    world.sink.path.write_bytes(backup)
    store = LocalHead(load_spec(spec, {}).checkpoint.folder)
    read = store.read()
    assert read is not None
    head = decode_head(read.value)
    made = decode_record(store.get_record(head.records[-1].name))
    content = encode_record(replace(made, committables={**made.committables, "dead_letter": ()}))
    ref = RecordRef(1, "with dead letters", sha256_of(content))
    store.put_record(ref.name, content)
    sinks = head.sinks if left_out else (*head.sinks, "dead_letter")
    value = encode_head(replace(head, sinks=sinks, records=(*head.records[:-1], ref)))
    assert store.swap(read, value)
    facts = facts_of(capsys, 1, "repair", str(spec), "--yes")
    assert "checkpoint 1 was decided for sink dead_letter, which the spec no longer names" in facts["error"]["message"]
    assert facts["error"]["remedy"].startswith(
        "the pipeline has run without it since" if left_out else "put the sink back"
    )
    assert store.read() == Versioned(read.version + 1, value), "nothing was changed"


def test_a_repair_takes_nothing_for_lost_that_is_committed_while_it_looks(
    world: World, spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The segments of what is applied are deleted."""
    driver = started(world)
    decided(world, driver, 1)
    looked = LogCommitter.missing_committables

    def lost(committer: LogCommitter, number: int, group: Sequence[Committable]) -> Sequence[Committable]:
        monkeypatch.undo()
        world.driver().start()
        for file in (world.folder / "log").rglob("*.segment"):
            file.unlink()
        looked(committer, number, group)
        return group  # what it finds where the sink was asked just before

    monkeypatch.setattr(LogCommitter, "missing_committables", lost)
    assert facts_of(capsys, 0, "repair", str(spec))["losses"] == []
    world.check_rows(2)


def test_what_is_decided_and_not_committed_is_not_deleted(
    world: World, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decided(world, started(world), 1)
    before = completed(spec)
    facts = facts_of(capsys, 1, "stop", str(spec), "--delete")
    assert "1 checkpoints are decided and not committed in every sink" in facts["error"]["message"]
    assert completed(spec) == before
    world.driver().start()
    world.check_rows(2)


def test_a_place_for_a_savepoint_without_one_is_refused(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["stop", str(spec), "backup"]) == 2
    assert "DIR|URL needs --savepoint" in capsys.readouterr().err


def test_a_pipeline_that_is_seen_to_run_and_does_not_answer_is_not_deleted(
    world: World, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started(world)
    before = completed(spec)
    with present(load_spec(spec, {}), "session"):
        facts = facts_of(capsys, 1, "stop", str(spec), "--delete", "--timeout", "300ms")
        assert "has not answered within 0.3 s; the request is withdrawn" in facts["error"]["message"]
    assert completed(spec) == before
    with open_requests(load_spec(spec, {})) as channel:
        assert channel.pending() == (), "what nobody waits for would be done later on"


def answered(spec: Path, answer: Answer) -> Request:
    """What a driver elsewhere does, which sees the same head."""
    with open_requests(load_spec(spec, {})) as channel:
        until = time.monotonic() + 20
        while not (pending := channel.pending()):
            assert time.monotonic() < until, "nobody was asked"
            time.sleep(0.01)
        channel.answer(pending[0], answer)
        return pending[0]


@pytest.mark.parametrize("ok", [True, False])
def test_a_pipeline_that_may_run_elsewhere_is_asked_before_it_is_deleted(
    world: World, spec: Path, capsys: pytest.CaptureFixture[str], ok: bool
) -> None:
    spec.write_text(SPEC % f", head: 'sqlite:///{spec.parent}/head.db'")
    life = facts_of(capsys, 0, "reset", str(spec), "--yes")["incarnation"]
    with ThreadPoolExecutor(1) as elsewhere:
        asked = elsewhere.submit(answered, spec, Answer(ok=ok, message="not now"))
        facts = facts_of(capsys, int(not ok), "stop", str(spec), "--now", "--delete", "--timeout", "30s")
    assert (asked.result().kind, asked.result().arguments) == ("stop", {"now": "true"})
    assert (completed(spec)[0] == life) is not ok
    if not ok:
        assert facts["error"]["message"] == "not now"


def test_a_driver_that_ends_without_an_answer_is_not_waited_for(
    world: World, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started(world)

    def end_when_asked() -> None:
        with open_requests(load_spec(spec, {})) as channel:
            while not channel.pending():
                time.sleep(0.01)

    def live() -> None:
        with present(load_spec(spec, {}), "session"):
            end_when_asked()

    with ThreadPoolExecutor(1) as other:
        lives = other.submit(live)
        until = time.monotonic() + 20
        while not list((spec.parent / "run").glob("session.json")) and time.monotonic() < until:
            time.sleep(0.01)
        facts = facts_of(capsys, 1, "stop", str(spec), "--timeout", "60s")
        lives.result()
    assert "the process that ran p ended without an answer" in facts["error"]["message"]
    with open_requests(load_spec(spec, {})) as channel:
        assert channel.pending() == ()


def test_transactions_are_judged_by_what_was_decided_until_they_were_listed(
    world: World, spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = started(world)
    listing = LogCommitter.prepared

    def prepared(committer: LogCommitter, life: str, number: int | None = None) -> Iterable[Prepared]:
        monkeypatch.undo()
        decided(world, driver, 1)
        return listing(committer, life, number)

    monkeypatch.setattr(LogCommitter, "prepared", prepared)
    told = facts_of(capsys, 0, "transactions", "list", str(spec))["transactions"]
    assert sorted(each["then"] for each in told) == ["commit", "commit", "roll back"]
    ids = [each["id"] for each in told if each["then"] == "commit"]
    undecided = [each["id"] for each in told if each["then"] == "roll back"]
    assert TransactionId.parse(ids[0]) is not None
    for command, wrong, why in (
        ("rollback", ids, "its checkpoint is decided"),
        ("commit", undecided, "it belongs to no checkpoint"),
    ):
        facts = facts_of(capsys, 1, "transactions", command, str(spec), *wrong)
        assert why in facts["error"]["message"]
        assert facts_of(capsys, 2, "transactions", command, str(spec), "--force")["error"]["message"] == (
            "--force needs ids"
        )
    world.check_rows(1)
    assert sorted(facts_of(capsys, 0, "transactions", "commit", str(spec))["committed"]) == sorted(ids)
    world.check_rows(2)


def test_a_second_run_on_this_machine_says_that_one_runs_and_does_not_start(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[bool] = []
    monkeypatch.setattr(run_module, "run_pipelines", lambda *_, take_over, **__: started.append(take_over))
    with present(load_spec(spec, {}), "first") as first:
        assert run_command_line(["run", str(spec)]) == 1
        shown = capsys.readouterr().err
        since = datetime.fromtimestamp(first.started_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        assert f"p runs, as process {os.getpid()} at {first.host}, since {since}" in shown
        assert "remedy: `eos stop` stops it; --take-over starts this one" in shown
        assert started == []
        assert run_command_line(["run", str(spec), "--take-over"]) == 0
    assert run_command_line(["run", str(spec)]) == 0
    assert started == [True, False]


def test_a_run_that_began_while_spark_started_is_seen_too(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_spec(spec, {})
    ended: list[str] = []

    class Session:
        def stop(self) -> None:
            ended.append("session")

    monkeypatch.setattr(run_module, "_session", lambda *_, **__: Session())
    monkeypatch.setattr(run_module, "StopSignals", lambda _controls: Signals())
    monkeypatch.setattr(run_module, "run_all", lambda _runs: ended.append("run"))
    with present(loaded, "first"), pytest.raises(AlreadyRunningError):
        run_module.run_pipelines([loaded], Console(quiet=True), until_caught_up=False, debug=False, take_over=False)
    assert ended == ["session"]


class Signals:
    """Those of a test stay as they are."""

    def here(self) -> None: ...

    def in_jvm(self) -> None: ...
