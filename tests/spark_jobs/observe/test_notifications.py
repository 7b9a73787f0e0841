"""Notifications: what an endpoint gets, how often, and that no endpoint can hold up or mislead a run."""

from __future__ import annotations

import json
import logging
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from connectors.spec import Spec, load_spec
from connectors.spec.notifications import Notification
from eos.errors import BadRowError, PrepareError
from spark_jobs.observe.history.model import Event, SplitLag, failure
from spark_jobs.observe.lag import Lag, SourceLag
from spark_jobs.observe.notifications import sender as sender_module
from spark_jobs.observe.notifications import webhook
from spark_jobs.observe.notifications.notice import Notice, body
from spark_jobs.observe.notifications.notifier import Endpoint, Notifier, notified
from spark_jobs.observe.notifications.sender import MOST, Sender
from spark_jobs.observe.notifications.webhook import RejectedError, UnavailableError, check_address, post
from spark_jobs.observe.report import CheckpointReport
from tests.twophase_values import committable, record, scope

SPEC = """\
pipeline: orders
checkpoint: {location: state}
sources:
  - {name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}}
sinks:
  - {name: out, from: s, connector: sqlite, path: out.db, table: t, commit: write-ahead-log}
dead_letter: {connector: sqlite, path: out.db, table: bad, commit: write-ahead-log}
notifications:
  - {name: chat, url: "%s", headers: {X-Key: the key of the gateway}, lag_above: 100, lag_for: 60s}
"""


@dataclass
class Server:
    """An endpoint of this machine."""

    url: str = ""
    status: list[int] = field(default_factory=list)  # of the next answers; then 200
    got: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)

    def events(self) -> list[str]:
        return [content["event"] for _, _, content in self.got]


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found.got.append((self.path, dict(self.headers), content))
            self.send_response(found.status.pop(0) if found.status else 200)
            self.send_header("Location", "http://169.254.169.254/latest/meta-data/")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        found.url = f"http://127.0.0.1:{listening.server_port}/hook/secretpath"
        yield found
        listening.shutdown()
        thread.join()


def _spec(folder: Path, url: str = "https://h/x") -> Spec:
    path = folder / "spec.yaml"
    path.write_text(SPEC % url)
    return load_spec(path, {})


def _entry(url: str, **more: object) -> Notification:
    return Notification.model_validate({"name": "chat", "url": url, **more})


def _notice(message: str = "it failed", **more: Any) -> Notice:
    return Notice("failure", "orders", message, 1_700_000_000.0, **more)


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_forms_of_a_body() -> None:
    notice = _notice("a <b> & c\nd", remedy="do it", facts={"checkpoint_id": 7}, repeated=2)
    as_json = json.loads(body(_entry("https://h/x"), notice))
    assert as_json == {
        "event": "failure",
        "pipeline": "orders",
        "at": 1_700_000_000.0,
        "title": "eos: orders failed",
        "message": "a <b> & c\nd",
        "remedy": "do it",
        "repeated": 2,
        "facts": {"checkpoint_id": 7},
    }
    slack = json.loads(body(_entry("https://h/x", template="slack"), notice))
    assert slack["text"] == "eos: orders failed"
    (block,) = slack["blocks"]
    text = "a &lt;b&gt; &amp; c\nd\nremedy: do it\n2 more since the last message\n2023-11-14 22:13:20 UTC"
    assert block["text"] == {"type": "mrkdwn", "text": f"*eos: orders failed*\n{text}"}
    mail = _entry("https://h/x", template="mail", to=["a@b.c"], **{"from": "eos@b.c"})
    found = json.loads(body(mail, notice))
    assert (found["to"], found["from"], found["subject"]) == (["a@b.c"], "eos@b.c", "eos: orders failed")
    assert found["text"].startswith("a <b> & c\nd\nremedy: do it\n")
    long = json.loads(body(_entry("https://h/x", template="slack"), _notice("x" * 10**6)))
    assert len(long["blocks"][0]["text"]["text"]) < 3000


