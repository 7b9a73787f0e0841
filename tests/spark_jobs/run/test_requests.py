"""Requests to a running pipeline: asked once, answered once, whatever process dies; and who runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from connectors.registry import open_requests
from connectors.spec import Spec, load_spec
from eos.errors import HeadError, SinkUnavailableError
from spark_jobs.cli import run_command_line
from spark_jobs.observe.history.model import Event, answered
from spark_jobs.observe.run_lock import folder_of, present, running
from spark_jobs.run.requests import RequestLoop
from twophase.requests import Answer, Channel, Request

_SPEC = """
pipeline: orders
checkpoint: {location: ./checkpoint%s}
sources:
  - {name: orders, connector: kafka, bootstrap_servers: "127.0.0.1:1", topics: [orders],
     format: {type: json, schema: "id BIGINT"}}
sinks:
  - {name: archive, from: orders, connector: sqlite, path: ./archive.db, table: t, commit: write-ahead-log}
"""


@pytest.fixture(params=["files", "database"])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> Spec:
    head = f", head: 'sqlite:///{tmp_path}/head.db'" if request.param == "database" else ""
    (tmp_path / "orders.yaml").write_text(_SPEC % head)
    return load_spec(tmp_path / "orders.yaml", {})


@pytest.fixture
def channel(spec: Spec) -> Iterator[Channel]:
    with open_requests(spec) as channel:
        yield channel


def _ask(channel: Channel, kind: str = "stop", patience_s: float = 60.0, **arguments: str) -> Request:
    return channel.ask(kind, arguments, asked_by="a test", patience_s=patience_s)


def test_what_is_asked_in_one_moment_is_heard_in_order(channel: Channel) -> None:
    channel.clock = lambda: 1_800_000_000.0
    asked = [_ask(channel, kind) for kind in ("savepoint", "checkpoint", "stop", "savepoint", "checkpoint", "stop")]
    assert list(channel.pending()) == asked


def test_asked_in_one_process_and_answered_in_another(spec: Spec, channel: Channel) -> None:
    first, second = _ask(channel, now="true"), _ask(channel, "checkpoint")
    with open_requests(spec) as other:
        assert {each.id: each for each in other.pending()} == {first.id: first, second.id: second}
        assert channel.answer_of(first) is None
        other.answer(first, Answer(ok=True, message="done", facts={"completed": 7}))
        other.answer(first, Answer(ok=False, message="the first answer stands"))
        assert other.pending() == (second,)
    answer = channel.answer_of(first)
    assert answer is not None
    assert (answer.ok, answer.message, answer.facts) == (True, "done", {"completed": 7})


def test_what_nobody_waits_for_is_not_done(channel: Channel) -> None:
    withdrawn, answered, old = _ask(channel), _ask(channel), _ask(channel, patience_s=0.0)
    assert channel.withdraw(withdrawn) is None
    channel.answer(answered, Answer(ok=True, message="just before"))
    given = channel.withdraw(answered)
    assert given is not None
    assert given.message == "just before"
    assert old.expires_at <= time.time()
    assert channel.pending() == ()


def test_a_request_of_another_version_is_refused_and_others_are_heard(channel: Channel) -> None:
    ours = _ask(channel)
    theirs = Request("1700000000000-00000000", "stop", {}, 0.0, time.time() + 60, "")
    channel.blobs.put(f"{theirs.id}.request.json", json.dumps({"format": 2, "wish": "stop"}).encode())
    channel.blobs.put("README.txt", b"what somebody has left here")
    assert channel.pending() == (ours,)
    answer = channel.answer_of(theirs)
    assert answer is not None
    assert not answer.ok
    assert "format 2" in answer.message


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'{"format": 1}', b'{"format": 1, "id": 7, "wish": "stop"}'])
def test_a_damaged_request_is_refused_and_others_are_heard(channel: Channel, content: bytes) -> None:
    ours = _ask(channel)
    damaged = Request("1700000000000-00000000", "stop", {}, 0.0, time.time() + 60, "")
    channel.blobs.put(f"{damaged.id}.request.json", content)
    assert channel.pending() == (ours,)
    answer = channel.answer_of(damaged)
    assert answer is not None
    assert "is damaged" in answer.message


def test_what_was_asked_weeks_ago_is_forgotten(channel: Channel) -> None:
    old = _ask(Channel(channel.blobs, clock=lambda: time.time() - 8 * 24 * 3600))
    channel.answer(old, Answer(ok=True, message="long ago"))
    new = _ask(channel)
    channel.sweep()
    assert channel.blobs.names() == [f"{new.id}.request.json"]


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_steering_answers_by_kind_at_once_or_later(channel: Channel) -> None:
    asked: list[Request] = []

    def away(_request: Request) -> Answer | None:
        message = "no answer from the server"
        raise SinkUnavailableError(message, remedy="start it")

    before = _ask(channel)
    told: list[Event] = []
    handlers = {"stop": asked.append, "savepoint": away}
    steering = RequestLoop(channel, handlers, lambda request, answer: told.append(answered(request, answer)))
    steering.start()
    later, unknown, failing = _ask(channel), _ask(channel, "dance"), _ask(channel, "savepoint")
    _await(lambda: bool(asked) and all(channel.answer_of(each) for each in (before, unknown, failing)))
    assert asked == [later]
    assert channel.answer_of(later) is None
    steering.answer(later, Answer(ok=True, message="stopped"))
    steering.close(lambda _: Answer(ok=False, message="too late"))
    answers = [channel.answer_of(each) for each in (before, later, unknown, failing)]
    assert [answer.ok for answer in answers if answer] == [False, True, False, False]
    assert [answer.message.split()[0] for answer in answers if answer] == ["the", "stopped", "the", "no"]
    assert [
        (event.kind, event.facts["id"], event.facts["ok"]) for event in sorted(told, key=lambda e: str(e.facts["id"]))
    ] == [
        ("request", before.id, False),
        ("request", later.id, True),
        ("request", unknown.id, False),
        ("savepoint", failing.id, False),
    ]
    assert f"stop, asked by {later.asked_by}: stopped" in [event.message for event in told]


class _FailingBlobs:
    """A blob store that is away for some calls."""

    def __init__(self, channel: Channel) -> None:
        self.blobs, self.failures = channel.blobs, 0
        self.poll_interval_s = 0.2

    def __getattr__(self, name: str) -> object:
        if self.failures:
            self.failures -= 1
            message = "head is away"
            raise HeadError(message)
        return getattr(self.blobs, name)


def test_an_outage_of_head_loses_no_answer_and_does_nothing_twice(channel: Channel) -> None:
    blobs = _FailingBlobs(channel)
    done: list[Request] = []

    def handle(request: Request) -> Answer:
        done.append(request)
        blobs.failures = 5  # so that the answer cannot be stored
        return Answer(ok=True, message="done")

    steering = RequestLoop(Channel(blobs), {"checkpoint": handle})  # type: ignore[arg-type]
    steering.start()
    request = _ask(channel, "checkpoint")
    _await(lambda: channel.answer_of(request) is not None)
    steering.close(lambda _: Answer(ok=False, message="too late"))
    assert done == [request]
    assert blobs.failures == 0


_HOLD = """
import sys, time
from pathlib import Path
from connectors.spec import load_spec
from spark_jobs.observe.run_lock import present
with present(load_spec(Path(sys.argv[1]), {}), "other", page="http://127.0.0.1:1/"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_who_runs_it_is_seen_until_the_process_dies(spec: Spec, tmp_path: Path) -> None:
    assert running(spec) is None
    other = subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path / "orders.yaml")], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        found = running(spec)
        assert found is not None
        assert (found.session, found.pid, found.page) == ("other", other.pid, "http://127.0.0.1:1/")
        with present(spec, "mine"):
            newest = running(spec)
            assert newest is not None
            assert newest.session == "mine"
        assert running(spec) == found
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert running(spec) is None
    with present(spec, "next"):
        assert [path.name for path in folder_of(spec).iterdir()] == ["next.json"]


