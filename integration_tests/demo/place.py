"""The demo on real servers: a topic and a database of its own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from integration_tests import databases, topics
from integration_tests.demo.table import ServerTable
from integration_tests.services import Services, obtain
from integration_tests.services.obtain import provider
from spark_jobs.demo.place import Place

KINDS = ("docker", "native", "auto")
_PARTITIONS = 4


@contextmanager
def servers(kind: str, _folder: Path) -> Iterator[Place]:
    """Obtain servers for this block, and create a topic and a table. Servers that ran before are left running.

    Raises integration_tests.services.ServiceError.
    """
    mark = secrets.token_hex(4)
    topic, database = f"eos-demo-{mark}", f"eos_demo_{mark}"
    with ExitStack() as cleanup:
        for each in ("docker", "native") if kind == "auto" else (kind,):
            if provider(each).running() is None:
                cleanup.callback(provider(each).down)
        found = obtain(kind, say=lambda line: print(f"demo: {line}", flush=True))
        topics.create(found.kafka_bootstrap, topic, _PARTITIONS, {})
        cleanup.callback(topics.delete, found.kafka_bootstrap, [topic])
        databases.create(found, database)
        cleanup.callback(databases.drop, found, database)
        yield with_table(found, topic, f"{found.database_url.rstrip('/')}/{database}")


def with_table(services: Services, topic: str, url: str) -> Place:
    """Create the table of the example in a database, and return the place."""
    table = ServerTable(url)
    table.create()
    description = f"{services.kafka} and {services.database} ({services.kind})"
    return Place(description, services.kafka_bootstrap, topic, "pipeline.yaml", url, table)
