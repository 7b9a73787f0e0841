"""Gives each run a database of its own, a folder, and a topic with its records; then nothing of it is left."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sqlalchemy.engine import make_url

from benchmarks.bench import topic
from benchmarks.bench.comparison import cold, latency, warm
from benchmarks.bench.comparison.expected import numbered
from benchmarks.bench.comparison.meter import Servers
from benchmarks.bench.comparison.results import Measured
from benchmarks.bench.comparison.work import System, Work
from benchmarks.bench.targets import Place
from integration_tests import databases, topics
from integration_tests.services import Services


@dataclass
class Measuring:
    """Servers under measurement, and what is removed at the end. Use as a context manager."""

    services: Services
    _servers: Servers = field(init=False)
    _at_end: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        self._servers = Servers.of(self.services)
        return self

    def __exit__(self, *_: object) -> None:
        self._at_end.close()


@dataclass
class Arena(Measuring):
    """Each method is one run, and raises RuntimeError if it fails."""

    _topics: dict[int, str] = field(default_factory=dict)  # by size; made once, and read by every cold run

    def cold(self, system: System, rows: int) -> Measured:
        """See `cold`."""
        if rows not in self._topics:
            self._topics[rows] = self._at_end.enter_context(own_topic(self.services))
            topic.produce(self.services.kafka_bootstrap, self._topics[rows], 0, rows)
        with working(self.services, self._topics[rows], rows, live=False) as work:
            return cold.measure(system, work, self._servers, numbered(rows))

    def warm(self, system: System, rows: int) -> Measured:
        """See `warm`."""
        with ExitStack() as held:

            def place() -> Place:
                folder = held.enter_context(tempfile.TemporaryDirectory(prefix="eos-bench-"))
                return held.enter_context(Place(self.services, unique_name(), Path(folder)))

            return warm.measure(system, place, rows, self._servers)

    def latency(self, system: System, rows: int) -> Measured:
        """See `latency`."""
        with own_topic(self.services) as name, working(self.services, name, rows, live=True) as work:
            return latency.measure(system, work, self._servers)


@contextmanager
def own_topic(services: Services) -> Iterator[str]:
    """Give an empty topic, and delete it at the end."""
    name, bootstrap = unique_name(), services.kafka_bootstrap
    topic.create(bootstrap, name)
    try:
        yield name
    finally:
        topics.delete(bootstrap, [name])


@contextmanager
def working(services: Services, from_topic: str, rows: int, *, live: bool, registry: str = "") -> Iterator[Work]:
    """Give a run its database and its folder, and remove both at the end."""
    database = unique_name()
    databases.create(services, database)
    try:
        with tempfile.TemporaryDirectory(prefix="eos-bench-") as folder:
            url = make_url(services.database_url).set(database=database)
            text = url.render_as_string(hide_password=False)
            yield Work(services.kafka_bootstrap, from_topic, text, Path(folder), rows, live, registry)
    finally:
        databases.drop(services, database)


def unique_name() -> str:
    """Return a name for a topic or a database."""
    return f"eos_bench_{secrets.token_hex(4)}"
