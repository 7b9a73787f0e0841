"""Debezium's connectors for MariaDB and PostgreSQL in Kafka Connect, as processes of this machine, from Maven."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from integration_tests.services.kafka_jars import KAFKA_VERSION
from integration_tests.services.maven_jars import resolved, spark_home
from integration_tests.services.processes import ServerProcess
from integration_tests.services.state import free_port, tail
from integration_tests.services.values import ServiceError

VERSION: Final = "3.5.0.Final"
_CONNECT: Final = (
    f"org.apache.kafka:connect-runtime:{KAFKA_VERSION}",
    f"org.apache.kafka:connect-json:{KAFKA_VERSION}",
)
_START_S: Final = 120.0
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"


class Debezium:
    """The connector for MariaDB. Use as a context manager: at its end the process is gone."""

    name = "mariadb"
    """Of the connector, in its package's."""

    def __init__(
        self, folder: Path, kafka: str, database_url: str, prefix: str, settings: Mapping[str, str] | None = None
    ) -> None:
        """`database_url`: of an administrator. `prefix`: of its topics, `PREFIX.DATABASE.TABLE`."""
        self._folder = folder
        self._kafka = kafka
        self._database = urlsplit(database_url)
        self.prefix = prefix
        self._settings = settings or {}
        self._port = free_port(0)
        self._log = folder / "debezium.log"
        self._process: ServerProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.stop()

    def start(self) -> None:
        """Start it where it was; wait until the connector runs."""
        worker, connector = self._folder / "worker.properties", self._folder / "connector.properties"
        worker.write_text(_properties(self._worker()))
        connector.write_text(_properties(self._connector()))
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        command = ["java", "-Xmx512m", "-cp", _classpath(self.name, self._folder), main, str(worker), str(connector)]
        self._process = ServerProcess.start([_java(), *command[1:]], self._log)
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self._process.running():
            if self._is_running():
                return
            time.sleep(0.5)
        self._process.kill()
        raise ServiceError(f"Debezium does not start; the end of {self._log}:\n{tail(self._log)}")

    def kill(self) -> None:
        """End it at once."""
        assert self._process is not None
        self._process.kill()

    def _is_running(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/connectors/{self.prefix}/status", timeout=5) as answer:
                status = json.load(answer)
        except (URLError, OSError):
            return False
        states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        if "FAILED" in states:
            raise ServiceError(f"Debezium has failed: {status}")
        return len(states) == 2 and set(states) == {"RUNNING"}

    def _worker(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self._kafka,
            "key.converter": _JSON,
            "value.converter": _JSON,
            "offset.storage.file.filename": str(self._folder / "offsets"),
            "offset.flush.interval.ms": "500",
            "listeners": f"http://127.0.0.1:{self._port}",
        }

    def _connector(self) -> dict[str, str]:
        return {
            "name": self.prefix,
            "tasks.max": "1",
            "topic.prefix": self.prefix,
            "topic.creation.default.partitions": "2",
            "topic.creation.default.replication.factor": "1",
            "database.hostname": str(self._database.hostname),
            "database.port": str(self._database.port),
            "database.user": str(self._database.username),
            "database.password": str(self._database.password),
            "poll.interval.ms": "50",
            "key.converter": _JSON,
            "value.converter": _JSON,
            **self._of_server(),
            **self._settings,
        }

    def _of_server(self) -> dict[str, str]:
        return {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.server.id": "5701",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(self._folder / "history"),
        }


class PostgresDebezium(Debezium):
    """The connector for PostgreSQL, with the server's own decoder pgoutput. Topics are `PREFIX.SCHEMA.TABLE`."""

    name = "postgres"

    def _of_server(self) -> dict[str, str]:
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.dbname": self._database.path.lstrip("/"),
            "plugin.name": "pgoutput",
            "slot.name": self.prefix,
            "publication.name": self.prefix,
            "publication.autocreate.mode": "filtered",
            "slot.drop.on.stop": "false",
        }


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _classpath(connector: str, folder: Path) -> str:
    packages = (f"io.debezium:debezium-connector-{connector}:{VERSION}", *_CONNECT)
    of_mariadb = "" if connector == "mariadb" else f"{connector}-"
    jars = [
        jar
        for jar in resolved(f"debezium-{of_mariadb}{VERSION}", packages, folder / "jars.log")
        if not jar.name.startswith("org.slf4j_")  # an older one, which finds no logging
    ]
    borrowed = [
        jar
        for prefix in ("slf4j-api-", "log4j-slf4j2-impl-", "log4j-api-", "log4j-core-")
        for jar in sorted((spark_home() / "jars").glob(f"{prefix}*.jar"))
    ]
    return os.pathsep.join(map(str, [*jars, *borrowed]))


def _java() -> str:
    found = shutil.which("java")
    if found is None:
        raise ServiceError("Java is not installed; run scripts/setup")
    return found
