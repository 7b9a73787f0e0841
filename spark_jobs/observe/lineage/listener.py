"""A listener that sends the lineage of a run, as the variables of OpenLineage's client configure it.

A server that is away costs events, and nothing else.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from connectors.spec import Spec
from connectors.spec.sql_origins import Types
from eos.bounded import shorten
from spark_jobs.observe.lineage.settings import CONFIG, PREFIX, new_client, secrets_of
from spark_jobs.observe.log_lines import mask_log
from spark_jobs.observe.report import CheckpointReport, Listener

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient

    from spark_jobs.observe.lineage.events import Moment, State, Written

_log = logging.getLogger("eos.lineage")

NAMESPACE: Final = "OPENLINEAGE_NAMESPACE"
_ON: Final = ("OPENLINEAGE_URL", CONFIG, PREFIX)
"""Variables that configure the client; the last one is a prefix."""
_EVERY_S: Final = 60.0  # between two events about rows
_MOST: Final = 100  # moments that wait
_CLOSE_S: Final = 10.0
_MOST_CHARACTERS: Final = 5_000  # of an error
_REMEDY: Final = "Check the variables OPENLINEAGE_…, the file OPENLINEAGE_CONFIG, and the server"


class Emitter:
    """The thread that builds and sends events. Its queue is bounded, so a server that is away costs events."""

    def __init__(self, emit: Callable[[Moment], None]) -> None:
        self._emit = emit
        self._waiting: queue.Queue[Moment | None] = queue.Queue(_MOST)
        run = copy_context().run
        self._thread = threading.Thread(target=run, args=(self._work,), name="eos-lineage", daemon=True)
        self._thread.start()

    def send(self, moment: Moment | None) -> None:
        """Queue a moment; None: the end. May be called from any thread, and returns at once."""
        try:
            self._waiting.put_nowait(moment)
        except queue.Full:
            _log.warning("an event of lineage is not sent: %d others wait", _MOST)

    def close(self, timeout_s: float = _CLOSE_S) -> None:
        """Block until all is sent, for `timeout_s` at most."""
        self.send(None)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            _log.warning("the last events of lineage were not sent in time")

    def _work(self) -> None:
        while (moment := self._waiting.get()) is not None:
            try:
                self._emit(moment)
            except Exception as error:  # noqa: BLE001  # of any transport: no event may end the thread
                _log.warning("an event of lineage (%s) is not sent: %s. %s", moment.state, _named(error), _REMEDY)


@dataclass(slots=True)
class Lineage(Listener):
    """What a run reads and writes. Each method may run in any thread, and does not block."""

    spec: Spec
    send: Callable[[Moment], None]
    clock: Callable[[], float] = time.monotonic
    _sources: Mapping[str, Types] = field(default_factory=dict, init=False)
    _sinks: Mapping[str, Types] = field(default_factory=dict, init=False)
    _written: dict[str, Written] = field(default_factory=dict, init=False)  # by sink, since the run began
    _due_s: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def on_columns(self, sources: Mapping[str, Types], sinks: Mapping[str, Types]) -> None:
        """Send the columns, unless the last start of the query had the same."""
        with self._lock:
            is_known = (self._sources, self._sinks) == (sources, sinks)
            self._sources, self._sinks = sources, sinks
        if not is_known:
            self.emit("RUNNING")

    def on_checkpoint(self, report: CheckpointReport) -> None:
        """Count its rows, and send the counts once a minute."""
        from spark_jobs.observe.lineage.events import Written

        if report.replayed:
            return
        with self._lock:
            for sink, group in report.record.committables.items():
                before = self._written.get(sink, Written())
                self._written[sink] = before.plus(sum(each.rows for each in group), sum(each.bytes for each in group))
            is_due = self.clock() >= self._due_s
            if is_due:
                self._due_s = self.clock() + _EVERY_S
        if is_due:
            self.emit("RUNNING")

    def emit(self, state: State, error: BaseException | None = None) -> None:
        """Send what is known now."""
        from spark_jobs.observe.lineage.events import Moment

        said = self.spec.mask(shorten(str(error) or type(error).__name__, _MOST_CHARACTERS)) if error else ""
        with self._lock:
            self.send(
                Moment(state, datetime.now(UTC).isoformat(), self._sources, self._sinks, dict(self._written), said)
            )


@contextmanager
def lineage_of(spec: Spec) -> Iterator[tuple[Listener, ...]]:
    """Listen to a run for its lineage: nothing where no variable configures the client, or where it is missing.

    The end blocks for some seconds at most, until the last events are sent.
    """
    if not any(value and name.startswith(_ON) for name, value in os.environ.items()):
        yield ()
        return
    client = _client()
    if client is None:
        yield ()
        return
    from spark_jobs.observe.lineage.events import event

    run_id, namespace = str(uuid.uuid4()), os.environ.get(NAMESPACE) or "eos"
    emitter = Emitter(lambda moment: client.emit(event(spec, run_id, namespace, moment)))
    lineage = Lineage(spec, emitter.send)
    lineage.emit("START")
    try:
        yield (lineage,)
    except BaseException as error:
        lineage.emit("FAIL", error)
        raise
    else:
        lineage.emit("COMPLETE")
    finally:
        emitter.close()


def _client() -> OpenLineageClient | None:
    try:
        import openlineage.client  # noqa: F401  # is it installed?
    except ImportError:
        missing = "a variable of OpenLineage is set, and its client is not installed (eos-spark[openlineage])"
        _log.warning("no lineage is sent: %s", missing)
        return None
    logging.getLogger("openlineage").parent = _log  # its lines are written with ours
    try:
        mask_log(secrets_of(os.environ))
        return new_client(os.environ.get(CONFIG) or None)
    except Exception as error:  # noqa: BLE001  # any error of its settings
        _log.warning("no lineage is sent: the settings of OpenLineage are wrong: %s. %s", _named(error), _REMEDY)
        return None


def _named(error: Exception) -> str:
    """Return the type of an error, and the status of an answer. Its text may contain the API key."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return f"{type(error).__name__} ({status})" if status is not None else type(error).__name__
