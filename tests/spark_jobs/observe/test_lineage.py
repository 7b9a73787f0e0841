"""Lineage as a server of OpenLineage gets it: data sets, columns with their origins, rows, and how a run ended."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.client import OpenLineageClient

from connectors.spec import Spec, load_spec
from connectors.spec.sql_origins import origins
from spark_jobs.observe.lineage import listener
from spark_jobs.observe.lineage.listener import NAMESPACE, Lineage, lineage_of
from spark_jobs.observe.lineage.settings import secrets_of
from spark_jobs.observe.log_lines import MASKING
from spark_jobs.observe.recent_lines import RecentLines, collected
from tests.spark_jobs.page.test_metrics import report

_SPEC = """
pipeline: shop
checkpoint: {location: ./state}
sources:
  - {name: orders, connector: kafka, bootstrap_servers: "broker:9092,other:9092", topics: [orders, returns],
     format: {type: json, schema: "id BIGINT, Name STRING, amount INT"}}
  - {name: clicks, connector: kafka, bootstrap_servers: "broker:9092", topics: [clicks],
     format: {type: json, schema: "x BIGINT, y INT"}}
transforms:
  - name: big
    sql: SELECT id, upper(Name) AS title, amount * 2 AS twice FROM orders WHERE amount > 10 AND '%s' <> ''
  - name: both
    sql: |-
      WITH t AS (SELECT * FROM big)
      SELECT t.*, c.y + t.twice AS total, 1 AS one FROM t JOIN clicks c ON t.id = c.x
  - {name: judged, python: "steps:judge", from: both}
sinks:
  - {name: warehouse, from: both, connector: mysql, url: "mysql+pymysql://user:s3cr3t@db.local/shop", table: facts,
     commit: two-phase}
  - {name: events, from: judged, connector: kafka, bootstrap_servers: "broker:9092", topic: judged,
     commit: write-ahead-log}
"""

_SOURCES = {"orders": {"id": "bigint", "Name": "string", "amount": "int"}, "clicks": {"x": "bigint", "y": "int"}}
_SINKS = {
    "warehouse": {"id": "bigint", "title": "string", "twice": "int", "total": "int", "one": "int"},
    "events": {"verdict": "string"},
}


class Server:
    """An endpoint of OpenLineage on this machine, which keeps the events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.authorizations: set[str | None] = set()
        self.status = 200
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path.partition("?")[0] == "/api/v1/lineage"
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.events.append(json.loads(body))
                server.authorizations.add(self.headers["Authorization"])
                self.send_response(server.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    @property
    def states(self) -> list[str]:
        return [each["eventType"] for each in self.events]


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [each for each in os.environ if each.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    yield
    for name in [each for each in os.environ if each.startswith("OPENLINEAGE")]:
        del os.environ[name]  # the client sets some itself


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    found = Server()
    monkeypatch.setenv("OPENLINEAGE_URL", found.url)
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "k3y")
    threading.Thread(target=found.http.serve_forever, daemon=True).start()
    yield found
    found.http.shutdown()
    found.http.server_close()


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    path = tmp_path / "shop.yaml"
    path.write_text(_SPEC % "${env:PLANTED}")
    return load_spec(path, {"PLANTED": "pl4nted-secret"})


def test_a_run_sends_its_data_sets_columns_and_rows(
    server: Server, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAMESPACE, "production")
    with lineage_of(spec) as (lineage,):
        lineage.on_columns(_SOURCES, _SINKS)
        lineage.on_columns(_SOURCES, _SINKS)  # a restart of the query
        for number in (1, 2):
            lineage.on_checkpoint(report(number))
        lineage.on_checkpoint(replace(report(2), replayed=True))
    assert server.states == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    assert server.authorizations == {"Bearer k3y"}
    assert {(each["job"]["namespace"], each["job"]["name"]) for each in server.events} == {("production", "shop")}
    assert len({each["run"]["runId"] for each in server.events}) == 1
    first, last = server.events[0], server.events[-1]
    names = [(each["namespace"], each["name"]) for each in last["inputs"]]
    assert names == [("kafka://broker:9092", name) for name in ("orders", "returns", "clicks")]
    assert [(each["namespace"], each["name"]) for each in last["outputs"]] == [
        ("mysql://db.local:3306", "shop.facts"),
        ("kafka://broker:9092", "judged"),
    ]
    assert "schema" not in first["inputs"][0]["facets"]
    assert [each["name"] for each in last["inputs"][0]["facets"]["schema"]["fields"]] == ["id", "Name", "amount"]
    warehouse, events = last["outputs"]
    fields = warehouse["facets"]["columnLineage"]["fields"]
    found = {column: {(each["name"], each["field"]) for each in of["inputFields"]} for column, of in fields.items()}
    assert found == {
        "id": {("orders", "id"), ("returns", "id")},
        "title": {("orders", "Name"), ("returns", "Name")},
        "twice": {("orders", "amount"), ("returns", "amount")},
        "total": {("clicks", "y"), ("orders", "amount"), ("returns", "amount")},
        "one": set(),
    }
    assert "columnLineage" not in events["facets"], "behind a step in Python they are not known"
    assert "s3cr3t" not in json.dumps(server.events)
    assert "pl4nted" not in json.dumps(server.events)
    assert "-- both\nWITH t AS" in last["job"]["facets"]["sql"]["query"]


def test_rows_are_counted_by_sink(server: Server, spec: Spec) -> None:
    made = report(1)
    committables = made.record.committables
    written = next(iter(committables.values()))
    renamed = replace(made, record=replace(made.record, committables={"warehouse": written}))
    rows, size = sum(each.rows for each in written), sum(each.bytes for each in written)
    assert rows > 0
    with lineage_of(spec) as (lineage,):
        lineage.on_checkpoint(renamed)
        lineage.on_checkpoint(renamed)
    warehouse, events = server.events[-1]["outputs"]
    statistics = warehouse["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"]) == (2 * rows, 2 * size)
    assert "outputStatistics" not in events.get("outputFacets", {})


