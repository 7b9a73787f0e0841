"""Kafka and MariaDB as processes of this machine, for where there is no Docker."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import psutil

from integration_tests.harness.session import is_stopped
from integration_tests.services.kafka_native import KafkaNative
from integration_tests.services.mariadb_native import MariadbNative
from integration_tests.services.processes import ServerProcess
from integration_tests.services.readiness import Obituary, await_database, await_kafka, database_server
from integration_tests.services.state import State, data_folder, free_port, tail
from integration_tests.services.values import ServiceError, Services


class Native:
    """Starts, kills and stops the two processes; also the `Control` of a `Services` value."""

    kind = "native"

    def __init__(self) -> None:
        self._state = State(self.kind)

    def up(self) -> Services:
        """Start whatever does not run yet and wait until both servers answer."""
        with self._state.locked():
            if not any(map(self._running, self._processes())):
                self._forget_ports()  # somebody else may listen there by now, and would be taken for ours
            ports = self._ports()
            for name, server in (("kafka", self._kafka(ports)), ("mariadb", self._mariadb(ports))):
                if not self._running(name):
                    self._remember(name, server.start())
        return self._answering()

    def running(self) -> Services | None:
        """Return the services if both processes run."""
        return self._answering() if self._running("kafka") and self._running("mariadb") else None

    def down(self) -> bool:
        """Stop both servers and drop their data; tell whether there was anything to stop."""
        with self._state.locked():
            known = self._processes()
            for process in known.values():
                process.stop()
            if known:
                shutil.rmtree(self._data())
            self._state.forget()
        return bool(known)

    def kill_database(self) -> None:
        """End MariaDB at once."""
        self._processes()["mariadb"].kill()

    def start_database(self) -> None:
        """Start MariaDB again."""
        self.up()

    def pause_database(self) -> None:
        """Have MariaDB do nothing any more."""
        self._signal("mariadb", signal.SIGSTOP)

    def resume_database(self) -> None:
        """Let it go on."""
        self._signal("mariadb", signal.SIGCONT)

    def pause_kafka(self) -> None:
        """Have the broker do nothing any more."""
        self._signal("kafka", signal.SIGSTOP)

    def resume_kafka(self) -> None:
        """Let it go on."""
        self._signal("kafka", signal.SIGCONT)

    def kill_kafka(self) -> None:
        """End the broker at once."""
        self._processes()["kafka"].kill()

    def start_kafka(self) -> None:
        """Start the broker again."""
        self.up()

    def _answering(self) -> Services:
        ports = self._ports()
        kafka, mariadb = self._kafka(ports), self._mariadb(ports)
        await_kafka(kafka.bootstrap, self._obituary("kafka"))
        await_database(mariadb.url, self._obituary("mariadb"))
        found = database_server(mariadb.url)
        return Services(self.kind, kafka.bootstrap, mariadb.url, mariadb.admin_url, kafka.server, found, self)

    def _ports(self) -> dict[str, int]:
        """Return the ports, chosen when the first server started: one comes back where its clients know it."""
        state = self._state.load()
        if "ports" not in state:
            wanted = {
                "kafka": int(os.environ.get("EOS_NATIVE_KAFKA_PORT", "19093")),
                "controller": int(os.environ.get("EOS_NATIVE_CONTROLLER_PORT", "19094")),
                "mariadb": int(os.environ.get("EOS_NATIVE_MARIADB_PORT", "13307")),
            }
            state["ports"] = {name: free_port(port) for name, port in wanted.items()}
            self._state.save(state)
        ports: dict[str, int] = state["ports"]
        return ports

    def _forget_ports(self) -> None:
        state = self._state.load()
        if state.pop("ports", None) is not None:
            self._state.save(state)

    def _data(self) -> Path:
        """Return the folder of both, and of no other kind of service: `down` removes it."""
        folder = data_folder() / self.kind
        folder.mkdir(mode=0o711, exist_ok=True)  # MariaDB may run as another user
        return folder

    def _kafka(self, ports: dict[str, int]) -> KafkaNative:
        return KafkaNative(self._state, self._data(), ports["kafka"], ports["controller"])

    def _mariadb(self, ports: dict[str, int]) -> MariadbNative:
        return MariadbNative(self._state, self._data(), ports["mariadb"])

    def _processes(self) -> dict[str, ServerProcess]:
        documents = self._state.load().get("processes", {})
        return {name: ServerProcess.from_json(document) for name, document in documents.items()}

    def _signal(self, name: str, number: signal.Signals) -> None:
        process = psutil.Process(self._processes()[name].pid)
        process.send_signal(number)
        if number is signal.SIGSTOP and not is_stopped(process):  # until then it may answer once more
            raise ServiceError(f"{name}, process {process.pid}, does not stop")

    def _running(self, name: str) -> bool:
        process = self._processes().get(name)
        return process is not None and process.running()

    def _remember(self, name: str, process: ServerProcess) -> None:
        state = self._state.load()
        state.setdefault("processes", {})[name] = process.to_json()
        self._state.save(state)

    def _obituary(self, name: str) -> Obituary:
        log = self._state.log(name)
        return lambda: None if self._running(name) else f"it has ended; the end of {log}:\n{tail(log)}"
