"""Opens what a driver of the protocol needs, and lets go of it: head, and a committer for each sink."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from connectors.api.contracts import Sink
from connectors.api.fields import MaxBacklog
from connectors.registry import build_committer, open_head
from connectors.spec import Spec
from eos.errors import HeadError
from spark_jobs.observe.report import Listener
from twophase.backlog import NO_LIMITS, Limit
from twophase.driver import Driver
from twophase.effects import SparkLog
from twophase.gather import at_once
from twophase.ids import INCARNATION_LENGTH
from twophase.messages import HeadSnapshot
from twophase.news import EventHandler, ignore_event
from twophase.participants import Committer
from twophase.positions import Positions
from twophase.status import read_status

_LETTERS: Final = string.ascii_lowercase + string.digits  # of an incarnation: about 100 bits

NOTHING_KNOWN: Final[Mapping[str, Collection[str]]] = {}
"""Each start needs every sink."""

_FOUND: Final = 100  # records: a start reads them one by one


@contextmanager
def open_driver(
    spec: Spec,
    sinks: Sequence[Sink],
    log: SparkLog,
    *,
    session: str,
    follows: HeadSnapshot | None = None,
    commit_back: Callable[[Mapping[str, Positions]], None] = lambda _positions: None,
    limits: Mapping[str, Limit] = NO_LIMITS,
    is_stopping: Callable[[], bool] = lambda: False,
    watcher: EventHandler = ignore_event,
    known: Mapping[str, Collection[str]] = NOTHING_KNOWN,
) -> Iterator[Driver]:
    """A driver for one epoch, or for a reset; not yet started. Its connections are closed at the end.

    For the arguments see Driver. Raises HeadError where head cannot be opened.
    """
    with ExitStack() as stack:
        head = open_head(spec)
        stack.callback(head.close)
        committers = {sink.name: build_committer(sink, spec.pipeline) for sink in sinks}
        gates = {
            sink.name: build_committer(sink, spec.pipeline) for sink in sinks if _needs_gate(sink, committers, limits)
        }
        for committer in (*committers.values(), *gates.values()):
            stack.callback(committer.close)
        driver = Driver(
            pipeline=spec.pipeline,
            head=head,
            committers=committers,
            spark=log,
            session=session,
            incarnation="".join(secrets.choice(_LETTERS) for _ in range(INCARNATION_LENGTH)),
            retained=spec.checkpoint.retained,
            direct=spec.checkpoint.at_least_once,
            commit_back=commit_back,
            follows=follows,
            late=[spec.dead_letter.name] if spec.dead_letter is not None else (),
            gather=at_once,
            limits=limits,
            gates=gates,
            is_stopping=is_stopping,
            watcher=watcher,
            known=known,
        )
        stack.callback(driver.close)  # before its committers
        yield driver


def report_last_checkpoint(driver: Driver, listener: Listener) -> None:
    """What head holds before the driver starts: one that was killed told nobody of its last checkpoint."""
    with suppress(HeadError):  # the start will say so, if it is in its way
        if (status := read_status(driver.head, _FOUND)) is not None:
            listener.on_status(status)


def _needs_gate(sink: Sink, committers: Mapping[str, Committer], limits: Mapping[str, Limit]) -> bool:
    limit = limits.get(sink.name)
    return limit is not None and limit.checkpoints > 0 and not committers[sink.name].permits_once


def limits_of(spec: Spec) -> Mapping[str, Limit]:
    """By sink, how far it may be behind. For a driver that lives as long as the query. At-least-once nothing waits."""
    if spec.checkpoint.at_least_once:
        return NO_LIMITS
    return {entry.name: _limit(entry.max_backlog, has_log=entry.commit != "two-phase") for entry in spec.outputs}


def _limit(allowed: MaxBacklog | None, *, has_log: bool) -> Limit:
    """Only rows in a log can wait for a sink that is away: a prepared transaction waits in the sink itself."""
    return Limit() if allowed is None else Limit(allowed.checkpoints, allowed.max_bytes, outlasts_outages=has_log)
