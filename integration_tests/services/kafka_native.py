"""A Kafka broker as a process of this machine: one KRaft node, run from its Maven jars."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from integration_tests.services.kafka_jars import KAFKA_VERSION, classpath
from integration_tests.services.processes import ServerProcess
from integration_tests.services.state import State, tail
from integration_tests.services.values import Server, ServiceError

_CLUSTER_ID = "eos0kafka0native000001"

# As in docker/compose.yaml, but for the addresses.
_PROPERTIES = """\
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}{listeners}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{listeners}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}
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

_LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.stdout.ref = stdout
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = %d %p %c{1}: %m%n
"""


@dataclass(frozen=True, slots=True)
class Listeners:
    """What else a broker listens on, beside the plain listener for the tests' own hands."""

    ports: Mapping[str, int] = field(default_factory=dict)  # by listener
    protocols: Mapping[str, str] = field(default_factory=dict)  # by listener, as Kafka names them
    settings: str = ""  # lines of server.properties


class KafkaNative:
    """How to start the broker; the process itself is remembered by the caller."""

    server = Server("Apache Kafka", KAFKA_VERSION)

    def __init__(
        self, state: State, data: Path, port: int, controller_port: int, more: Listeners | None = None
    ) -> None:
        self._state = state
        self._more = more or Listeners()
        self._data = data / "kafka"
        self._properties = data / "kafka.properties"
        self._logging = data / "kafka-log4j2.properties"
        self._ports = {"port": port, "controller_port": controller_port}
        self.log = state.log("kafka")
        self.bootstrap = f"127.0.0.1:{port}"

    def start(self) -> ServerProcess:
        """Start the broker, on an empty folder after formatting it."""
        java = _java()
        libraries = classpath(self._state)
        listeners = "".join(f",{name}://127.0.0.1:{port}" for name, port in self._more.ports.items())
        protocols = "".join(f",{name}:{protocol}" for name, protocol in self._more.protocols.items())
        text = _PROPERTIES.format(data=self._data, listeners=listeners, protocols=protocols, **self._ports)
        self._properties.write_text(text + self._more.settings)
        self._logging.write_text(_LOGGING)
        if not (self._data / "meta.properties").exists():
            self._format(java, libraries)
        return ServerProcess.start(
            [
                *(java, "-Xms256m", "-Xmx768m", f"-Dlog4j2.configurationFile={self._logging}"),
                *("-cp", libraries, "kafka.Kafka", str(self._properties)),
            ],
            self.log,
        )

    def _format(self, java: str, libraries: str) -> None:
        command = [java, f"-Dlog4j2.configurationFile={self._logging}", "-cp", libraries, "kafka.tools.StorageTool"]
        command += ["format", "-t", _CLUSTER_ID, "-c", str(self._properties)]
        with self.log.open("ab") as output:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
        if done.returncode != 0:
            raise ServiceError(f"Kafka's storage could not be formatted ({self.log}):\n{tail(self.log)}")


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).exists():
        raise ServiceError("Kafka needs Java 17 or newer on PATH or in JAVA_HOME; scripts/setup installs it for root")
    return found
