"""YARN as processes of this machine: a resource manager and a node manager, from the jar of Hadoop's minicluster.

Containers are processes of the same user. The nodes' file system is this machine's.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psutil

from integration_tests.cluster.standalone import HOST, free_ports
from integration_tests.harness import session
from integration_tests.services.hadoop import classpath, write_settings
from integration_tests.services.java_program import java

_PACKAGES: Final = (
    "org.bouncycastle:bcpkix-jdk18on:1.78.1",
    "javax.xml.bind:jaxb-api:2.3.1",
    "com.sun.xml.bind:jaxb-impl:2.3.1",
    "com.sun.xml.bind:jaxb-core:2.3.0.1",
)
_MANAGERS: Final = {
    "resourcemanager": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "nodemanager": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
}
_OPENED: Final = ("java.lang", "java.util", "java.util.concurrent")  # to the injection library of Hadoop 3.4
_READY_S: Final = 120.0
_POLL_S: Final = 0.1


class Yarn:
    """Use as a context manager: at its end both managers are killed, with all containers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._conf = folder / "conf"
        self._logs = folder / "logs"
        self._sessions: list[int] = []
        self._page = 0
        self.containers = folder / "local"
        """Folder below which each container has its own."""
        self.environment = {"HADOOP_CONF_DIR": str(self._conf), "YARN_CONF_DIR": str(self._conf)}
        """Variables of a process that submits an application."""

    def __enter__(self) -> Self:
        self._write_settings()
        try:
            for name in _MANAGERS:
                self._start(name)
            self._await_node()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill the managers, and then all containers, each of which is a session."""
        for each in reversed(self._sessions):
            session.kill(each)
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                if Path(process.cwd()).is_relative_to(self.containers):
                    session.kill(os.getsid(process.pid))

    def attempts(self) -> set[str]:
        """Return the numbers of the drivers' starts: `container_<time>_<application>_<attempt>_<container>`."""
        return {path.name.split("_")[3] for path in self._logs.glob("application_*/container_*")}

    def logs(self) -> str:
        """Return what all containers have written."""
        paths = sorted(self._logs.rglob("std*"))
        return "\n".join(f"== {path.parent.name}/{path.name}\n{path.read_text(errors='replace')}" for path in paths)

    def _write_settings(self) -> None:
        ports = iter(free_ports(8))
        addresses = {
            name: f"{HOST}:{next(ports)}"
            for name in (
                "yarn.resourcemanager.address",
                "yarn.resourcemanager.scheduler.address",
                "yarn.resourcemanager.resource-tracker.address",
                "yarn.resourcemanager.admin.address",
                "yarn.resourcemanager.webapp.address",
                "yarn.nodemanager.address",
                "yarn.nodemanager.localizer.address",
                "yarn.nodemanager.webapp.address",
            )
        }
        self._page = int(addresses["yarn.resourcemanager.webapp.address"].rpartition(":")[2])
        settings = {
            **addresses,
            "yarn.resourcemanager.bind-host": HOST,
            "yarn.nodemanager.bind-host": HOST,
            "yarn.nodemanager.hostname": HOST,
            "yarn.resourcemanager.scheduler.class": (
                "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
            ),
            "yarn.nodemanager.local-dirs": str(self.containers),
            "yarn.nodemanager.log-dirs": str(self._logs),
            "yarn.nodemanager.resource.memory-mb": "6144",
            "yarn.nodemanager.resource.cpu-vcores": "8",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",  # at the start
            "yarn.nodemanager.sleep-delay-before-sigkill.ms": "30000",
            "yarn.nodemanager.delete.debug-delay-sec": "600",  # logs of containers stay
            "yarn.scheduler.minimum-allocation-mb": "256",
        }
        core = {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(self._folder / "tmp")}
        write_settings(self._conf, {"core": core, "yarn": settings})

    def _start(self, name: str) -> None:
        command = [
            java("YARN"),
            *(word for package in _OPENED for word in ("--add-opens", f"java.base/{package}=ALL-UNNAMED")),
            "-Xmx384m",
            f"-Dlog4j2.configurationFile={self._conf / 'log4j2.properties'}",
            *("-cp", f"{self._conf}:{classpath('yarn', self._folder / 'jars.log', _PACKAGES)}"),
            _MANAGERS[name],
        ]
        with (self._folder / f"{name}.log").open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self._folder,
                env={key: os.environ[key] for key in ("PATH", "HOME", "JAVA_HOME", "LANG") if key in os.environ},
            )
        self._sessions.append(process.pid)

    def _await_node(self) -> None:
        deadline_s = time.monotonic() + _READY_S
        while not self._has_node():
            assert time.monotonic() < deadline_s, f"no node after {_READY_S:g} s: see {self._folder}"
            time.sleep(_POLL_S)

    def _has_node(self) -> bool:
        try:
            return bool(self._get("metrics")["activeNodes"])
        except OSError:  # not yet
            return False

    def _get(self, what: str) -> Any:
        with urllib.request.urlopen(f"http://{HOST}:{self._page}/ws/v1/cluster/{what}", timeout=10) as answer:
            return json.load(answer)
