"""One question to several sinks: one after the other, or at once, so that a slow one holds up none of the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from twophase.errors import SinkUnavailableError

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

    Raises the error of one of them, of a sink that is just away only if there is no worse; the rest are logged.
    """
    if len(calls) < 2:
        return one_by_one(calls)
    with ThreadPoolExecutor(len(calls), "eos-sink") as threads:
        futures = {name: threads.submit(call) for name, call in calls.items()}
    errors = [error for future in futures.values() if (error := future.exception()) is not None]
    if errors:
        worst = min(errors, key=lambda error: isinstance(error, SinkUnavailableError))
        for error in errors:
            if error is not worst:
                _log.warning("failed as well: %s", error)
        raise worst
    return {name: future.result() for name, future in futures.items()}
