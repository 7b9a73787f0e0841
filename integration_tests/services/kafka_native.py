"""A Kafka broker as a process of this machine: one KRaft node, run from its Maven jars."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from integration_tests.services.java_classes import compiled
from integration_tests.services.java_program import LOGGING
from integration_tests.services.java_program import java as java_of
from integration_tests.services.kafka_jars import KAFKA_VERSION, classpath
from integration_tests.services.processes import ServerProcess
from integration_tests.services.state import State, tail
from integration_tests.services.values import Server, ServiceError

_CLUSTER_ID = "eos0kafka0native000001"

# As in docker/compose.yaml, but for the addresses.
_PROPERTIES = """\
node.id={node}
process.roles=broker,controller
controller.quorum.voters={voters}
listeners={listeners},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners={advertised}
listener.security.protocol.map={protocols},CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
num.partitions=1
default.replication.factor=1
min.insync.replicas=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.hours=24
"""


@dataclass(frozen=True, slots=True)
class Listener:
    """What a broker listens on beside the plain listener, which is for the tests' own hands."""

    port: int
    protocol: str = "PLAINTEXT"  # as Kafka names it
    told: int | None = None  # the port that clients are told, if not its own
    host: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Own:
    """What one broker has beyond the others."""

    listeners: Mapping[str, Listener] = field(default_factory=dict)  # by name
    settings: str = ""  # lines of server.properties; the last line of a name counts
    node: int = 1
    voters: str | None = None  # of all nodes, as controller.quorum.voters takes them; None: it is alone
    heap: str = "768m"
    java: tuple[str, ...] = ()  # further options of Java
    classes: Mapping[str, Path] = field(default_factory=dict)  # of `java/`: by name, the folder to compile each into


class KafkaNative:
    """How to start the broker; the process itself is remembered by the caller."""

    server = Server("Apache Kafka", KAFKA_VERSION)

    def __init__(self, state: State, data: Path, port: int, controller_port: int, own: Own | None = None) -> None:
        self._state = state
        self._own = own or Own()
        self._data = data / "kafka"
        self._properties = data / "kafka.properties"
        self._logging = data / "kafka-log4j2.properties"
        self._listeners = {"PLAINTEXT": Listener(port), **self._own.listeners}
        self._controller_port = controller_port
        self.log = state.log("kafka" if self._own.voters is None else f"kafka-{self._own.node}")
        self.bootstrap = f"127.0.0.1:{port}"

    def start(self) -> ServerProcess:
        """Start the broker, on an empty folder after formatting it."""
        java = java_of("Kafka")
        libraries = classpath(self._state)
        own = [str(compiled(java, name, libraries, folder)) for name, folder in self._own.classes.items()]
        libraries = ":".join([libraries, *own])
        self._properties.write_text(self._settings())
        self._logging.write_text(LOGGING)
        if not (self._data / "meta.properties").exists():
            self._format(java, libraries)
        return ServerProcess.start(
            [
                *(
                    java,
                    *self._own.java,
                    "-Xms256m",
                    f"-Xmx{self._own.heap}",
                    f"-Dlog4j2.configurationFile={self._logging}",
                ),
                *("-cp", libraries, "kafka.Kafka", str(self._properties)),
            ],
            self.log,
        )

    def _settings(self) -> str:
        found = self._listeners.items()
        common = _PROPERTIES.format(
            node=self._own.node,
            voters=self._own.voters or f"{self._own.node}@127.0.0.1:{self._controller_port}",
            listeners=",".join(f"{name}://{each.host}:{each.port}" for name, each in found),
            advertised=",".join(f"{name}://{each.host}:{each.told or each.port}" for name, each in found),
            protocols=",".join(f"{name}:{each.protocol}" for name, each in found),
            controller_port=self._controller_port,
            data=self._data,
        )
        return common + self._own.settings

    def _format(self, java: str, libraries: str) -> None:
        command = [java, f"-Dlog4j2.configurationFile={self._logging}", "-cp", libraries, "kafka.tools.StorageTool"]
        command += ["format", "-t", _CLUSTER_ID, "-c", str(self._properties)]
        with self.log.open("ab") as output:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
        if done.returncode != 0:
            raise ServiceError(f"Kafka's storage could not be formatted ({self.log}):\n{tail(self.log)}")
