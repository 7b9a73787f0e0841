"""Waiting until a server answers real requests, and asking it what it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

import sqlalchemy
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from sqlalchemy.exc import DBAPIError

from integration_tests.services.values import Server, ServiceError

Obituary = Callable[[], str | None]
"""Why a server will never answer (it has ended), or None while it may still."""

START_SECONDS = 90.0


def await_kafka(
    bootstrap: str,
    died: Obituary = lambda: None,
    seconds: float = START_SECONDS,
    topic: str | None = None,
    brokers: int = 1,
) -> None:
    """Wait until the broker knows so many brokers and the topic, and every partition has a leader."""
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500})

    def answers() -> str | None:
        try:
            metadata = client.list_topics(timeout=2)
        except KafkaException as error:
            return str(error)
        partitions = [p for topic in metadata.topics.values() for p in topic.partitions.values()]
        if len(metadata.brokers) < brokers:
            return f"{len(metadata.brokers)} of {brokers} brokers are registered"
        if topic is not None and topic not in metadata.topics:
            return f"topic {topic} is not known yet"
        return None if all(p.leader >= 0 for p in partitions) else "partitions without a leader"

    _await(f"Kafka on {bootstrap}", answers, died, seconds)


def await_ended_transactions(bootstrap: str, of: Collection[str] | None = None) -> None:
    """Wait until no transaction is open: a commit is answered before the brokers have written its end.

    `of`: splits that are looked at; None: all.
    """

    def is_open() -> str | None:
        found = [split for split in open_transactions(bootstrap) if of is None or split in of]
        return f"transactions are open in {', '.join(found)}" if found else None

    _await(f"Kafka on {bootstrap}", is_open, lambda: None, START_SECONDS)


def open_transactions(bootstrap: str) -> list[str]:
    """Return the splits (`<topic>/<partition>`) with a transaction that is not over."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    known = client.list_topics(timeout=START_SECONDS).topics
    splits = [TopicPartition(name, partition) for name, topic in known.items() for partition in topic.partitions]
    ends = _ends(client, splits, IsolationLevel.READ_COMMITTED)
    written = _ends(client, splits, IsolationLevel.READ_UNCOMMITTED)
    return [f"{each.topic}/{each.partition}" for each in splits if ends[each] < written[each]]


def _ends(client: AdminClient, splits: Sequence[TopicPartition], level: IsolationLevel) -> dict[TopicPartition, int]:
    """Return where each ends, asking again while leaders move."""
    found: dict[TopicPartition, int] = {}

    def answers() -> str | None:
        newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = client.list_offsets(dict.fromkeys(splits, newest), isolation_level=level)
        try:
            found.update({split: future.result(START_SECONDS).offset for split, future in asked.items()})
        except KafkaException as error:
            return str(error)
        return None

    _await("Kafka", answers, lambda: None, START_SECONDS)
    return found


def await_database(url: str, died: Obituary = lambda: None, seconds: float = START_SECONDS) -> None:
    """Wait until the database answers SELECT 1 to this user."""
    engine = _engine(url)

    def answers() -> str | None:
        try:
            with engine.connect() as connection:
                connection.execute(sqlalchemy.text("SELECT 1"))
        except DBAPIError as error:
            return str(error.orig)
        return None

    _await(f"the database on {engine.url.host}:{engine.url.port}", answers, died, seconds)


def database_server(url: str) -> Server:
    """Ask a MySQL or MariaDB server for its name and version."""
    with _engine(url).connect() as connection:
        version = str(connection.execute(sqlalchemy.text("SELECT VERSION()")).scalar_one())
    name = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    return Server(name, version.split("-")[0])


def _engine(url: str) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, connect_args={"connect_timeout": 5})


def _await(what: str, answers: Callable[[], str | None], died: Obituary, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (problem := answers()) is not None:
        if (obituary := died()) is not None:
            raise ServiceError(f"{what} did not start: {obituary}")
        if time.monotonic() > deadline:
            raise ServiceError(f"{what} did not answer within {seconds:.0f} s: {problem}")
        time.sleep(0.2)
