"""Traces for OpenTelemetry: a span for each checkpoint, and below it one for each of its phases.

They are sent by OTLP over HTTP where OTEL_EXPORTER_OTLP_ENDPOINT says, by a thread of the library's, whose other
variables hold as well. A collector that is away costs spans, and nothing else.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from connectors.spec import Spec
from spark_jobs.observe.finishing import Finished, Finishing
from spark_jobs.observe.report import CheckpointReport, Listener
from twophase.news import CommittedUpTo, Decided, DriverEvent, SinkCommitted
from twophase.version import installed_version

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_log = logging.getLogger("eos.traces")

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

_UNPLANNED: Final = 2  # so many newer ones finish before a checkpoint is sent without what Spark's plan took
_PLANS: Final = 10_000  # are remembered of checkpoints that sinks have not committed yet


@dataclass(slots=True)
class Traces(Listener):
    """Of one run. Told from several threads."""

    tracer: Tracer
    spec: Spec
    _finishing: Finishing = field(default_factory=Finishing)
    _unplanned: dict[int, Finished] = field(default_factory=dict)
    _plans_s: dict[int, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_driver_event(self, news: DriverEvent) -> None:
        with self._lock:
            match news:
                case Decided(record):
                    self._finishing.decided(record)
                case SinkCommitted():
                    self._finishing.committed_in_sink(news.checkpoint_id, news.commit_s)
                case CommittedUpTo():
                    self._keep(self._finishing.committed(news.checkpoint_id, time.time()))

    def on_checkpoint(self, report: CheckpointReport) -> None:
        with self._lock:
            self._keep(self._finishing.measured(report))

    def on_planned(self, checkpoint_id: int, plan_s: float) -> None:
        with self._lock:
            self._plans_s[checkpoint_id] = plan_s
            while len(self._plans_s) > _PLANS:
                del self._plans_s[min(self._plans_s)]
            self._send_planned()

    def close(self) -> None:
        """What is finished and was not sent yet."""
        with self._lock:
            for each in self._unplanned.values():
                self._send(each)
            self._unplanned = {}

    def _keep(self, finished: list[Finished]) -> None:
        self._unplanned |= {each.record.checkpoint_id: each for each in finished}
        self._send_planned()
        while len(self._unplanned) > _UNPLANNED:
            self._send(self._unplanned.pop(min(self._unplanned)))

    def _send_planned(self) -> None:
        for number in sorted(self._plans_s.keys() & self._unplanned.keys()):
            found = self._unplanned.pop(number)
            self._send(replace(found, phases=replace(found.phases, plan_s=self._plans_s.pop(number))))

    def _send(self, of: Finished) -> None:
        """The phases follow one another, in their order, from Spark's plan until the last commit."""
        from opentelemetry.trace import set_span_in_context

        record, at = of.record, of.record.started_at - (of.phases.plan_s or 0.0)
        written = [each for group in record.committables.values() for each in group]
        whole = self.tracer.start_span(
            "checkpoint",
            start_time=_nanoseconds(at),
            attributes={
                "eos.pipeline": self.spec.mask(self.spec.pipeline),
                "eos.checkpoint.id": record.checkpoint_id,
                "eos.checkpoint.attempt": record.scope.attempt,
                "eos.epoch": record.scope.epoch,
                "eos.incarnation": record.scope.incarnation,
                **({"eos.records": record.records} if record.records is not None else {}),
                "eos.rows": sum(each.rows for each in written),
                "eos.bytes": sum(each.bytes for each in written),
                "eos.writers": len(written),
            },
        )
        context = set_span_in_context(whole)
        for name, seconds in of.phases.items():
            if seconds is not None:
                span = self.tracer.start_span(name, context, start_time=_nanoseconds(at))
                at += seconds
                span.end(_nanoseconds(at))
        whole.end(_nanoseconds(max(of.committed_at, at)))


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


@contextmanager
def traced(spec: Spec, run_id: str) -> Iterator[tuple[Listener, ...]]:
    """What listens to a run for traces: nothing where no endpoint is named, or where the package is missing."""
    if not any(os.environ.get(name) for name in ENDPOINTS):
        yield ()
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        _log.warning(
            "no traces are sent: %s is set, and OpenTelemetry is not installed (eos-spark[otel])", ENDPOINTS[0]
        )
        yield ()
        return
    logging.getLogger("opentelemetry").parent = _log  # what it has to say goes where our own log goes
    named = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "eos"), "service.instance.id": run_id}
    provider = TracerProvider(resource=Resource.create({**named, "service.version": installed_version()}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    traces = Traces(provider.get_tracer("eos", installed_version()), spec)
    try:
        yield (traces,)
    finally:
        traces.close()
        provider.shutdown()
