"""Where the demo runs: a broker, a topic, a table, and the spec that goes with them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from integration_tests.demo import broker
from integration_tests.demo.errors import DemoError
from integration_tests.demo.table import Table

EMBEDDED = "embedded"
KINDS = (EMBEDDED, "docker", "native", "auto")
_PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Place:
    """Ready: the topic can be produced to, the table is empty."""

    description: str
    bootstrap: str
    topic: str
    spec: str  # file name, in examples/eos
    database: str  # what the spec gets as DATABASE
    url: str  # the same for SQLAlchemy

    @property
    def table(self) -> Table:
        """The job's table."""
        return Table(self.url)


@contextmanager
def place(kind: str, folder: Path) -> Iterator[Place]:
    """A place of this kind, for this block. What it starts and makes is ended and removed after it.

    Raises DemoError, or integration_tests.services.ServiceError, where it cannot be had.
    """
    with _embedded(folder) if kind == EMBEDDED else _servers(kind) as found:
        found.table.create()
        yield found


@contextmanager
def _embedded(folder: Path) -> Iterator[Place]:
    log, database = folder / "broker.log", folder / "eos.db"
    with broker.running(log) as bootstrap:
        if not bootstrap:
            raise DemoError(f"the embedded broker did not start: see {log}")
        description = f"an embedded broker (librdkafka's mock cluster) at {bootstrap} and SQLite"
        yield Place(description, bootstrap, "eos", "pipeline-sqlite.yaml", str(database), f"sqlite:///{database}")


@contextmanager
def _servers(kind: str) -> Iterator[Place]:
    from integration_tests import databases, topics  # only here: the embedded demo needs none of the tests' machinery
    from integration_tests.services import obtain
    from integration_tests.services.obtain import provider

    mark = secrets.token_hex(4)
    topic, database = f"eos-demo-{mark}", f"eos_demo_{mark}"
    with ExitStack() as cleanup:
        for each in ("docker", "native") if kind == "auto" else (kind,):
            if provider(each).running() is None:
                cleanup.callback(provider(each).down)  # what ran before goes on running
        found = obtain(kind, say=lambda line: print(f"demo: {line}", flush=True))
        topics.create(found.kafka_bootstrap, topic, _PARTITIONS, {})
        cleanup.callback(topics.delete, found.kafka_bootstrap, [topic])
        databases.create(found, database)
        cleanup.callback(databases.drop, found, database)
        url = f"{found.database_url.rstrip('/')}/{database}"
        description = f"{found.kafka} and {found.database} ({found.kind})"
        yield Place(description, found.kafka_bootstrap, topic, "pipeline.yaml", url, url)
