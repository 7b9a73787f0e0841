"""Traces as a collector receives them: a span for each checkpoint, and its phases below it, one after another."""

from __future__ import annotations

import builtins
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from connectors.spec import Spec
from spark_jobs.observe.history.model import PHASES
from spark_jobs.observe.traces import ENDPOINTS, traced
from tests.page_history import INCARNATION, RUN, SECRET, spec_of
from tests.spark_jobs.page.test_metrics import record, report
from twophase.news import CommittedUpTo, Decided, SinkCommitted


class Collector:
    """An OTLP endpoint on this machine, which decodes what it is sent."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def spans(self) -> list[Span]:
        scopes = [scope for each in self.requests for of in each.resource_spans for scope in of.scope_spans]
        return sorted((span for scope in scopes for span in scope.spans), key=lambda span: span.start_time_unix_nano)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    found = Collector()
    monkeypatch.setenv(ENDPOINTS[0], found.url)
    threading.Thread(target=found.server.serve_forever, daemon=True).start()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return spec_of(tmp_path)


def values(span: Span) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_each_checkpoint_is_a_span_with_its_phases_below_it(spec: Spec, collector: Collector) -> None:
    with traced(spec, RUN) as (traces,):
        for number in range(5):
            traces.on_driver_event(Decided(record(number)))
            for sink in ("warehouse", "archive"):
                traces.on_driver_event(SinkCommitted(INCARNATION, number, sink, 0.2))
            traces.on_checkpoint(report(number))
            if number != 2:  # of which Spark never says what its plan took
                traces.on_planned(number, 0.5)
            if number % 2:  # sinks are behind by one
                traces.on_driver_event(CommittedUpTo(INCARNATION, number))
        traces.on_checkpoint(report(1, replayed=True))
        traces.on_driver_event(CommittedUpTo(INCARNATION, 4))
    checkpoints = [span for span in collector.spans if span.name == "checkpoint"]
    assert [values(span)["eos.checkpoint.id"] for span in checkpoints] == [0, 1, 2, 3, 4]
    assert {(values(span)["eos.records"], values(span)["eos.rows"]) for span in checkpoints} == {(100, 161)}
    assert {values(span)["eos.pipeline"] for span in checkpoints} == {"orders"}
    for number, whole in enumerate(checkpoints):
        phases = [span for span in collector.spans if span.parent_span_id == whole.span_id]
        has_plan = number != 2
        assert {span.trace_id for span in phases} == {whole.trace_id}
        names = sorted((span.name for span in phases), key=PHASES.index)
        assert names == [name for name in PHASES if name != "plan" or has_plan], number
        in_order = sorted(phases, key=lambda span: PHASES.index(span.name))
        assert in_order[0].start_time_unix_nano == whole.start_time_unix_nano
        assert all(before.end_time_unix_nano == after.start_time_unix_nano for before, after in pairwise(in_order))
        assert whole.end_time_unix_nano >= in_order[-1].end_time_unix_nano
    resources = [each.resource for request in collector.requests for each in request.resource_spans]
    assert {each.value.string_value for of in resources for each in of.attributes if each.key == "service.name"} == {
        "eos"
    }
    assert not [request for request in collector.requests if SECRET.encode() in request.SerializeToString()]


def test_a_collector_that_is_away_costs_nothing_but_spans(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINTS[0], "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with traced(spec, RUN) as (traces,):
        traces.on_driver_event(Decided(record(0)))
        traces.on_checkpoint(report(0))
        traces.on_driver_event(CommittedUpTo(INCARNATION, 0))


def test_nothing_is_sent_unless_somebody_says_where(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    with traced(spec, RUN) as listeners:
        assert listeners == ()


def test_a_package_that_is_missing_is_said(
    spec: Spec, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setenv(ENDPOINTS[0], "http://127.0.0.1:1")
    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(logging.getLogger("eos"), "propagate", True)
    with traced(spec, RUN) as listeners:
        assert listeners == ()
    assert "eos-spark[otel]" in caplog.text
