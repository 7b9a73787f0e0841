"""What `eos doctor` asks a cluster before messages go there. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from connectors.contracts import Finding
from connectors.kafka.client import Client
from connectors.kafka.pool import shared_admin
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.place import Place
from connectors.kafka.sink.target import check_markers, check_timeout, facts_of, in_sink_words
from connectors.kafka.topics import metadata
from twophase.errors import ConnectorError


def findings(sink: str, place: Place, layout: Layout, schema: pa.Schema | None) -> Sequence[Finding]:
    """Check one sink. Blocks for a few times `connect_timeout_s` at most; raises nothing that the cluster causes."""
    found: list[Finding] = []
    try:
        with in_sink_words(f"{sink}: reachable"), shared_admin(place.connection) as admin:
            found.extend(_of_cluster(place, admin))
    except ConnectorError as error:
        return [_failed("reachable", error)]
    if schema is not None:
        try:
            layout.check(sink, schema)
            found.append(Finding("columns", True, f"the value has {', '.join(layout.value_columns(schema))}"))
        except ConnectorError as error:
            found.append(_failed("columns", error))
    return found


def _of_cluster(place: Place, admin: Client) -> Iterator[Finding]:
    metadata(admin, f"cluster at {place.connection.bootstrap_servers}")
    yield Finding("reachable", True, place.connection.bootstrap_servers)
    if place.topic is not None:
        try:
            facts = facts_of(admin, place.topic)
            words = f"{facts.partitions} partitions, replication {facts.replication}"
            yield Finding(f"topic {place.topic}", True, f"{words}, messages up to {facts.max_bytes:,} bytes")
        except ConnectorError as error:
            yield _failed(f"topic {place.topic}", error)
    try:
        check_timeout(admin, place)
        yield Finding("transactions", True, f"of {place.transaction_timeout_s:g} s at most")
    except ConnectorError as error:
        yield _failed("transactions", error)
    try:
        there = check_markers(admin, place.markers)
        yield Finding("markers", True, f"topic {place.markers} {'is there' if there else 'will be created'}")
    except ConnectorError as error:
        yield _failed("markers", error)


def _failed(check: str, error: ConnectorError) -> Finding:
    return Finding(check, False, error.message, error.remedy)