_FULL = """
import resource, sys
from pathlib import Path
from connectors.spec import load_spec
from spark_jobs.observe.run_lock import present
from eos.errors import HeadError
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    with present(load_spec(Path(sys.argv[1]), {}), "mine"):
        pass
except HeadError as error:
    print(error.message)
"""


def test_a_disk_that_takes_no_more_is_told(spec: Spec, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FULL, str(tmp_path / "orders.yaml")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert f"{folder_of(spec)} cannot be used: File too large" in done.stdout
    assert running(spec) is None


def test_drivers_that_start_at_once_do_not_sweep_each_other_away(spec: Spec) -> None:
    def start(driver: int) -> None:
        for number in range(200):
            with present(spec, f"{driver}.{number}"):
                pass

    with ThreadPoolExecutor(4) as drivers:
        list(drivers.map(start, range(4)))


def test_stop_of_a_pipeline_that_does_not_run(spec: Spec, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["stop", str(tmp_path / "orders.yaml"), "--timeout", "300ms"]) == 1
    said = capsys.readouterr().err
    assert ("does not run" if spec.checkpoint.head is None else "has not answered within 0.3 s") in said
    assert run_command_line(["stop", str(tmp_path / "orders.yaml"), "--timeout", "300"]) == 2
    assert "is not a duration" in capsys.readouterr().err
