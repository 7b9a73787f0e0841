"""Nobody else's page, script or name reaches through the page, and no secret leaves by it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from connectors.registry import open_requests
from connectors.spec import Spec
from spark_jobs.cli import run_command_line
from spark_jobs.observe.history.database import NAME
from spark_jobs.observe.history.model import AbortedAttempt, Event
from spark_jobs.observe.history.writer import HistoryWriter, Retention
from spark_jobs.observe.run_lock import present
from spark_jobs.page.auth import HIDDEN, MAX_BODY_BYTES
from spark_jobs.page.live_view import Live
from spark_jobs.page.metrics import Metrics
from spark_jobs.page.opening import READ_TOKEN_VARIABLE, PageOptions, given_token, opened
from spark_jobs.page.pipeline_view import PipelineView
from spark_jobs.page.server import AT_A_TIME, MOST, PageError
from tests.page_history import INCARNATION, RUN, SECRET, Names, live_through, no_sinks, spec_of
from tests.page_http import TOKEN, Client, client_of
from twophase.in_doubt import InDoubtTransaction
from twophase.requests import Answer

READ_TOKEN = "a-token-that-reads-only"
STOP = "/api/v1/pipelines/orders/stop"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    found = spec_of(tmp_path_factory.mktemp("page"))
    live_through(found, time.time() - 1, 8)
    return found


@pytest.fixture
def client(spec: Spec) -> Iterator[Client]:
    with present(spec, RUN), opened([spec], PageOptions(port=0, token=TOKEN), no_sinks) as page:
        yield Client(page.url)


def asked(spec: Spec) -> int:
    with open_requests(spec) as channel:
        return len(channel.pending())


def test_what_changes_something_takes_the_token(client: Client, spec: Spec) -> None:
    before = asked(spec)
    for token in (None, "", TOKEN[:-1], TOKEN.upper(), f"{TOKEN}x", "ä"):
        headers = {} if token is None else {"Authorization": f"Bearer {token}".encode().decode("latin-1")}
        for path in (STOP, STOP.replace("stop", "checkpoint"), "/", "/healthz"):
            reply = Client(client.url, token=None).post(path, **headers)
            assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer"), token
    for scheme in ("Basic", "Token", ""):
        assert Client(client.url, token=None).post(STOP, Authorization=f"{scheme} {TOKEN}").status == 401
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        assert Client(client.url, token=None).ask(method, STOP).status == 401
    assert asked(spec) == before
    assert client.post(STOP).status == 202
    assert asked(spec) == before + 1


def test_another_site_cannot_ask_even_with_the_token(client: Client, spec: Spec) -> None:
    before = asked(spec)
    netloc = client.url.split("/")[2]
    others = [
        "http://evil.example",
        "null",
        f"http://{netloc}.evil.example",
        "http://127.0.0.1:1",
        "file://",
        "http://[",
    ]
    for origin in others:
        assert client.post(STOP, Origin=origin).status == 403, origin
        assert client.get("/api/v1/pipelines", Origin=origin).status == 403, origin
    for site in ("cross-site", "same-site"):
        fetched = [client.get(path, **{"Sec-Fetch-Site": site}) for path in ("/api/v1/pipelines", "/openapi.json", "/")]
        assert [reply.status for reply in fetched] == [403, 403, 200]
    assert client.get("/api/v1/pipelines", **{"Sec-Fetch-Site": "none"}).status == 200
    assert asked(spec) == before
    assert client.post(STOP, Origin=f"http://{netloc}").status == 202
    reply = client.get("/api/v1/pipelines", Origin=f"http://{netloc}")
    assert not [name for name in reply.headers if name.startswith("access-control")]


def test_a_name_that_is_pointed_at_this_machine_does_not_lead_here(client: Client) -> None:
    port = client.url.rsplit(":", 1)[1].strip("/")
    for host in (
        f"evil.example:{port}",
        "evil.example",
        "",
        "127.0.0.1.evil.example",
        "[::1",
        "0.0.0.0",
        "localhost.x",
    ):
        for path in ("/api/v1/pipelines", "/", "/healthz"):
            assert client.get(path, Host=host).status == 421, host
    for host in (f"localhost:{port}", "localhost:9999", f"127.0.0.1:{port}", "[::1]:80", "LOCALHOST"):
        assert client.get("/api/v1/pipelines", Host=host).status == 200, host


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_everything_takes_the_token_but_the_page_itself_and_the_probes(spec: Spec, host: str) -> None:
    """On this machine as well: its other users reach the page."""
    options = PageOptions(host=host, port=0, read_token=READ_TOKEN)
    metrics = Metrics()
    metrics.listener(spec, run_id=RUN, version="0")
    with opened([spec], options, no_sinks, lives=[Live()], metrics=metrics.exposed) as page:
        port = page.url.rsplit(":", 1)[1].strip("/")
        assert (socket.gethostname() in page.url) == (host == "0.0.0.0")
        assert page.made_token is not None
        tokens = (None, page.made_token, READ_TOKEN, READ_TOKEN[:-1])
        stranger, friend, reader, guesser = (Client(f"http://127.0.0.1:{port}", token=each) for each in tokens)
        closed = ["/api/v1/pipelines", "/api/v1/pipelines/orders/spec", "/openapi.json", "/metrics"]
        assert [stranger.get(path).status for path in closed] == [401] * 4
        assert [guesser.get(path).status for path in closed] == [401] * 4
        assert [client.get(path).status for client in (friend, reader) for path in closed] == [200] * 8
        assert (reader.post(STOP).status, friend.post(STOP).status) == (403, 409)  # nobody runs it
        open_ = ["/", "/main.js", "/style.css", "/healthz"]
        assert [stranger.get(path).status for path in open_] == [200] * 4
        assert friend.get("/api/v1/pipelines", Host="eos.example").status == (200 if host == "0.0.0.0" else 421)


def test_the_token_that_reads_gets_no_record(tmp_path: Path) -> None:
    """Messages of errors quote records: of failures, of aborted attempts, and of answers to requests."""
    spec, now, row = spec_of(tmp_path), time.time(), '{"name": "Ann Other"}'
    last = live_through(spec, now - 60, checkpoints=10)
    quoting = f"1 of 3 rows fail the expectation known; one of them: {row}"
    live = Live()
    with closing(HistoryWriter(spec.checkpoint.folder / NAME, Retention(), now)) as writer:
        writer.write(
            [
                Event(now, "failure", quoting, "ExpectationError", "correct the producer", last, run_id=RUN),
                AbortedAttempt(INCARNATION, last, 4, 1, now, "ExpectationError", quoting),
            ],
            now,
        )
    with open_requests(spec) as channel:
        asked = channel.ask("stop", {}, asked_by="a test", patience_s=60)
        channel.answer(asked, Answer(ok=False, message=quoting, facts={"remedy": "correct the producer"}))
    of = "/api/v1/pipelines/orders"
    quotes = [f"{of}/failures", f"{of}/checkpoints/{last}", f"{of}/requests/{asked.id}"]
    names = "", "/checkpoints", "/checkpoints/summary", "/series?metric=rate", "/graph", "/sinks", "/spec", "/runs"
    with opened([spec], PageOptions(port=0, token=TOKEN, read_token=READ_TOKEN), no_sinks, lives=[live]) as page:
        steering, reading = Client(page.url), Client(page.url, READ_TOKEN)
        for path in (*quotes, *(of + name for name in names), "/api/v1/pipelines", "/metrics"):
            assert b"Ann Other" not in reading.get(path).body, path
        assert all(b"Ann Other" in steering.get(path).body for path in quotes)
        found = reading.get(f"{of}/failures").json
        (event,) = [each for each in found["events"] if each["error"] == "ExpectationError"]
        assert (event["message"], event["remedy"]) == (HIDDEN, "correct the producer")
        assert {each["reason"] for each in found["aborted"]} == {HIDDEN}
        assert reading.get(quotes[2]).json["state"] == "refused"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_the_page_of_all_addresses_answers_to_those_of_both_kinds(spec: Spec) -> None:
    with opened([spec], PageOptions(host="::", port=0, token=TOKEN), no_sinks) as page:
        port = page.url.rsplit(":", 1)[1].strip("/")
        for host in ("127.0.0.1", "[::1]"):
            assert Client(f"http://{host}:{port}").get("/api/v1/pipelines").status == 200, host
            assert Client(f"http://{host}:{port}", token=None).get("/api/v1/pipelines").status == 401, host


def test_every_answer_tells_the_browser_to_be_strict(client: Client) -> None:
    paths = [
        "/",
        "/main.js",
        "/style.css",
        "/nothing",
        "/api/v1/pipelines",
        "/api/v1/nothing",
        "/openapi.json",
        "/healthz",
    ]
    replies = [client.get(path) for path in paths]
    replies += [client.get("/", Host="evil.example"), Client(client.url, token=None).post(STOP)]
    assert {reply.status for reply in replies} == {200, 401, 404, 421}
    for reply in replies:
        policy = dict(part.split(" ", 1) for part in reply.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert "unsafe" not in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cache-control"] == "no-store"
        assert "server" not in reply.headers


def test_nothing_outside_of_the_page_is_served(client: Client) -> None:
    for path in ("/../api.py", "/..%2fapi.py", "/%2e%2e/api.py", "//etc/passwd", "/.git/config", "/__init__.py"):
        assert client.get(path).status == 404, path
    requests = "/api/v1/pipelines/orders/requests/"
    for request_id in ("..%2f..%2fhead%2f1", "1700000000000-0000000g", "x", "1700000000000-00000000%0a"):
        assert client.get(f"{requests}{request_id}").status in {404, 422}, request_id


DETOURS = (
    *("/%6detrics", "/metrics/", "//metrics", "/./metrics", "/x/../metrics", "/metrics?x=/", "/metrics#", "/metrics;x"),
    *("/%61pi/v1/pipelines", "/api%2fv1/pipelines", "/API/v1/pipelines", "//api/v1/pipelines", "/api/v1/pipelines/"),
    *(
        "/%2561pi/v1/pipelines",
        "/api\\v1\\pipelines",
        "\\api/v1/pipelines",
        "/api/v1/../v1/pipelines",
        "/openapi%2ejson",
    ),
    *("http://127.0.0.1/api/v1/pipelines", "http://evil.example/metrics", "http:/metrics", "*", "?/metrics", "metrics"),
    *("/api/v1/pipelines%00", "/metrics%0d%0aX: y", "/\xc0\xae/metrics", "/metrics\x0bx"),
)
"""Ways to write the path of what takes the token. Invariant: whatever resolves one asks for the token first."""

FRAMES = (
    "Content-Length: 0\r\nContent-Length: 5",
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding: xchunked",
    "Content-Length: +0",
    "Content-Length: 0x0",
    "Content-Length: -1",
    f"Content-Length: {'9' * 5000}",
    "Host: localhost\r\nContent-Length : 0",
    "X: y\n\nGET /metrics HTTP/1.1",
)
"""Headers by which two servers may find two ends of one request."""


def raw(client: Client, request: str) -> bytes:
    """All that the server answers to these bytes before it closes the connection, or is silent."""
    host, port = urlsplit(client.url).netloc.split(":")
    answer = b""
    with socket.create_connection((host, int(port)), timeout=10) as made:
        made.sendall(request.encode("latin-1"))
        made.settimeout(1)
        with suppress(TimeoutError, ConnectionResetError):
            while part := made.recv(65536):
                answer += part
    return answer


def test_no_detour_leads_past_the_token(spec: Spec) -> None:
    metrics = Metrics()
    metrics.listener(spec, run_id=RUN, version="0")
    with opened([spec], PageOptions(port=0, token=TOKEN), no_sinks, lives=[Live()], metrics=metrics.exposed) as page:
        client = Client(page.url)
        end = "Host: localhost\r\nConnection: close\r\n"
        known = raw(client, f"GET /metrics HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n{end}\r\n")
        assert b"eos_pipeline_info" in known
        for method in ("GET", "HEAD"):
            for path in DETOURS:
                answer = raw(client, f"{method} {path} HTTP/1.1\r\n{end}\r\n")
                assert b"eos_" not in answer, path
                assert b"orders" not in answer, path
        steered = asked(spec)
        for frame in FRAMES:
            behind = f"POST {STOP} HTTP/1.1\r\nAuthorization: Bearer {TOKEN[:-1]}\r\n{end}\r\n"
            answer = raw(client, f"POST {STOP} HTTP/1.1\r\nHost: localhost\r\n{frame}\r\n\r\n{behind}")
            assert b" 200 " not in answer, frame
            assert b" 202 " not in answer, frame
        assert asked(spec) == steered
        assert client.get("/healthz").status == 200


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def silent(client: Client, most: int) -> list[socket.socket]:
    """Connections that send half a request, and nothing more."""
    host, port = urlsplit(client.url).netloc.split(":")
    made = []
    for _ in range(most):
        made.append(socket.create_connection((host, int(port)), timeout=10))
        made[-1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    return made


def test_who_holds_connections_keeps_nobody_out_and_takes_no_files_from_the_driver(client: Client) -> None:
    before = open_files()
    held = silent(client, 4 * MOST)
    try:
        for path in ("/healthz", "/api/v1/pipelines", "/"):
            assert client.get(path).status == 200, path
        theirs = open_files() - before - len(held)
        assert theirs <= MOST + AT_A_TIME
        with suppress(ConnectionResetError):
            assert held[0].recv(1) == b"", "the one that was quiet for longest has made room"
    finally:
        for each in held:
            each.close()


def test_a_head_that_is_away_holds_up_no_probe(client: Client, spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody who looks waits for it, in all the threads that there are."""
    away = threading.Event()
    monkeypatch.setattr(PipelineView, "head", lambda _watched: away.wait(60) and None)
    asking = [threading.Thread(target=client.get, args=("/api/v1/pipelines/orders",)) for _ in range(45)]
    for each in asking:
        each.start()
    try:
        time.sleep(1)
        began_s = time.monotonic()
        assert client.get("/healthz").status == 200
        assert time.monotonic() - began_s < 5
    finally:
        away.set()
        for each in asking:
            each.join()


