"""What `eos doctor` asks a cluster before messages go there. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.kafka.client import Client
from connectors.kafka.pool import shared_admin
from connectors.kafka.sink.formats import Formats
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.place import Place
from connectors.kafka.sink.target import check_markers, check_repeats, check_timeout, facts_of, in_sink_words
from connectors.kafka.topics import metadata
from eos.errors import ConnectorError

_WITHOUT_SCHEMAS: Final = Formats()


def findings(
    sink: str,
    place: Place,
    layout: Layout,
    schema: pa.Schema | None,
    formats: Formats = _WITHOUT_SCHEMAS,
    *,
    repeats: bool = False,
) -> Sequence[Finding]:
    """Check one sink. Blocks for a few times `connect_timeout_s` at most; raises nothing that the cluster causes."""
    try:
        with in_sink_words(f"{sink}: reachable"), shared_admin(place.connection) as admin:
            metadata(admin, f"cluster at {place.connection.bootstrap_servers}")
            found = [Finding("reachable", True, place.connection.bootstrap_servers)]
            if place.topic is not None:
                found.append(_tried(f"topic {place.topic}", partial(_topic, admin, place.topic, repeats=repeats)))
            found.append(_tried("transactions", partial(_transactions, admin, place)))
            found.append(_tried("markers", partial(_markers, admin, place.markers)))
    except ConnectorError as error:
        return [_failed("reachable", error)]
    if schema is not None:
        found.append(_tried("columns", partial(_columns, sink, layout, formats, schema)))
    return found


def _topic(admin: Client, topic: str, *, repeats: bool) -> str:
    facts = facts_of(admin, topic)
    if repeats:
        check_repeats(topic, facts)
    words = f"{facts.partitions} partitions, replication {facts.replication}"
    return f"{words}, messages up to {facts.max_bytes:,} bytes"


def _transactions(admin: Client, place: Place) -> str:
    check_timeout(admin, place)
    return f"of {place.transaction_timeout_s:g} s at most"


def _markers(admin: Client, topic: str) -> str:
    return f"topic {topic} {'is there' if check_markers(admin, topic) else 'will be created'}"


def _columns(sink: str, layout: Layout, formats: Formats, schema: pa.Schema) -> str:
    layout.check(sink, schema)
    formats.check_rows(sink, layout, schema)
    return f"the value has {', '.join(layout.value_columns(schema))}"


def _tried(check: str, call: Callable[[], str]) -> Finding:
    """What `call` says where all is well, or why it is not."""
    try:
        return Finding(check, True, call())
    except ConnectorError as error:
        return _failed(check, error)


def _failed(check: str, error: ConnectorError) -> Finding:
    return Finding(check, False, error.message, error.remedy)
