"""Where messages go, and under which names Kafka knows a sink. Configuration only; picklable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from connectors.kafka.settings import SILENCE_MS, Connection

MARKERS: Final = "eos-markers"
"""Compacted topic that tells of all pipelines of a cluster how far they are."""

_BACKOFF_MS: Final = 10  # by default 100: every transaction would wait so long for the one before it to be closed


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster, and how its transactions are to be made."""

    connection: Connection
    topic: str | None = None  # of all messages; None: rows name theirs
    transaction_timeout_s: float = 60.0
    partitioner: str = "murmur2_random"  # as Java's producers do it
    markers: str = MARKERS

    def transactional(self, transactional_id: str, batch_bytes: int) -> dict[str, str | int | bool]:
        """Settings of a transactional producer."""
        return {
            **self.producer(batch_bytes),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": self._timeout_ms,
            "retry.backoff.ms": _BACKOFF_MS,
        }

    def producer(self, batch_bytes: int) -> dict[str, str | int | bool]:
        """Settings of any producer. `batch_bytes`: of one request, which a broker refuses as a whole."""
        return {
            "linger.ms": 5,
            # There may be three connections that nothing is answered on, one after another.
            "socket.timeout.ms": min(SILENCE_MS, self._timeout_ms // 4),
            **dict(self.connection.properties),
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 2_147_483_647,  # what is on the way is bounded by who hands it over
            "bootstrap.servers": self.connection.bootstrap_servers,
            "delivery.timeout.ms": self._timeout_ms,
            "enable.idempotence": True,
            "partitioner": self.partitioner,
            "batch.size": batch_bytes,
            "message.max.bytes": 1_000_000_000,  # what is too large for its topic was found in a task
            "delivery.report.only.error": True,
            "allow.auto.create.topics": False,
        }

    @property
    def _timeout_ms(self) -> int:
        return int(self.transaction_timeout_s * 1000)


@dataclass(frozen=True, slots=True)
class Names:
    """Of one sink of one pipeline. A transactional id is the same in every life of it, so that each fences the last."""

    pipeline: str
    sink: str  # sink_key(name)

    @property
    def claim(self) -> str:
        """Transactional id and key of the claim."""
        return f"eos.{self.pipeline}.{self.sink}.claim"

    def slot(self, slot: int) -> str:
        """Transactional id of a slot."""
        return f"eos.{self.pipeline}.{self.sink}.{slot}"

    def marker(self, incarnation: str, slot: int) -> str:
        """Key of the marker that tells how far a slot is."""
        return f"eos.{self.pipeline}.{self.sink}.{incarnation}.{slot}"