def test_nonsense_is_refused_and_fills_no_log(client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    host, port = urlsplit(client.url).netloc.split(":")
    for nonsense in (b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\n\r\n", b"GET /" + b"x" * 100_000):
        with socket.create_connection((host, int(port)), timeout=10) as connection, suppress(ConnectionError):
            connection.sendall(nonsense + b"\r\n\r\n")
            assert b" 400 " in connection.recv(100)
    assert client.get("/healthz").status == 200
    assert capfd.readouterr().err == ""


def test_too_much_is_not_read(client: Client) -> None:
    assert client.post(STOP, {"now": False, "x": "x" * MAX_BODY_BYTES}).status == 413
    assert client.ask("POST", STOP, b"", {"Content-Length": "-1"}).status in {400, 413}
    assert client.ask("POST", STOP, headers={"Transfer-Encoding": "chunked"}).status == 413


def test_no_secret_is_in_any_answer(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    live_through(spec, time.time() - 1, 8)
    with open_requests(spec) as channel:
        channel.ask("stop", {}, asked_by=f"somebody with {SECRET}", patience_s=60)
        (request,) = channel.pending()

    def held(_spec: Spec) -> list[InDoubtTransaction]:
        raise PageError(f"postgresql+psycopg://eos:{SECRET}@db/shop does not answer", remedy=f"try {SECRET}")

    live, metrics = Live(), Metrics()
    listener = metrics.listener(spec, run_id=SECRET, version="0")
    for each in (live, listener):
        each.on_state(f"restarting, since {SECRET} is wrong")
    with (
        present(spec, RUN),
        opened([spec], PageOptions(port=0, token=TOKEN), held, lives=[live], metrics=metrics.exposed) as page,
    ):
        client = Client(page.url)
        of = "/api/v1/pipelines/orders"
        names = ["", "/checkpoints", "/checkpoints/3", "/checkpoints/summary", "/sinks", "/failures", "/runs", "/spec"]
        paths = [*(of + name for name in names), f"{of}/transactions", f"{of}/requests/{request.id}", f"{of}/{SECRET}"]
        bodies = [client.get(path).body.decode() for path in [*paths, f"/api/v1/{SECRET}", "/metrics", "/openapi.json"]]
        bodies.append(client.post(f"{of}/stop", {SECRET: 1}).body.decode())
        assert [path for path, body in zip(paths, bodies, strict=False) if SECRET in body] == []
        assert not [body for body in bodies if SECRET in body]
        assert sum("***" in body for body in bodies) >= 6
        assert "sasl.password: '***'" in client.api("orders/spec")["text"]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    names = Names("<script>alert(1)</script>", "<img src=x onerror=alert(2)>", '"><svg onload=alert(3)>')
    spec = spec_of(tmp_path, names)
    live_through(spec, time.time() - 1, 4)
    with opened([spec], PageOptions(port=0, token=TOKEN), no_sinks) as page:
        client = Client(page.url)
        (one,) = client.get("/api/v1/pipelines").json["pipelines"]
        assert (one["key"], one["name"]) == ("script-alert-1-script", names.pipeline)
        reply = client.get(f"/api/v1/pipelines/{one['key']}/sinks")
        assert reply.headers["content-type"] == "application/json"
        assert reply.json["sinks"][0]["name"] == names.sink
        assert names.table in reply.json["sinks"][0]["where"]
        assert not [path for path in ("/", "/main.js") if b"alert(" in client.get(path).body]


def test_the_token_is_made_or_given(tmp_path: Path, spec: Spec) -> None:
    with opened([spec], PageOptions(port=0), no_sinks) as one, opened([spec], PageOptions(port=0), no_sinks) as two:
        tokens = {page.entry.partition("#token=")[2] for page in (one, two)}
        assert len(tokens) == 2
        assert min(map(len, tokens)) >= 32
        assert "#" not in one.url
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert given_token(file, {"EOS_UI_TOKEN": "another-token-of-somebody"}) == TOKEN
    assert given_token(None, {"EOS_UI_TOKEN": TOKEN}) == TOKEN
    assert given_token(None, {"EOS_UI_TOKEN": f"{TOKEN}\n"}) == TOKEN
    assert given_token(None, {}) is None
    assert (
        given_token(None, {"EOS_UI_TOKEN": TOKEN, "EOS_UI_READ_TOKEN": READ_TOKEN}, READ_TOKEN_VARIABLE) == READ_TOKEN
    )
    for wrong in ("short", "x" * 15, "with a blank in its middle", "ä" * 20, ""):
        file.write_text(wrong)
        with pytest.raises(PageError, match="at least 16"):
            given_token(file, {})
    with pytest.raises(PageError, match="cannot be read"):
        given_token(tmp_path / "nothing", {})


def test_a_port_that_is_taken_is_said(
    spec: Spec, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        path = spec.folder / "pipeline.yaml"
        assert run_command_line(["ui", str(path), "--port", str(port)]) == 1
        said = capsys.readouterr().err
        assert f"the page cannot be served at port {port} of 127.0.0.1: Address already in use" in said
        assert "choose another port (0: any that is free)" in said
        assert run_command_line(["run", str(path), "--ui", "--ui-port", str(port)]) == 1
        assert f"port {port}" in capsys.readouterr().err


def test_eos_ui_serves_until_it_is_stopped(spec: Spec) -> None:
    program = [sys.executable, "-c", "from spark_jobs.cli import main; main()", "ui", "pipeline.yaml", "--port", "0"]
    environment = {**os.environ, "SECRET": SECRET, "PYTHONPATH": str(Path(__file__).parents[3])}
    process = subprocess.Popen(program, cwd=spec.folder, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "#token=" not in line  # a container's log would keep it
        client = client_of(line)
        (kept,) = (spec.checkpoint.folder / "run").glob("*.token")
        assert kept.stat().st_mode & 0o777 == 0o600
        found = client.api("orders")
        assert (found["state"], found["can_steer"], found["last"]["checkpoint_id"]) == ("killed", False, 7)
        with present(spec, RUN):
            assert client.post(STOP).status == 202
            assert Client(client.url, "wrong").post(STOP).status == 401
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert not kept.exists()
    assert json.loads(json.dumps(found)) == found


def test_a_terminal_shows_the_token_in_the_url(spec: Spec) -> None:
    """It is opened from there, and nothing keeps it."""
    ours, theirs = os.openpty()
    program = [sys.executable, "-c", "from spark_jobs.cli import main; main()", "ui", "pipeline.yaml", "--port", "0"]
    environment = {**os.environ, "SECRET": SECRET, "PYTHONPATH": str(Path(__file__).parents[3])}
    process = subprocess.Popen(program, cwd=spec.folder, env=environment, stdout=theirs)
    try:
        url, _, token = os.read(ours, 1_000).decode().removeprefix("page: ").strip().partition("#token=")
        assert Client(url, token).api("orders")["name"] == "orders"
        assert not list((spec.checkpoint.folder / "run").glob("*.token"))
    finally:
        process.terminate()
        assert process.wait(20) == 0
        os.close(ours)
        os.close(theirs)
