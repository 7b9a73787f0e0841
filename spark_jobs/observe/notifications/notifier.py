"""A listener that turns the events of a run into notices, and decides which of them an endpoint gets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from connectors.spec import Spec
from connectors.spec.notifications import EventName, Notification
from spark_jobs.observe.history.model import Event, failure
from spark_jobs.observe.lag import Lag
from spark_jobs.observe.notifications.notice import Notice
from spark_jobs.observe.notifications.sender import Sender
from spark_jobs.observe.report import CheckpointReport, Listener

_CLOSE_S: Final = 10.0
_KINDS: Final[Mapping[str, EventName]] = {"failure": "failure", "fenced": "failure", "schema": "schema-change"}
"""Kinds of events of the history that are an event here."""


@dataclass(slots=True)
class _Repeats:
    """When each kind of notice was sent last, and how many were left out since."""

    sent_at_s: float
    left_out: int = 0


@dataclass(slots=True)
class Endpoint:
    """One endpoint: its settings, its memory of repeats and lag, and its queue."""

    entry: Notification
    send: Callable[[Notice], None]
    clock: Callable[[], float] = time.monotonic
    _repeats: dict[str, _Repeats] = field(default_factory=dict)
    _behind_since_s: float | None = None

    def tell(self, notice: Notice, key: str) -> None:
        """Send the notice, unless one with the same `key` was sent lately: then count it for the next one."""
        now_s = self.clock()
        known = self._repeats.get(key)
        if known is not None and now_s - known.sent_at_s < self.entry.repeat_after_s:
            known.left_out += 1
            return
        left_out = known.left_out if known is not None else 0
        self._repeats[key] = _Repeats(now_s)
        self.send(replace(notice, repeated=left_out))

    def is_behind(self, lag: int | None) -> bool:
        """Whether the lag is above the limit for long enough. An unknown lag changes nothing."""
        if lag is None or self.entry.lag_above is None:
            return False
        now_s = self.clock()
        if lag <= self.entry.lag_above:
            self._behind_since_s = None
            self._repeats.pop("lag", None)  # the next time is another one
            return False
        self._behind_since_s = now_s if self._behind_since_s is None else self._behind_since_s
        return now_s - self._behind_since_s >= self.entry.lag_for_s


class Notifier(Listener):
    """The notices of one run. Each method may run in any thread, and does not block."""

    def __init__(self, spec: Spec, endpoints: Sequence[Endpoint]) -> None:
        self._mask = spec.mask
        self._pipeline = spec.mask(spec.pipeline)
        self._letters = spec.dead_letter.name if spec.dead_letter is not None else None
        self._endpoints = endpoints
        self._lock = threading.Lock()
        self._failed = ("", "")  # error and message of the newest failure

    def on_event(self, event: Event) -> None:
        kind = _KINDS.get(event.kind)
        if kind is None:
            return
        if kind == "failure":
            self._failed = event.error, event.message
        facts = {"error": event.error, "checkpoint_id": event.checkpoint_id, **event.facts}
        key = f"{event.kind} {event.error} {event.facts.get('sink')}"
        self._tell(kind, event.message, event.remedy, facts, key=key)

    def on_checkpoint(self, report: CheckpointReport) -> None:
        letters = report.record.committables.get(self._letters or "", ())
        rows = sum(each.rows for each in letters)
        if rows and not report.replayed:
            number = report.record.checkpoint_id
            message = f"checkpoint {number} has {rows:,} dead letter{'s' if rows > 1 else ''}"
            facts = {"checkpoint_id": number, "dead_letters": rows}
            self._tell("dead-letters", message, "`eos dead-letters list` shows them", facts)

    def on_lag(self, lag: Lag) -> None:
        records = lag.records(time.time())
        with self._lock:
            behind = [each for each in self._endpoints if each.is_behind(records)]
        for each in behind:
            message = f"{records:,} records can be read and are not processed; the limit is {each.entry.lag_above:,}"
            self._tell("lag", message, "`eos status` shows the lag by split", {"lag": records}, to=[each])

    def ended(self, error: BaseException) -> None:
        """Handle the error that has ended the run, unless it was an event already."""
        last = failure(error, time.time())
        if (last.error, last.message) != self._failed:
            self.on_event(last)

    def _tell(
        self,
        event: EventName,
        message: str,
        remedy: str,
        facts: Mapping[str, object],
        *,
        key: str = "",
        to: Sequence[Endpoint] | None = None,
    ) -> None:
        masked = {name: self._mask(value) if isinstance(value, str) else value for name, value in facts.items()}
        plain = {name: value for name, value in masked.items() if isinstance(value, str | int | float) and value != ""}
        notice = Notice(event, self._pipeline, self._mask(message), time.time(), self._mask(remedy), plain)
        with self._lock:
            for each in self._endpoints if to is None else to:
                if each.entry.wants(event):
                    each.tell(notice, key or event)


@contextmanager
def notified(spec: Spec) -> Iterator[tuple[Listener, ...]]:
    """Listen to a run for its notifications; nothing if the spec has none.

    The end blocks for some seconds at most, until the last messages are sent.
    """
    if not spec.notifications:
        yield ()
        return
    senders = [Sender(entry) for entry in spec.notifications]
    notifier = Notifier(spec, [Endpoint(each.entry, each.send) for each in senders])
    try:
        yield (notifier,)
    except Exception as error:
        notifier.ended(error)
        raise
    finally:
        until_s = time.monotonic() + _CLOSE_S
        for sender in senders:
            sender.finish()
        for sender in senders:
            sender.join(until_s)
