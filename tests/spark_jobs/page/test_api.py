"""What the API answers over a history of an hour: figures that add up, in the form that its document describes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from connectors.registry import open_requests
from connectors.spec import Spec, load_spec
from eos.errors import SinkUnavailableError
from spark_jobs.observe.activity import Activity, TaskCounts
from spark_jobs.observe.history.database import NAME
from spark_jobs.observe.history.entries import Measured, RunEnded
from spark_jobs.observe.history.model import Ending, Event, Phases, RuleCount, StateOperator, StateSize
from spark_jobs.observe.history.store import History
from spark_jobs.observe.history.writer import HistoryWriter, Retention
from spark_jobs.observe.lag import Lag, read_lag, write_lag
from spark_jobs.observe.run_lock import present
from spark_jobs.observe.withheld import Poll, Withheld
from spark_jobs.page.live_view import Live
from spark_jobs.page.metrics import Metrics
from spark_jobs.page.opening import PageOptions, opened
from spark_jobs.page.pipeline_view import watch
from tests.history_values import writing
from tests.page_history import INCARNATION, RUN, SECRET, Names, live_through, put_letters, spec_of
from tests.page_http import TOKEN, Client
from twophase.head_value import HeadValue
from twophase.ids import Scope, TransactionId, sink_key
from twophase.in_doubt import InDoubtTransaction, in_doubt_transaction
from twophase.participants import Prepared
from twophase.requests import Answer

CHECKPOINTS = 120
OPTIONS = PageOptions(port=0, token=TOKEN)


class Sinks:
    """Sinks that are asked what they hold: how often, and what they say."""

    def __init__(self) -> None:
        self.asked, self.are_away = 0, False

    def __call__(self, spec: Spec) -> list[InDoubtTransaction]:
        self.asked += 1
        if self.are_away:
            message = "the server is away"
            raise SinkUnavailableError(message, remedy="start it")
        transaction = TransactionId(Scope(INCARNATION, 4, CHECKPOINTS), sink_key("warehouse"), 0, 7)
        head = HeadValue("orders", INCARNATION, 4, ("n",), completed=CHECKPOINTS - 1)
        return [in_doubt_transaction(head, {}, "warehouse", Prepared(transaction, "x"))]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    found = spec_of(tmp_path_factory.mktemp("page"))
    live_through(found, time.time() - 1, CHECKPOINTS)
    put_letters(found, ())
    return found


@pytest.fixture
def sinks() -> Sinks:
    return Sinks()


@pytest.fixture
def client(spec: Spec, sinks: Sinks) -> Iterator[Client]:
    with opened([spec], OPTIONS, sinks) as page:
        yield Client(page.url)


@pytest.fixture
def running(spec: Spec) -> Iterator[None]:
    with present(spec, RUN):
        yield


def test_every_answer_is_as_the_document_says(client: Client, running: None) -> None:
    document = client.get("/openapi.json").json
    parameters = {"pipeline": "orders", "checkpoint_id": "77", "metric": "rate"}
    seen = []
    for path, operations in document["paths"].items():
        if "get" not in operations or not path.startswith("/api/") or "request_id" in path or "letter_id" in path:
            continue
        queries = {"series": "?metric=rate&metric=phases", "log": "?of=spark"}
        query = queries.get(path.rpartition("/")[2], "")
        reply = client.get(path.format(**parameters) + query)
        assert reply.status == 200, (path, reply.body)
        _assert_fits(document, operations["get"]["responses"]["200"], reply.json)
        refused = client.get(path.format(**{**parameters, "pipeline": "nobody"}) + query)
        if "{pipeline}" in path:
            assert refused.status == 404
            _assert_fits(document, operations["get"]["responses"]["404"], refused.json)
        seen.append(path)
    assert len(seen) == 14
    asked = client.post("/api/v1/pipelines/orders/stop", {"now": True})
    operation = document["paths"]["/api/v1/pipelines/{pipeline}/stop"]["post"]
    _assert_fits(document, operation["responses"]["202"], asked.json)
    for kind in ("pause", "resume"):
        path = f"/api/v1/pipelines/{{pipeline}}/{kind}"
        answer = client.post(path.format(pipeline="orders"))
        assert (answer.status, answer.json["kind"]) == (202, kind)
        _assert_fits(document, document["paths"][path]["post"]["responses"]["202"], answer.json)
    wrong = client.post("/api/v1/pipelines/orders/stop", {"now": "perhaps", "then": 1})
    assert wrong.status == 422
    _assert_fits(document, operation["responses"]["422"], wrong.json)


def _assert_fits(document: dict[str, Any], response: dict[str, Any], answer: object) -> None:
    schema = response["content"]["application/json"]["schema"]
    assert "$ref" in schema
    jsonschema.validate(answer, {**schema, "components": document["components"]})


def test_the_overview_of_a_running_pipeline_and_of_one_that_was_killed(client: Client, spec: Spec) -> None:
    killed = client.api("orders")
    assert (killed["state"], killed["is_running"], killed["can_steer"]) == ("killed", False, False)
    with present(spec, RUN):
        found = client.api("orders")
    assert (found["state"], found["is_running"], found["can_steer"]) == ("running", True, True)
    assert found["head"] == {"epoch": 4, "incarnation": INCARNATION, "completed": 119, "committed": 117, "waiting": 2}
    assert found["totals"]["checkpoints"] == CHECKPOINTS
    assert found["totals"]["skipped"] == client.api("orders/checkpoints/summary")["skipped"] == 5
    assert (found["totals"]["aborted"], found["totals"]["failures"], found["totals"]["restarts"]) == (1, 1, 1)
    assert [each["split"] for each in found["lag"]] == ["orders/0", "orders/1", "orders/2"]
    assert found["lag_records"] == sum(each["end"] - each["position"] for each in found["lag"]) > 0
    assert found["last"]["checkpoint_id"] == 119
    assert found["last"]["duration_s"] is None
    assert found["last_duration_s"] > 0.5
    assert found["throughput"]["records_per_s"] > 1000
    assert found["problems"] == []


def test_a_paused_pipeline_offers_to_resume_and_no_checkpoint(client: Client, spec: Spec) -> None:
    with present(spec, RUN):
        running = client.api("orders")
        _write_state(spec, "paused")
        paused = client.api("orders")
    assert (running["state"], running["actions"]) == (
        "running",
        ["checkpoint", "savepoint", "pause", "restart", "stop"],
    )
    assert (paused["state"], paused["actions"]) == ("paused", ["resume", "restart", "stop"])


def _write_state(spec: Spec, state: str) -> None:
    writer = HistoryWriter(spec.checkpoint.folder / NAME, Retention(), time.time())
    writer.write([Event(time.time(), "state", state, run_id=RUN)], time.time())
    writer.close()


def test_the_lag_is_known_with_its_age_or_unknown_with_a_reason(client: Client, spec: Spec) -> None:
    found = client.api("orders")
    assert (found["lag_records"], found["lag_measured"], found["lag_unknown"]) == (4_000, 4_000, "")
    assert found["lag_age_s"] == pytest.approx(found["now"] - found["lag_at"])
    (source,) = read_lag(spec.checkpoint.folder, ["orders"]).sources
    write_lag(spec.checkpoint.folder, Lag((source.failed(f"no answer: {SECRET}"),)))
    found = client.api("orders")
    assert (found["lag_records"], found["lag_measured"], found["lag_at"]) == (None, 4_000, source.at)
    assert found["lag_unknown"].startswith("no answer: ")
    assert SECRET not in found["lag_unknown"]
    assert len(found["lag"]) == 3
    (spec.checkpoint.folder / "lag.json").unlink()
    found = client.api("orders")
    assert (found["lag_records"], found["lag_age_s"], found["lag"]) == (None, None, [])
    assert found["lag_unknown"] == "not measured yet"


def test_what_rules_of_steps_have_seen(client: Client, spec: Spec) -> None:
    assert client.api("orders")["expectations"] == client.api("orders/checkpoints/78")["expectations"] == []
    rules = (RuleCount("big", "positive", "skip", 1200, 3),)
    with writing(spec.checkpoint.folder / NAME) as writer:
        writer.write([Measured(INCARNATION, 78, Phases(), None, (), None, {}, rules)], time.time())
    expected = [{"step": "big", "rule": "positive", "action": "skip", "rows": 1200, "failed": 3}]
    assert client.api("orders")["expectations"] == client.api("orders/checkpoints/78")["expectations"] == expected


def test_records_that_cannot_be_read_yet(client: Client, spec: Spec) -> None:
    assert client.api("orders")["withheld"] == []
    Withheld(spec.checkpoint.folder, {}).observe([Poll("orders", 1000.0, "a transaction", {"orders/2": (5, 25)})])
    found = client.api("orders")
    assert found["withheld_records"] == 20
    assert found["withheld"] == [
        {
            "at": 1000.0,
            "since": 1000.0,
            "source": "orders",
            "split": "orders/2",
            "begin": 5,
            "end": 25,
            "records": 20,
            "reason": "a transaction",
        }
    ]


def test_pages_of_checkpoints_have_each_once(client: Client) -> None:
    found: list[int] = []
    page = client.api("orders/checkpoints?limit=50")
    while True:
        found += [each["checkpoint_id"] for each in page["checkpoints"]]
        if page["before"] is None:
            break
        page = client.api(f"orders/checkpoints?limit=50&before={page['before']}")
    assert found == list(reversed(range(CHECKPOINTS)))


def test_one_checkpoint_whole(client: Client, spec: Spec) -> None:
    found = client.api("orders/checkpoints/77")
    assert client.api(f"orders/checkpoints/77?incarnation={INCARNATION}") == found
    checkpoint, kept = found["checkpoint"], History.at(spec.checkpoint.folder).checkpoint(77)
    assert kept is not None
    assert (checkpoint["attempt"], checkpoint["skipped"]) == (2, 5)
    assert [(each["attempt"], each["error"]) for each in found["aborted"]] == [(1, "SinkUnavailableError")]
    assert sum(each["end"] - each["start"] for each in found["ranges"]) == pytest.approx(checkpoint["records"], abs=3)
    assert len(found["acknowledgements"]) == 8 == checkpoint["writers"]
    assert checkpoint["rows"] == sum(each["rows"] for each in checkpoint["sinks"]) == kept.checkpoint.rows
    assert checkpoint["duration_s"] == pytest.approx(sum(checkpoint["phases"].values()), rel=0.01)
    for path in ("orders/checkpoints/5000", "orders/checkpoints/77?incarnation=another"):
        assert client.get(f"/api/v1/pipelines/{path}").status == 404


def test_charts_cover_every_record_that_was_decided(client: Client, spec: Spec) -> None:
    now, all_of_it = time.time(), History.at(spec.checkpoint.folder).totals()
    found = client.api(f"orders/series?metric=rate&metric=lag&since={now - 600}&until={now + 60}&buckets=40")
    rate, lag = found["charts"]
    assert (rate["unit"], lag["unit"], found["width_s"], found["buckets"]) == (
        "1/s",
        "1",
        30,
        len(lag["lines"][0]["values"]),
    )
    assert found["checkpoints"] == CHECKPOINTS
    records, rows = (sum(filter(None, line["values"])) * found["width_s"] for line in rate["lines"])
    assert (round(records), round(rows)) == (all_of_it.records, all_of_it.rows)
    assert lag["lines"][0]["values"][0] is None
    for query in ("metric=rate&buckets=0", "metric=speed", "", "metric=rate&since=-1", "metric=rate&since=nan"):
        assert client.get(f"/api/v1/pipelines/orders/series?{query}").status == 422, query
    far = client.api("orders/series?metric=lag&since=0&until=9999999999&buckets=500")
    assert far["buckets"] <= 500


def test_checkpoints_are_in_a_chart_before_their_bucket_has_passed(tmp_path: Path, sinks: Sinks) -> None:
    spec, now = spec_of(tmp_path), time.time()
    live_through(spec, now - 1, 12)
    with opened([spec], OPTIONS, sinks) as page:
        found = Client(page.url).api(f"orders/series?metric=rate&metric=duration&since={now - 86_400}&buckets=72")
    assert (found["width_s"], found["checkpoints"]) == (1800, 12)
    for chart in found["charts"]:
        shown = [value for value in chart["lines"][0]["values"] if value]
        assert shown, chart["metric"]


def test_throughput_is_of_several_checkpoints_however_far_they_are_apart(tmp_path: Path, sinks: Sinks) -> None:
    spec = spec_of(tmp_path)
    live_through(spec, time.time() - 70, 60)  # the newest was a minute ago, as the one before it, had it this interval
    spec = spec.model_copy(update={"checkpoint": spec.checkpoint.model_copy(update={"interval_s": 60.0})})
    with opened([spec], OPTIONS, sinks) as page:
        found = Client(page.url).api("orders")["throughput"]
    assert found["window_s"] == 300.0
    records = History.at(spec.checkpoint.folder).totals().records
    assert found["records_per_s"] == pytest.approx(records / 300.0, rel=0.001)


def test_sql_keeps_its_lines_in_the_spec(tmp_path: Path, sinks: Sinks) -> None:
    path = spec_of(tmp_path).folder / "pipeline.yaml"
    sql = '"SELECT id, user, amount FROM orders WHERE amount > 10"'
    lines = "|\n      SELECT id, user, amount\n      FROM orders\n      WHERE amount > 10\n"
    text = path.read_text().replace("{name: big, sql: " + sql + "}", f"name: big\n    sql: {lines}")
    path.write_text(text)
    with opened([load_spec(path, {"SECRET": SECRET})], OPTIONS, sinks) as page:
        shown = Client(page.url).api("orders/spec")["text"]
    assert "    sql: |\n      SELECT id, user, amount\n      FROM orders\n" in shown
    assert "\\n" not in shown


def test_sinks_and_how_far_they_are_behind(client: Client, spec: Spec) -> None:
    warehouse, archive, dead = client.api("orders/sinks")["sinks"]
    assert (warehouse["name"], archive["name"], dead["is_dead_letter"]) == ("warehouse", "archive", True)
    assert [each["backlog_checkpoints"] for each in (warehouse, archive, dead)] == [0, 2, 0]
    assert archive["backlog_rows"] > 0
    assert warehouse["rows"] + archive["rows"] + dead["rows"] == History.at(spec.checkpoint.folder).totals().rows
    assert dead["rows"] == 3


def test_the_graph_has_the_rows_of_the_newest_checkpoint(client: Client, spec: Spec) -> None:
    found = client.api("orders/graph")
    kinds = {each["name"]: each["kind"] for each in found["nodes"]}
    assert kinds == {
        "orders": "source", "big": "step", "warehouse": "sink", "archive": "sink", "dead_letter": "dead-letter",
    }  # fmt: skip
    whole = client.api(f"orders/checkpoints/{found['checkpoint_id']}")
    records = sum(each["end"] - each["start"] for each in whole["ranges"])
    rows = {each["sink"]: each["rows"] for each in whole["checkpoint"]["sinks"]}
    assert {(each["source"], each["target"]): each["rows"] for each in found["edges"]} == {
        ("orders", "big"): records,
        ("big", "warehouse"): rows["warehouse"],
        ("big", "archive"): rows["archive"],
        ("orders", "dead_letter"): rows["dead_letter"],
    }
    assert records > rows["warehouse"] > 0
    behind = {each["name"]: each["behind"] for each in found["nodes"]}
    assert (behind["archive"], behind["orders"]) == (2, sum(each["records"] for each in whole["lag"]))
    assert SECRET not in str(found)


def test_the_graph_of_a_job_of_ones_own(tmp_path: Path, sinks: Sinks) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(
        "pipeline: own\ncheckpoint: {location: ./state}\n"
        "sinks: [{name: out, connector: sqlite, path: ./out.db, table: t, commit: write-ahead-log}]\n"
    )
    with opened([load_spec(path, {})], OPTIONS, sinks) as page:
        found = Client(page.url).api("own/graph")
    assert [(each["name"], each["kind"]) for each in found["nodes"]] == [("your query", "job"), ("out", "sink")]
    assert found["edges"] == [{"source": "your query", "target": "out", "rows": None}]
    assert found["checkpoint_id"] is None


def test_failures_and_runs(client: Client, spec: Spec) -> None:
    found = client.api("orders/failures")
    failures = found["events"]
    assert [(each["checkpoint_id"], each["attempt"]) for each in found["aborted"]] == [(77, 1)]
    assert [each["kind"] for each in failures] == ["restart", "failure"]
    assert (failures[1]["error"], failures[1]["checkpoint_id"]) == ("SinkUnavailableError", CHECKPOINTS // 2)
    assert [each["ended"] for each in client.api("orders/runs")["runs"]] == [None, "stopped"]
    (killed,) = found["killed"]
    assert (killed["run_id"], killed["pid"], killed["host"]) == (RUN, 20817, "worker-1")
    assert killed["last_at"] == pytest.approx(failures[0]["at"], abs=300)
    with present(spec, RUN):
        assert client.api("orders/failures")["killed"] == []


def test_sinks_are_asked_what_they_hold_only_now_and_then(client: Client, sinks: Sinks) -> None:
    sinks.are_away = True
    away = client.get("/api/v1/pipelines/orders/transactions")
    assert (away.status, away.json["error"]) == (503, {"message": "the server is away", "remedy": "start it"})
    sinks.are_away = False
    first, second = client.api("orders/transactions"), client.api("orders/transactions")
    assert first == second
    assert sinks.asked == 2
    (held,) = first["transactions"]
    assert (held["sink"], held["checkpoint_id"], held["then"]) == ("warehouse", CHECKPOINTS, "not decided")


def test_what_is_asked_goes_through_the_channel(client: Client, spec: Spec) -> None:
    nobody = client.post("/api/v1/pipelines/orders/checkpoint")
    assert (nobody.status, nobody.problem) == (409, "no process runs orders")
    with present(spec, RUN), open_requests(spec) as channel:
        posted = [
            client.post("/api/v1/pipelines/orders/checkpoint"),
            client.post("/api/v1/pipelines/orders/savepoint"),
            client.post("/api/v1/pipelines/orders/stop", {"now": True}),
            client.post("/api/v1/pipelines/orders/restart"),
        ]
        assert [reply.status for reply in posted] == [202, 202, 202, 202]
        by_id = {each.id: each for each in channel.pending()}
        pending = [by_id[reply.json["id"]] for reply in posted]
        assert [(each.kind, dict(each.arguments)) for each in pending] == [
            ("checkpoint", {}),
            ("savepoint", {}),
            ("stop", {"now": "true"}),
            ("restart", {}),
        ]
        assert all(each.asked_by.startswith("the page at ") for each in pending)
        paths = [reply.headers["location"] for reply in posted]
        assert client.get(paths[0]).json["state"] == "waiting"
        channel.answer(pending[0], Answer(ok=True, message="done", facts={"checkpoint": 120}))
        channel.answer(pending[1], Answer(ok=False, message="no room"))
        told = [client.get(path).json for path in paths]
        assert [each["state"] for each in told] == ["done", "refused", "waiting", "waiting"]
        assert (told[0]["facts"], told[1]["message"]) == ({"checkpoint": 120}, "no room")
        channel.withdraw(pending[2])
        assert client.get(paths[2]).status == 404


@pytest.mark.parametrize(
    ("text", "state", "detail"),
    [
        ("starting", "starting", ""),
        ("standby for process 7 at host-b", "standby", "standby for process 7 at host-b"),
        ("running", "running", ""),
        ("restarting in 1.0 s", "restarting", "restarting in 1.0 s"),
        ("stopping", "stopping", ""),
        ("stopped", "stopping", ""),  # and its process still lives
    ],
)
def test_the_state_that_a_run_tells(spec: Spec, sinks: Sinks, text: str, state: str, detail: str) -> None:
    live = Live()
    with opened([spec], OPTIONS, sinks, lives=[live]) as page:  # Spark starts, and nobody holds the location yet
        assert Client(page.url).api("orders")["state"] == "starting"
    live.on_state(text)
    with present(spec, RUN), opened([spec], OPTIONS, sinks, lives=[live]) as page:
        client = Client(page.url)
        found = client.api("orders")
        assert (found["state"], found["detail"]) == (state, detail)
        assert client.get("/readyz").status == (200 if state in {"running", "standby"} else 503)
        assert client.get("/healthz").status == 200
        live.is_steered = lambda: False
        assert client.get("/healthz").status == 503


def test_the_checkpoint_in_progress(spec: Spec, sinks: Sinks) -> None:
    live, calls = Live(), list[float]()
    found = Activity("tasks", 101.0, "tasks", 7, 100.0, tasks=TaskCounts(16, 12, 4, 0))

    def activity() -> Activity:
        calls.append(time.monotonic())
        return found

    live.activity, live.spark_ui = activity, "http://127.0.0.1:4040"
    live.on_state("running")
    live.on_state_size(
        StateSize(7, (StateOperator(0, "totals", "stateStoreSave", 12_000, 300, 20, 7, 5_000_000, 41),), 99.0, 50.0)
    )
    with present(spec, RUN), opened([spec], OPTIONS, sinks, lives=[live]) as page:
        client = Client(page.url)
        shown = [client.api("orders") for _ in range(5)][-1]
    assert len(calls) < 5 or calls[-1] - calls[0] > 4, "tasks are counted once a second, however many ask"
    assert (shown["in_progress"]["checkpoint_id"], shown["in_progress"]["tasks"]["done"]) == (7, 12)
    (operator,) = shown["state_size"]["by_operator"]
    assert (operator["step"], operator["dropped"], operator["commit_ms"]) == ("totals", 7, 41)
    assert (shown["state_size"]["operators"], shown["state_size"]["watermark"]) == (1, 50)
    assert (shown["state_size"]["rows"], shown["spark_ui"], shown["run_page"]) == (12_000, live.spark_ui, None)
    with present(spec, RUN, "http://127.0.0.1:8080/"), opened([spec], OPTIONS, sinks) as page:
        shown = Client(page.url).api("orders")
    assert (shown["in_progress"], shown["spark_ui"], shown["run_page"]) == (None, None, "http://127.0.0.1:8080/")


@pytest.mark.parametrize("ended", ["stopped", "caught up", "failed"])
def test_one_that_has_ended_beside_others_that_go_on_does_not_run(tmp_path: Path, sinks: Sinks, ended: Ending) -> None:
    live, spec, metrics = Live(), spec_of(tmp_path), Metrics()
    for each in (live, figures := metrics.listener(spec, run_id=RUN, version="0")):
        each.on_state("running")
    with opened([spec], OPTIONS, sinks, lives=[live], metrics=metrics.exposed) as page:
        client = Client(page.url)
        assert client.get("/readyz").status == 200
        for each in (live, figures):
            each.on_state(ended)
        assert (client.api("orders")["state"], client.get("/readyz").status) == (ended, 503)
        assert client.get("/healthz").status == 200, "the others need this process"
        assert 'eos_up{pipeline="orders"} 0.0' in client.get("/metrics").body.decode()


def test_a_run_that_has_told_its_end_was_not_killed(tmp_path: Path, sinks: Sinks) -> None:
    """Between its end and that of its process, which sends the last traces."""
    spec = spec_of(tmp_path)
    live_through(spec, time.time(), 2)
    _write_state(spec, "stopped")
    with opened([spec], OPTIONS, sinks) as page:
        assert Client(page.url).api("orders")["state"] == "stopped"


@pytest.mark.parametrize("ended", ["stopped", "caught up", "failed"])
def test_the_state_in_which_a_run_has_ended(tmp_path: Path, sinks: Sinks, ended: Ending) -> None:
    spec = spec_of(tmp_path)
    live_through(spec, time.time(), 2)
    writer = HistoryWriter(spec.checkpoint.folder / NAME, Retention(), time.time())
    writer.write([RunEnded(RUN, time.time(), ended)], time.time())
    writer.close()
    with opened([spec], OPTIONS, sinks) as page:
        found = Client(page.url).api("orders")
        assert (found["state"], found["is_running"], found["can_steer"]) == (ended, False, False)


def test_the_probes(client: Client, spec: Spec) -> None:
    assert client.get("/healthz").status == 200
    assert client.get("/readyz").status == 503
    with present(spec, RUN):
        assert client.get("/readyz").status == 200
    assert client.get("/metrics").status == 404  # nothing runs in this process


def test_a_pipeline_that_never_ran_and_looking_makes_nothing(tmp_path: Path, sinks: Sinks) -> None:
    spec = spec_of(tmp_path)
    with opened([spec], OPTIONS, sinks) as page:
        client = Client(page.url)
        found = client.api("orders")
        assert (found["state"], found["head"], found["last"], found["lag"]) == ("new", None, None, [])
        assert client.api("orders/checkpoints") == {"checkpoints": [], "before": None}
        assert client.api("orders/checkpoints/summary")["duration_s"] is None
        assert client.api("orders/failures")["events"] == client.api("orders/runs")["runs"] == []
        assert [each["rows"] for each in client.api("orders/sinks")["sinks"]] == [0, 0, 0]
        assert client.post("/api/v1/pipelines/orders/stop").status == 409
    assert [path.name for path in tmp_path.iterdir()] == ["pipeline.yaml"]


def test_where_no_history_is_kept_it_says_so(tmp_path: Path, sinks: Sinks) -> None:
    spec = spec_of(tmp_path)
    live_through(spec, time.time(), 3)
    (spec.checkpoint.folder / NAME).unlink()
    with opened([spec], OPTIONS, sinks) as page:
        found = Client(page.url).api("orders")
    assert (found["head"]["completed"], found["last"]) == (2, None)
    assert ["no history is kept here" in each["message"] for each in found["problems"]] == [True]


def test_what_cannot_be_read_is_named_and_the_rest_is_shown(tmp_path: Path, sinks: Sinks) -> None:
    spec = spec_of(tmp_path)
    live_through(spec, time.time(), 3)
    for each in (spec.checkpoint.folder / NAME).parent.glob(f"{NAME}*"):
        each.write_bytes(b"no database" * 100)
    with opened([spec], OPTIONS, sinks) as page:
        client = Client(page.url)
        found = client.api("orders")
        assert found["head"]["completed"] == 2
        assert all("history" in each["message"] and each["remedy"] for each in found["problems"])
        assert found["problems"]
        assert found["state"] == client.get("/api/v1/pipelines").json["pipelines"][0]["state"] == "stopped"
        with present(spec, RUN):
            assert client.post("/api/v1/pipelines/orders/stop").status == 202
        damaged = client.get("/api/v1/pipelines/orders/checkpoints")
        assert (damaged.status, "history" in damaged.problem) == (503, True)
    with opened([spec], OPTIONS, sinks, lives=[Live("restarting in 1.0 s")]) as page, present(spec, RUN):
        assert Client(page.url).get("/readyz").status == 503, "what a run tells needs no history"


def test_several_pipelines_each_under_a_path_of_its_own(tmp_path: Path, sinks: Sinks) -> None:
    names = ["orders", "orders", "a/b c", "../..", "日本"]
    folders = [tmp_path / str(number) for number in range(len(names))]
    for folder in folders:
        folder.mkdir()
    specs = [spec_of(folder, Names(pipeline=name)) for folder, name in zip(folders, names, strict=True)]
    live_through(specs[1], time.time(), 5)
    keys = [each.key for each in watch(specs, sinks, [None] * len(specs))]
    assert keys == ["orders", "orders-2", "a-b-c", "pipeline", "pipeline-2"]
    assert all(re.fullmatch(r"[A-Za-z0-9._~-]+", key) for key in keys)
    with opened(specs, OPTIONS, sinks) as page:
        client = Client(page.url)
        listed = client.get("/api/v1/pipelines").json["pipelines"]
        assert [(each["key"], each["name"]) for each in listed] == list(zip(keys, names, strict=True))
        assert [len(client.api(f"{key}/checkpoints")["checkpoints"]) for key in keys] == [0, 5, 0, 0, 0]