def test_a_request_has_its_headers_and_follows_no_redirect(server: Server) -> None:
    post(server.url, b'{"event": "failure"}', {"X-Key": "k"})
    ((path, headers, content),) = server.got
    assert (path, headers["X-Key"], content) == ("/hook/secretpath", "k", {"event": "failure"})
    server.status = [302]
    with pytest.raises(RejectedError, match="it answers 302, a redirect"):
        post(server.url, b"{}", {})
    assert len(server.got) == 2
    for status, kind in ((404, RejectedError), (429, UnavailableError), (503, UnavailableError)):
        server.status = [status]
        with pytest.raises(kind, match=f"it answers {status}"):
            post(server.url, b"{}", {})


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.0.1",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "100.100.100.200",
        "::ffff:169.254.169.254",
        "2002:a9fe:a9fe::1",
        "0.0.0.0",
        "::",
        "224.0.0.1",
    ],
)
def test_no_request_to_a_metadata_service(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a name of another kind resolves to it."""
    with pytest.raises(RejectedError, match="link-local"):
        check_address(address)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = [(family, socket.SOCK_STREAM, 6, "", (address, 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(RejectedError, match="link-local"):
        post("http://hooks.example.com/x", b"{}", {})


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.7", "93.184.216.34", "::1", "2606:2800::1", "fd12::1"])
def test_other_addresses_are_allowed(address: str) -> None:
    check_address(address)


@contextmanager
def _silent() -> Iterator[str]:
    """A server that takes a connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/x"


def test_a_server_that_does_not_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_WHOLE_S", 0.2)
    with _silent() as url, pytest.raises(UnavailableError, match="it does not answer"):
        post(url, b"{}", {})


def test_a_port_without_a_server_is_unavailable_and_the_url_is_not_shown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    with pytest.raises(UnavailableError, match="it does not answer: Connection refused") as failure:
        post(f"http://127.0.0.1:{port}/secretpath", b"{}", {})
    assert "secretpath" not in str(failure.value)


def test_an_endpoint_that_is_away_is_tried_again(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sender_module, "_WAITS_S", (0.01, 0.02))
    server.status = [503, 500, 200, 404]
    sender = Sender(_entry(server.url))
    sender.send(_notice())
    _await(lambda: len(server.got) == 3)
    sender.send(_notice("second"))
    _await(lambda: len(server.got) == 4)
    sender.finish()
    sender.join(time.monotonic() + 5)
    assert "notification chat: a message about failure is not sent: it answers 404" in caplog.text
    assert "secretpath" not in caplog.text


def test_the_queue_is_bounded_and_says_how_many_are_lost() -> None:
    begun, go, sent = threading.Event(), threading.Event(), []

    def request(_url: str, content: bytes, _headers: object) -> None:
        begun.set()
        assert go.wait(10)
        sent.append(json.loads(content))

    sender = Sender(_entry("https://h/x"), request)
    before_s = time.monotonic()
    sender.send(_notice("first"))
    assert begun.wait(10)
    for number in range(MOST + 5):
        sender.send(_notice(f"number {number}"))
    assert time.monotonic() - before_s < 5
    go.set()
    sender.finish()
    sender.join(time.monotonic() + 10)
    assert [each["message"] for each in sent] == ["first", *(f"number {n}" for n in range(5, MOST + 5))]
    assert [each["repeated"] for each in sent] == [0, 5, *([0] * (MOST - 1))]


def test_an_end_does_not_wait_for_an_endpoint_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("spark_jobs.observe.notifications.notifier._CLOSE_S", 0.3)
    with _silent() as url:
        before_s = time.monotonic()
        with pytest.raises(PrepareError), notified(_spec(tmp_path, url)):
            raise PrepareError("the disk is full")
        assert time.monotonic() - before_s < 5
    assert "the last messages were not sent in time" in caplog.text


class _Told:
    """An endpoint whose clock is the test's."""

    def __init__(self, **more: object) -> None:
        self.now_s = 0.0
        self.notices: list[Notice] = []
        self.endpoint = Endpoint(_entry("https://h/x", **more), self.notices.append, lambda: self.now_s)


def _report(number: int, *, letters: int = 0, replayed: bool = False) -> CheckpointReport:
    found = replace(
        record(number),
        committables={"out": (), "dead_letter": (committable(scope(number), sink="dead_letter", rows=letters),)},
    )
    return CheckpointReport(found, 0, 1, replayed, 0.5, {}, None)


def test_each_event_is_told_and_a_repeated_one_is_counted(tmp_path: Path) -> None:
    told = _Told()
    notifier = Notifier(_spec(tmp_path), [told.endpoint])
    for number in range(3):
        notifier.on_event(failure(PrepareError("no space", remedy="free some"), 1.0, number))
    notifier.on_event(failure(BadRowError("too long"), 1.0))
    notifier.on_event(Event(1.0, "restart", "in 2 s"))
    notifier.on_event(Event(1.0, "schema", "sink out: column a BIGINT is new", facts={"sink": "out"}))
    for number in range(2):
        notifier.on_checkpoint(_report(number, letters=3))
    notifier.on_checkpoint(_report(2, letters=3, replayed=True))
    assert [(each.event, each.repeated) for each in told.notices] == [
        ("failure", 0),
        ("failure", 0),
        ("schema-change", 0),
        ("dead-letters", 0),
    ]
    assert (told.notices[0].message, told.notices[0].remedy) == ("no space", "free some")
    assert told.notices[0].facts == {"error": "PrepareError", "checkpoint_id": 0}
    assert told.notices[3].message == "checkpoint 0 has 3 dead letters"
    told.now_s = 901.0
    notifier.on_event(failure(PrepareError("no space"), 1.0, 9))
    notifier.on_checkpoint(_report(9, letters=1))
    assert [(each.event, each.repeated) for each in told.notices[4:]] == [("failure", 2), ("dead-letters", 1)]


def test_the_lag_is_told_once_it_has_lasted(tmp_path: Path) -> None:
    told = _Told(lag_above=100, lag_for="60s")
    notifier = Notifier(_spec(tmp_path), [told.endpoint])

    def at(now_s: float, lag: int | None) -> int:
        told.now_s = now_s
        splits = (SplitLag(0.0, "s", "t/0", lag, 0),) if lag is not None else ()
        failed = "no answer" if lag is None else ""
        notifier.on_lag(Lag((SourceLag("s", time.time(), splits, failure=failed),)))
        return len(told.notices)

    assert [at(0, 101), at(59, 500), at(60, 100), at(61, 101), at(120, 200)] == [0, 0, 0, 0, 0]
    assert [at(121, None), at(122, 1234), at(200, 1300)] == [0, 1, 1]
    assert told.notices[0].message == "1,234 records can be read and are not processed; the limit is 100"
    assert [at(300, 7), at(301, 200), at(361, 200)] == [1, 1, 2]


def test_an_endpoint_gets_what_it_wants(tmp_path: Path) -> None:
    failures, all_of_it = _Told(events=["failure"]), _Told()
    notifier = Notifier(_spec(tmp_path), [failures.endpoint, all_of_it.endpoint])
    notifier.on_checkpoint(_report(0, letters=1))
    notifier.on_lag(Lag((SourceLag("s", time.time(), (SplitLag(0.0, "s", "t/0", 10**9, 0),)),)))
    notifier.on_event(failure(PrepareError("no space"), 1.0))
    assert [each.event for each in failures.notices] == ["failure"]
    assert [each.event for each in all_of_it.notices] == ["dead-letters", "failure"]


def test_secrets_are_masked(tmp_path: Path) -> None:
    told = _Told()
    notifier = Notifier(_spec(tmp_path), [told.endpoint])
    secret = "the key of the gateway"
    notifier.on_event(failure(PrepareError(f"{secret} is wrong", remedy=f"not {secret}"), 1.0))
    (notice,) = told.notices
    assert secret not in repr(notice)


def test_a_run_tells_its_last_failure_once(tmp_path: Path, server: Server) -> None:
    spec, error = _spec(tmp_path, server.url), PrepareError("the disk is full")

    def fail(*, told: bool) -> None:
        with notified(spec) as (listener,):
            if told:
                listener.on_event(failure(error, 1.0))
            raise error

    with pytest.raises(PrepareError):
        fail(told=True)
    assert server.events() == ["failure"]
    with pytest.raises(PrepareError):
        fail(told=False)
    assert server.events() == ["failure", "failure"]
    assert server.got[1][2]["message"] == "the disk is full"
    with notified(spec):
        pass
    assert len(server.got) == 2


_JOB = """
from pyspark.sql import SparkSession
from eos import ExactlyOnce

spark = SparkSession.builder.master("local[1]").config("spark.authenticate", "true").getOrCreate()
words = spark.readStream.schema("id BIGINT, word STRING").json("in")
query = words.writeStream.foreachBatch(ExactlyOnce("spec.yaml")).option("checkpointLocation", "spark")
query.trigger(availableNow=True).start().awaitTermination()
"""
_JOB_SPEC = """
pipeline: copy
checkpoint: {location: state}
sinks: [{name: words, connector: sqlite, path: out.db, table: words, commit: write-ahead-log}]
notifications: [{name: chat, url: "%s"}]
"""


@pytest.mark.parametrize(
    ("columns", "said"), [("id INTEGER", "word"), ("id INTEGER, word TEXT CHECK (word <> 'bad')", "CHECK")]
)
def test_a_job_of_the_users_own_tells_its_failure(tmp_path: Path, server: Server, columns: str, said: str) -> None:
    """Once its start is refused, and once a checkpoint cannot be committed."""
    (tmp_path / "spec.yaml").write_text(_JOB_SPEC % server.url)
    (tmp_path / "job.py").write_text(_JOB)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 1, "word": "bad"}')
    with sqlite3.connect(tmp_path / "out.db") as database:
        database.execute(f"CREATE TABLE words ({columns})")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    job = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert (job.returncode, server.events()) == (1, ["failure"]), job.stderr[-3000:]
    assert said in server.got[0][2]["message"]


def test_an_error_of_a_request_ends_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "eos.notifications")
    sent: list[bytes] = []

    def request(_url: str, content: bytes, _headers: object) -> None:
        sent.append(content)
        if len(sent) == 1:
            raise ZeroDivisionError

    sender = Sender(_entry("https://h/x"), request)
    sender.send(_notice())
    sender.send(_notice())
    sender.finish()
    sender.join(time.monotonic() + 10)
    assert len(sent) == 2
    assert "ZeroDivisionError" in caplog.text
