"""Three Kafka nodes of a run's own: the pipeline reaches each through a link that can fail, others directly."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from integration_tests.cluster.standalone import free_ports
from integration_tests.harness.link import Link
from integration_tests.services.kafka_native import KafkaNative, Listener, Own
from integration_tests.services.processes import ServerProcess
from integration_tests.services.readiness import await_kafka
from integration_tests.services.state import State

NODES: Final = 3
_SECONDS: Final = 60
_ASKED_S: Final = 5.0

# A node that is silent for three seconds loses its leaderships: a fault lasts longer than that.
_SETTINGS: Final = """\
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
replica.lag.time.max.ms=5000
leader.imbalance.check.interval.seconds=5
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
"""


@dataclass(slots=True)
class _Node:
    server: KafkaNative
    link: Link
    process: ServerProcess | None = None


class Brokers:
    """Use as a context manager: at its end no node lives."""

    def __init__(self, folder: Path) -> None:
        state = State("chaos")
        ports = free_ports(3 * NODES)
        direct, clients, controllers = ports[:NODES], ports[NODES : 2 * NODES], ports[2 * NODES :]
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, 1))
        self._stack = ExitStack()
        self._nodes: list[_Node] = []
        for number in range(NODES):
            link = Link("127.0.0.1", clients[number])
            data = folder / f"node-{number + 1}"
            data.mkdir(parents=True)
            listeners = {"LINKED": Listener(clients[number], told=link.port)}
            own = Own(listeners, _SETTINGS, number + 1, voters, heap="320m")
            self._nodes.append(_Node(KafkaNative(state, data, direct[number], controllers[number], own), link))
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in direct)
        self.linked = ",".join(f"127.0.0.1:{node.link.port}" for node in self._nodes)

    @property
    def links(self) -> Sequence[Link]:
        """Of each node, for the pipeline alone."""
        return [node.link for node in self._nodes]

    def __enter__(self) -> Self:
        try:
            for node in self._nodes:
                self._stack.enter_context(node.link)
                node.process = node.server.start()
            self.await_all()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for node in self._nodes:
            if node.process is not None:
                node.process.kill()
        self._stack.close()

    def kill(self, number: int) -> None:
        """End a node at once."""
        self._process(number).kill()

    def start(self, number: int) -> None:
        """Start it again, on the same data."""
        self._nodes[number].process = self._nodes[number].server.start()

    def stop(self, number: int) -> None:
        """It does nothing any more, and keeps its connections: the others take its leaderships."""
        os.kill(self._process(number).pid, signal.SIGSTOP)

    def go_on(self, number: int) -> None:
        """It goes on where it was, and has to hear that it leads nothing any more."""
        os.kill(self._process(number).pid, signal.SIGCONT)

    def await_all(self) -> None:
        """Wait until every node answers and knows the others. The leaderships go back within seconds.

        Raises ServiceError if a node has ended, also where another server answers at its port.
        """
        for node in self._nodes:
            await_kafka(node.server.bootstrap, self._obituary, _SECONDS, brokers=NODES)

    def _obituary(self) -> str | None:
        ended = [str(node.server.log) for node in self._nodes if node.process is None or not node.process.running()]
        return f"a node has ended, see {', '.join(ended)}" if ended else None

    def led_by(self, number: int, topic: str) -> set[int] | None:
        """Partitions that it leads, as another node has it; None: no other one says."""
        other = self._nodes[(number + 1) % NODES].server.bootstrap
        try:
            found = AdminClient({"bootstrap.servers": other, "log_level": 0}).list_topics(topic, timeout=_ASKED_S)
        except KafkaException:
            return None
        return {each.id for each in found.topics[topic].partitions.values() if each.leader == number + 1}

    def create(self, topic: str, partitions: int) -> None:
        """Returns when every partition has a leader."""
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        new = NewTopic(topic, num_partitions=partitions, replication_factor=NODES)
        for future in client.create_topics([new], operation_timeout=_SECONDS).values():
            future.result(_SECONDS)
        await_kafka(self.bootstrap, topic=topic)

    def _process(self, number: int) -> ServerProcess:
        process = self._nodes[number].process
        assert process is not None
        return process
