"""A store whose answers are lost, and a driver that retries: what a network does to both."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from eos.errors import SinkUnavailableError

_CALLS: Final = frozenset({"applied", "apply", "witness", "commit", "abort", "list"})
"""Calls of the driver. `prepare` is a task's: its failure aborts the checkpoint."""

_ATTEMPTS: Final = 200


class Unsteady:
    """A store behind a network. A call may not arrive; or it lands, and its answer is lost."""

    def __init__(self, store: Any, seed: int) -> None:
        self._store = store
        self._chance = random.Random(seed)
        self.lost: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in _CALLS:
            return found

        def call(*args: Any) -> Any:
            if self._chance.random() < 0.15:
                raise SinkUnavailableError(f"{name}: the call did not arrive")
            answer = found(*args)
            if self._chance.random() < 0.25:
                self.lost.append(name)
                raise SinkUnavailableError(f"{name}: the answer was lost")
            return answer

        return call


@dataclass
class SteadySink:
    """A sink whose committers retry, as the protocol's driver does."""

    sink: Any

    def committer(self, pipeline: str) -> Any:
        return _Steady(self.sink.committer(pipeline))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sink, name)


class _Steady:
    def __init__(self, committer: Any) -> None:
        self._committer = committer

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._committer, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            for _ in range(_ATTEMPTS):
                try:
                    return found(*args, **kwargs)
                except SinkUnavailableError:
                    continue
            raise AssertionError(f"{name} never came to an end")

        return call
