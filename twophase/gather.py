"""One question to several sinks: one after the other, or at once, so that a slow one holds up none of the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from threading import Thread
from typing import Protocol, TypeVar

from eos.errors import FencedError, LostCommittableError, SinkUnavailableError

_log = logging.getLogger("eos.protocol")

T = TypeVar("T")


class Gather(Protocol):
    """One of the two functions below."""

    def __call__(self, calls: Mapping[str, Callable[[], T]], /) -> dict[str, T]:
        """Make every call and return the answers under the same names, when the last one is there."""


def one_by_one(calls: Mapping[str, Callable[[], T]], /) -> dict[str, T]:
    """In their order. The first error ends it."""
    return {name: call() for name, call in calls.items()}


def at_once(calls: Mapping[str, Callable[[], T]], /) -> dict[str, T]:
    """Each in a thread of its own; all are made, whatever becomes of the others.

    Raises the worst error: fenced, then lost, then any other, and last that a sink is away. The rest are logged.
    """
    if len(calls) < 2:
        return one_by_one(calls)
    futures: dict[str, Future[T]] = {name: Future() for name in calls}
    # Not a pool: it takes nothing once the interpreter is about to end, when a job may still wait for its sinks.
    threads = [  # a line that one of them logs is of the pipeline that asks
        Thread(target=copy_context().run, args=(_answer, futures[name], calls[name]), name=f"eos-sink {name}")
        for name in calls
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = {name: error for name, future in futures.items() if (error := future.exception()) is not None}
    if errors:
        worst = min(errors, key=lambda name: _rank(errors[name]))
        for name, error in errors.items():
            if name != worst:
                _log.warning("sink %s failed as well: %s", name, error)
        raise errors[worst]
    return {name: future.result() for name, future in futures.items()}


def _answer(future: Future[T], call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001  who gathers raises it
        future.set_exception(error)


def _rank(error: BaseException) -> int:
    kinds = (FencedError, LostCommittableError, SinkUnavailableError)
    places = dict(zip(kinds, (0, 1, 3), strict=True))
    return next((place for kind, place in places.items() if isinstance(error, kind)), 2)
