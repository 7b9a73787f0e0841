"""A standalone master and its workers from pip's PySpark, on the loopback address, with ports that were free."""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import socket
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from integration_tests.cluster.interpreter import make_interpreter
from integration_tests.harness import session
from integration_tests.harness.fast_start import fast_start
from spark_jobs.demo.driver import FAST_START
from spark_jobs.session.properties import as_properties

HOST = "127.0.0.1"
WORKERS = 2
_PYSPARK = Path(str(getattr(find_spec("pyspark"), "origin", ""))).parent  # its import takes a second
_KEPT = ("PATH", "HOME", "JAVA_HOME", "LANG", "TZ", "TMPDIR")
_RUNNING = re.compile(r"Executor: Running task (\d+)\.")
_READY_S = 120.0
_POLL_S = 0.05
_PORTS = range(20_000, 32_000)  # Linux gives 32,768 and above to connections


class Cluster:
    """Use as a context manager: at its end none of its processes lives, nor any that they started.

    `cores`: of each worker; with more than one, several drivers find room at once. `conf`: Spark's settings without
    which nobody can use it. `apart`: a folder in whose place the last worker sees a disk of its own.
    """

    def __init__(self, folder: Path, cores: int = 1, workers: int = WORKERS, apart: Path | None = None) -> None:
        self._folder = folder
        self._apart = apart
        self._cores = cores
        self._workers = workers
        self.python = make_interpreter(folder / "python")
        self.conf = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": secrets.token_hex(32),
            "spark.network.crypto.enabled": "true",
        }
        self._properties = folder / "spark.conf"
        self._properties.touch(mode=0o600)
        self._properties.write_text(as_properties(self.conf))
        self._daemons: list[int] = []  # sessions, those of workers that were killed too: their tasks may outlive them
        self._port, self._page = free_ports(2)
        self.master = f"spark://{HOST}:{self._port}"
        self.workers: list[int] = []

    def executor_of(self, task: int) -> int:
        """The process id of the executor's JVM in which the task of this Python worker runs."""
        for parent in psutil.Process(task).parents():
            if _is_executor(parent):
                return parent.pid
        raise AssertionError(f"process {task} is no child of an executor")

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs, of whichever driver."""
        return [each for worker in self.workers for each in session.members(worker) if _is_executor(each)]

    def tasks(self) -> list[psutil.Process]:
        """Python processes in which tasks run, and the daemons that start them."""
        found = [each for worker in self.workers for each in session.members(worker)]
        return [each for each in found if not session.is_java(each)]

    def partition_of(self, task: int) -> int:
        """The partition that it works on, as its executor of one core has logged it."""
        log = Path(psutil.Process(task).cwd(), "stderr").read_text(errors="replace")
        return int(_RUNNING.findall(log)[-1])

    def worker_of(self, task: int) -> int:
        """The number of the worker on which it runs."""
        return self.workers.index(os.getsid(task))

    def kill_worker(self, number: int) -> None:
        """SIGKILL to a worker, to its executors and to their Python processes, as if the machine had failed."""
        session.kill(self.workers[number])

    def start_worker(self, number: int) -> None:
        """Start it again; its executors come when they come."""
        self.workers[number] = self._start_worker(number)

    def _await_workers(self) -> None:
        """Wait until the master counts all workers as alive."""
        deadline = time.monotonic() + _READY_S
        while (alive := self._state().get("aliveworkers")) != self._workers:
            assert time.monotonic() < deadline, f"{alive} workers after {_READY_S:g} s: see {self._folder}"
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Kill everything."""
        for daemon in self._daemons:
            session.kill(daemon)

    def __enter__(self) -> Self:
        try:
            self._start("master.Master", "master", "--port", str(self._port), "--webui-port", str(self._page))
            self.workers = [self._start_worker(number) for number in range(self._workers)]
            self._await_workers()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start_worker(self, number: int) -> int:
        arguments = ["--cores", str(self._cores), "--memory", f"{self._cores}g", "--webui-port", str(free_ports(1)[0])]
        arguments += ["--work-dir", str(self._folder / f"work-{number}"), self.master]
        apart = self._apart if number == self._workers - 1 else None
        return self._start("worker.Worker", f"worker-{number}", *arguments, apart=apart)

    def _start(self, name: str, log: str, *arguments: str, apart: Path | None = None) -> int:
        """Start one daemon in a session of its own; `spark-class` becomes the JVM."""
        own_disk = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs "$0" && exec "$@"', str(apart)]
        home = Path(fast_start().get("SPARK_HOME", _PYSPARK))
        environment = {key: os.environ[key] for key in _KEPT if key in os.environ}
        environment |= {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": FAST_START,
        }
        command = [
            *(own_disk if apart is not None else []),
            str(home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{name}",
            "--host",
            HOST,
            "--properties-file",
            str(self._properties),
            *arguments,
        ]
        with (self._folder / f"{log}.log").open("ab") as output:
            daemon = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self._folder,
                env=environment,
            )
        self._daemons.append(daemon.pid)
        return daemon.pid

    def _state(self) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._page}/json/", timeout=10) as answer:
                state: dict[str, Any] = json.load(answer)
        except (OSError, json.JSONDecodeError):  # not yet
            return {}
        return state


def _is_executor(process: psutil.Process) -> bool:
    try:
        return any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


def free_ports(count: int) -> Sequence[int]:
    """Ports of the loopback address that nobody listens on now, no two alike.

    Below those that Linux gives to connections: a server that is started again would find its port taken.
    """
    with ExitStack() as held:
        ports: list[int] = []
        for port in random.sample(_PORTS, len(_PORTS)):
            if len(ports) == count:
                return ports
            try:
                held.enter_context(socket.create_server((HOST, port)))
            except OSError:
                continue
            ports.append(port)
    message = f"no {count} ports of {_PORTS} are free"
    raise OSError(message)
