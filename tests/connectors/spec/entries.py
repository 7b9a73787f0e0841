"""Entries of a spec as the models of the connectors that they name."""

from __future__ import annotations

from connectors.kafka.entry import KafkaEntry
from connectors.spec import Spec
from connectors.sql.entry import ServerEntry


def kafka_source(spec: Spec, index: int = 0) -> KafkaEntry:
    """Return a source, which is one of Kafka."""
    entry = spec.sources[index]
    assert isinstance(entry, KafkaEntry)
    return entry


def server_sink(spec: Spec, index: int = 0) -> ServerEntry:
    """Return a sink, which is a table of a database server."""
    entry = spec.sinks[index]
    assert isinstance(entry, ServerEntry)
    return entry