def test_rows_are_sent_once_a_minute(spec: Spec) -> None:
    sent: list[object] = []
    times_s = iter([0.0, 0.0, 1.0, 59.0, 60.0, 60.0, 61.0])  # two for each that is sent
    lineage = Lineage(spec, sent.append, clock=lambda: next(times_s))
    for _ in range(5):
        lineage.on_checkpoint(report(1))
    assert len(sent) == 2


def test_a_failed_run_says_why_without_secrets(server: Server, spec: Spec) -> None:
    with pytest.raises(ValueError, match="cannot"), lineage_of(spec):
        raise ValueError("cannot log in with s3cr3t")
    assert server.states == ["START", "FAIL"]
    assert server.events[-1]["run"]["facets"]["errorMessage"]["message"] == "cannot log in with ***"


def test_a_server_that_refuses_or_is_away_costs_events_only(
    spec: Spec, server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.status = 422
    with caplog.at_level(logging.WARNING, "eos"), lineage_of(spec):
        pass
    assert caplog.text.count("is not sent") == 2
    server.http.server_close()
    monkeypatch.setattr(listener, "_CLOSE_S", 0.5)
    begun_s = time.monotonic()
    with lineage_of(spec) as (lineage,):
        lineage.on_columns(_SOURCES, _SINKS)
        assert time.monotonic() - begun_s < 2
    assert time.monotonic() - begun_s < 15


def test_more_events_than_can_be_sent_are_dropped_and_named(spec: Spec, caplog: pytest.LogCaptureFixture) -> None:
    hold, sent = threading.Event(), []

    def emit(moment: object) -> None:
        hold.wait(30)
        sent.append(moment)

    emitter = listener.Emitter(emit)
    lineage = Lineage(spec, emitter.send)
    with caplog.at_level(logging.WARNING, "eos"):
        for _ in range(listener._MOST + 5):
            lineage.emit("RUNNING")
    assert "100 others wait" in caplog.text
    hold.set()
    emitter.close(10)
    assert len(sent) >= listener._MOST


@pytest.mark.parametrize("missing", ["variable", "package", "settings"])
def test_without_settings_or_client_nothing_is_sent(
    spec: Spec, missing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if missing == "package":
        monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
        monkeypatch.setitem(__import__("sys").modules, "openlineage.client", None)
    if missing == "settings":
        monkeypatch.setenv("OPENLINEAGE_CONFIG", "/nowhere.yml")
        monkeypatch.setattr(OpenLineageClient, "__init__", _refuse)
    with caplog.at_level(logging.WARNING, "eos"), lineage_of(spec) as listeners:
        assert listeners == ()
    assert ("no lineage is sent" in caplog.text) == (missing != "variable")


def test_a_file_in_the_current_folder_is_not_read(
    spec: Spec, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library prefers it to the variables, and sends the API key to the server that it names."""
    for folder in (tmp_path / "here", tmp_path / ".openlineage"):
        (folder / ".git").mkdir(parents=True)
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / ".git" / "config").write_text('[remote "origin"]\n    url = https://u:gitt0ken@example.com/x\n')
        (folder / "openlineage.yml").write_text('transport: {type: http, url: "http://127.0.0.1:1"}\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "here")
    with lineage_of(spec):
        pass
    assert server.states == ["START", "COMPLETE"]
    assert "gitt0ken" not in json.dumps(server.events)


def test_a_named_file_is_read(spec: Spec, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lineage.yml"
    file.write_text(f"transport: {{type: http, url: '{server.url}', auth: {{type: api_key, apiKey: filedk3y}}}}\n")
    monkeypatch.delenv("OPENLINEAGE_URL")
    monkeypatch.delenv("OPENLINEAGE_API_KEY")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(file))
    with lineage_of(spec):
        pass
    assert server.authorizations == {"Bearer filedk3y"}
    assert "filedk3y" in secrets_of(os.environ)


_KEY = "0l1n34g3-k3y"


@pytest.mark.parametrize(
    "variables",
    [
        {"OPENLINEAGE__TRANSPORT": f'{{"type": "http", "auth": {{"apiKey": "{_KEY}"'},
        {
            "OPENLINEAGE__TRANSPORT__TYPE": "http",
            "OPENLINEAGE__TRANSPORT__URL": "http://127.0.0.1:1",
            "OPENLINEAGE__TRANSPORT__AUTH": f'{{"type": "api_key", "apiKey": "{_KEY}\\n"}}',
        },
        {"OPENLINEAGE__TRANSPORT__AUTH__APIKEY": f"[{_KEY}"},
        {"OPENLINEAGE__TRANSPORT": f'{{"type": "http", "url": "no-scheme?key={_KEY}"}}'},
        {"OPENLINEAGE_API_KEY": f"{_KEY}\n"},
        {"OPENLINEAGE_ENDPOINT": f"api/v1/lineage?api_key={_KEY}"},
        {"OPENLINEAGE_URL": f"http://127.0.0.1:1/?api_key={_KEY}"},
        {"OPENLINEAGE_URL": f"http://u:{_KEY}@127.0.0.1:1"},
        {"OPENLINEAGE_CONFIG": f"transport: {{auth: {{apiKey: '{_KEY}"},
        {"OPENLINEAGE_CONFIG": f"transport: {{type: http, url: 'http://127.0.0.1:1', custom_headers: {{X: {_KEY}}}}}"},
    ],
)
def test_no_key_is_in_the_log(
    spec: Spec, server: Server, variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.status = 401
    monkeypatch.delenv("OPENLINEAGE_API_KEY")
    monkeypatch.setenv("OPENLINEAGE_CLIENT_LOGGING", "DEBUG")
    address = server.url.removeprefix("http://")
    variables = {name: value.replace("127.0.0.1:1", address) for name, value in variables.items()}
    if content := variables.get("OPENLINEAGE_CONFIG"):
        (tmp_path / "lineage.yml").write_text(content)
        variables = {"OPENLINEAGE_CONFIG": str(tmp_path / "lineage.yml")}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    lines = RecentLines()
    monkeypatch.setattr(MASKING, "secrets", frozenset())
    monkeypatch.setattr(logging.getLogger("eos"), "handlers", [])
    with collected({"shop": [lines]}), lineage_of(spec):
        pass
    logging.getLogger("openlineage").setLevel(logging.NOTSET)
    shown = "\n".join(lines.newest(500))
    assert "no lineage is sent" in shown or "is not sent" in shown
    assert _KEY not in shown


def _refuse(_client: object) -> None:
    raise ValueError("wrong")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id AS a FROM orders", {"a": {"id"}}),
        ("SELECT ID, NAME FROM Orders", {"id": {"id"}, "name": {"Name"}}),
        ("SELECT count(*) AS n, max(amount) AS m FROM orders GROUP BY id", {"n": set(), "m": {"amount"}}),
        ("SELECT id AS a FROM orders UNION ALL SELECT amount FROM orders", {"a": {"id", "amount"}}),
        ("SELECT s.* FROM (SELECT id + amount AS b FROM orders) s", {"b": {"id", "amount"}}),
        ("SELECT id FROM orders |> WHERE id > 1", None),  # sqlglot does not read it
        ("SELECT nothing FROM orders", None),
        ("SELECT id FROM elsewhere", None),
    ],
)
def test_origins_of_a_query(spec: Spec, sql: str, expected: dict[str, set[str]] | None) -> None:
    step = spec.transforms[0].model_copy(update={"sql": sql})
    found = origins(spec.model_copy(update={"transforms": [step]}), _SOURCES)[step.name]
    shown = {name: {column for _, column in of} for name, of in found.items()} if found is not None else None
    assert shown == expected
