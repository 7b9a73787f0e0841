"""What `eos doctor` asks a cluster before a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from confluent_kafka import KafkaException

from connectors.api.contracts import Finding
from connectors.kafka.client import Client, check_settings
from connectors.kafka.group import group_offsets
from connectors.kafka.pool import shared_admin
from connectors.kafka.positions import earliest, latest
from connectors.kafka.settings import Connection
from connectors.kafka.topics import describe, matching_topics
from eos.errors import ConnectorError


def findings(
    name: str, connection: Connection, topics: Sequence[str], pattern: str | None, group_id: str | None
) -> list[Finding]:
    """Check one source of named topics or of a pattern's.

    Blocks for a few times `connect_timeout_s` at most; raises nothing that the cluster causes."""
    try:
        check_settings(connection)
        with shared_admin(connection) as admin:
            found = [_cluster(name, admin)]
            for topic in topics if pattern is None else matching_topics(admin, pattern):
                found.extend(_topic(name, admin, topic))
            if group_id is not None:
                found.append(_group(name, admin, group_id))
            return found
    except ConnectorError as error:
        return [_failed(f"{name}: reachable", error)]


def _failed(check: str, error: ConnectorError, *, fatal: bool = True) -> Finding:
    return Finding(check, False, error.message, error.remedy, fatal)


def _cluster(name: str, admin: Client) -> Finding:
    """Kafka's protocol does not tell the broker's version; the cluster's id and its brokers it does."""
    servers = admin.connection.bootstrap_servers
    try:
        metadata = admin.handle.list_topics(timeout=admin.connection.connect_timeout_s)
    except KafkaException as error:
        raise admin.failure(error.args[0], f"cluster at {servers}") from None
    brokers = ", ".join(f"{broker.host}:{broker.port}" for broker in metadata.brokers.values())
    return Finding(f"{name}: reachable", True, f"{servers}: cluster {metadata.cluster_id}, brokers {brokers}")


def _topic(name: str, admin: Client, topic: str) -> Iterator[Finding]:
    check = f"{name}: topic {topic}"
    try:
        (found,) = describe(admin, [topic])
        first = earliest(admin, found.splits)
        end = latest(admin, found.splits)
    except ConnectorError as error:
        yield _failed(check, error)
        return
    ranges = ", ".join(f"{p}: [{first[s]}, {end[s]})" for p, s in zip(found.partitions, found.splits, strict=True))
    yield Finding(
        check,
        True,
        f"{len(found.partitions)} partitions, replication {found.replication}, offsets {ranges}",
    )


def _group(name: str, admin: Client, group_id: str) -> Finding:
    """The group only tells lag tools how far the pipeline is, so that nothing here stops a run."""
    check = f"{name}: group {group_id}"
    try:
        committed = group_offsets(admin, group_id)
    except ConnectorError as error:
        return _failed(check, error, fatal=False)
    return Finding(check, True, f"offsets committed for {len(committed)} splits" if committed else "not used yet")
