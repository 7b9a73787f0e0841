"""Kafka and MySQL in containers, through docker/compose.yaml."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence

from integration_tests.services.readiness import Obituary, await_database, await_kafka, database_server
from integration_tests.services.state import PROJECT, State, free_port, identity
from integration_tests.services.values import Server, ServiceError, Services

_COMPOSE_FILE = PROJECT / "docker" / "compose.yaml"


def engine_answers() -> bool:
    """Tell whether there is a Docker engine to talk to."""
    if shutil.which("docker") is None:
        return False
    try:
        asked = subprocess.run(["docker", "info"], capture_output=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return False
    # Some versions of the client end with 0 although no engine answered.
    return asked.returncode == 0 and b"Server Version" in asked.stdout


class Containers:
    """Starts, kills and stops the two containers; also the `Control` of a `Services` value."""

    kind = "docker"

    def __init__(self) -> None:
        self._state = State(self.kind)

    @property
    def network(self) -> str:
        """Its name, for a container that is to reach them as kafka:29092 and mysql:3306."""
        return f"{_project()}_default"

    def up(self) -> Services:
        """Start whatever does not run yet and wait until both servers answer."""
        with self._state.locked():
            ports = self._ports()
            try:
                self._compose("up", "-d", "--no-recreate")
            except ServiceError as error:
                raise ServiceError(
                    f"{error}\n  The images must be there or be pulled: apache/kafka:4.3.0 and mysql:9.7. "
                    "EOS_SERVICES=native does without Docker."
                ) from None
        return self._answering(ports)

    def running(self) -> Services | None:
        """Return the services if both containers run."""
        if not self._state.load() or not engine_answers():
            return None
        alive = all(self._running(service) for service in ("kafka", "mysql"))
        return self._answering(self._ports()) if alive else None

    def down(self) -> bool:
        """Remove both containers and their data; tell whether there was anything to stop."""
        with self._state.locked():
            known = bool(self._state.load())
            if known and engine_answers():
                self._compose("down", "-v", "--remove-orphans")
            self._state.forget()
        return known

    def pid(self, service: str) -> int:
        """Of the first process of a service's container, as this machine sees it."""
        return int(_run(["docker", "inspect", "--format", "{{.State.Pid}}", self._container(service)]))

    def put(self, service: str, path: str, content: bytes, owner: str) -> None:
        """Write a file into the container of a service, that only its owner there can read."""
        write = f"umask 077 && cat > {path} && chown {owner} {path}"
        command = ["docker", "exec", "-i", self._container(service), "sh", "-c", write]
        subprocess.run(command, input=content, capture_output=True, check=True)

    def kill_database(self) -> None:
        """End MySQL at once."""
        self._kill("mysql")

    def start_database(self) -> None:
        """Start MySQL again, on the same data."""
        self._start("mysql")

    def pause_database(self) -> None:
        """Have MySQL do nothing any more."""
        _run(["docker", "pause", self._container("mysql")])

    def resume_database(self) -> None:
        """Let it go on."""
        _run(["docker", "unpause", self._container("mysql")])

    def pause_kafka(self) -> None:
        """Have the broker do nothing any more."""
        _run(["docker", "pause", self._container("kafka")])

    def resume_kafka(self) -> None:
        """Let it go on."""
        _run(["docker", "unpause", self._container("kafka")])

    def kill_kafka(self) -> None:
        """End the broker at once."""
        self._kill("kafka")

    def start_kafka(self) -> None:
        """Start the broker again, on the same data."""
        self._start("kafka")

    def _kill(self, service: str) -> None:
        container = self._container(service)
        _run(["docker", "kill", "--signal", "KILL", container])
        _run(["docker", "wait", container])

    def _start(self, service: str) -> None:
        _run(["docker", "start", self._container(service)])
        self._answering(self._ports())

    def _answering(self, ports: dict[str, int]) -> Services:
        bootstrap = f"127.0.0.1:{ports['kafka']}"
        url = f"mysql+pymysql://eos:eos@127.0.0.1:{ports['mysql']}/"
        admin_url = f"mysql+pymysql://root:eos-admin@127.0.0.1:{ports['mysql']}/"
        await_kafka(bootstrap, self._obituary("kafka"))
        await_database(url, self._obituary("mysql"))
        return Services(self.kind, bootstrap, url, admin_url, self._kafka_server(), database_server(url), self)

    def _ports(self) -> dict[str, int]:
        """Return the ports chosen at the first start: they are part of the containers."""
        state = self._state.load()
        if "ports" not in state:
            wanted = {
                "kafka": int(os.environ.get("EOS_KAFKA_PORT", "19092")),
                "mysql": int(os.environ.get("EOS_MYSQL_PORT", "13306")),
            }
            state["ports"] = {name: free_port(port) for name, port in wanted.items()}
            self._state.save(state)
        ports: dict[str, int] = state["ports"]
        return ports

    def _kafka_server(self) -> Server:
        # The protocol does not tell a broker's version; its own jar does.
        listing = _run(["docker", "exec", self._container("kafka"), "ls", "/opt/kafka/libs"])
        found = re.search(r"kafka_2\.13-([\d.]+)\.jar", listing)
        return Server("Apache Kafka", found[1] if found else "of unknown version")

    def _container(self, service: str) -> str:
        return self._compose("ps", "-q", service).strip()

    def _running(self, service: str) -> bool:
        container = self._container(service)
        # A container that docker does not know any more makes `inspect` fail: it does not run either.
        asked = subprocess.run(
            ["docker", "inspect", "--format", "{{.State.Running}}", container],
            capture_output=True,
            text=True,
            check=False,
        )
        return asked.stdout.strip() == "true"

    def _obituary(self, service: str) -> Obituary:
        def died() -> str | None:
            if self._running(service):
                return None
            log = self._compose("logs", "--no-color", "--tail=15", service)
            return f"its container has ended; the end of its log:\n{log}"

        return died

    def _compose(self, *arguments: str) -> str:
        ports = self._ports()
        environment = {"EOS_KAFKA_PORT": str(ports["kafka"]), "EOS_MYSQL_PORT": str(ports["mysql"])}
        command = [*_compose_command(), "-p", _project(), "-f", str(_COMPOSE_FILE), *arguments]
        return _run(command, environment)


def _project() -> str:
    return f"eos-{identity()}"


def _compose_command() -> list[str]:
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, text=True, check=False)
    # A client without the plugin may print its help and still end with 0.
    if plugin.returncode == 0 and "version" in plugin.stdout.lower() and "compose" in plugin.stdout.lower():
        return ["docker", "compose"]
    if shutil.which("docker-compose") is not None:
        return ["docker-compose"]
    raise ServiceError("Docker answers but has no compose: install its compose plugin or docker-compose 1.29")


def _run(command: Sequence[str], environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    if done.returncode != 0:
        raise ServiceError(f"`{' '.join(command)}` failed:\n{(done.stderr or done.stdout).strip()}")
    return done.stdout
