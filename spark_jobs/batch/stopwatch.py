"""Where the time of one task goes: waiting for rows, writing them, preparing. For figures; nothing is decided by it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Stopwatch:
    """Of a task that writes to so many sinks. Costs microseconds for each batch of rows."""

    read_s: float = 0.0  # one for all sinks: they get the same rows
    write_s: list[float] = field(default_factory=list)  # by the place of the sink, with opening it
    prepare_s: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, sinks: int) -> Stopwatch:
        """Stopped, for so many."""
        return cls(0.0, [0.0] * sinks, [0.0] * sinks)

    def reading(self, batches: Iterable[T]) -> Iterator[T]:
        """The same batches; the time until each is there is that of reading."""
        found = iter(batches)
        while True:
            before = time.monotonic()
            batch = next(found, None)
            self.read_s += time.monotonic() - before
            if batch is None:
                return
            yield batch

    @contextmanager
    def writing(self, place: int) -> Iterator[None]:
        """This block writes to the sink of that place."""
        before = time.monotonic()
        yield
        self.write_s[place] += time.monotonic() - before

    def preparing(self, place: int, prepare: Callable[[], T]) -> T:
        """What `prepare` returns, which is called to prepare there, or to commit at-least-once."""
        before = time.monotonic()
        prepared = prepare()
        self.prepare_s[place] += time.monotonic() - before
        return prepared
