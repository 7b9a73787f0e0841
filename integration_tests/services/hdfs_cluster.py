"""HDFS as processes of this machine: a namenode and two datanodes, run from the jar of Hadoop's minicluster in Maven.

Each is a process with its own folder, so it can be killed, stopped and restarted on the same data.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from integration_tests.services.hadoop import classpath, write_settings
from integration_tests.services.java_program import java
from integration_tests.services.processes import ServerProcess
from integration_tests.services.single import PortServer
from integration_tests.services.state import State, data_folder, free_port, tail
from integration_tests.services.values import ServiceError

_DATANODES: Final = 2
_START_S: Final = 120.0  # on a busy machine
_PACKAGE: Final = "org.apache.hadoop.hdfs.server"

_SETTINGS: Final = {
    "dfs.replication": "2",
    "dfs.heartbeat.interval": "1",
    "dfs.namenode.safemode.extension": "0",
    "dfs.namenode.http-address": "127.0.0.1:0",
    "dfs.datanode.address": "127.0.0.1:0",
    "dfs.datanode.ipc.address": "127.0.0.1:0",
    "dfs.datanode.http.address": "127.0.0.1:0",
    "dfs.permissions.enabled": "true",
    # A file may be closed before its last block is reported: otherwise each close takes half a second.
    "dfs.namenode.file.close.num-committed-allowed": "1",
}


class HdfsServers:
    """A namenode and its datanodes below a folder. As a context manager they run inside the block."""

    def __init__(self, folder: Path, log: Path, port: int = 0) -> None:
        """
        Args:
            port: the preferred one of the namenode on 127.0.0.1. It takes another if it is in use.
        """
        self._folder = folder
        self._log = log
        self.port = free_port(port)
        self._namenode: ServerProcess | None = None
        self._datanodes: list[ServerProcess] = []

    def __enter__(self) -> Self:
        format_namenode(self._folder, self._log, self.port)
        self.start_namenode()
        self._datanodes = [start_datanode(number, self._folder, self._log) for number in range(_DATANODES)]
        await_ready(self.port, self._datanodes, self._log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.resume_namenode()
        for process in (*self._datanodes, self._namenode):
            if process is not None:
                process.kill()

    def start_namenode(self) -> None:
        """Start the namenode on its data. It answers later."""
        self._namenode = start_namenode(self._folder, self._log)

    def await_ready(self) -> None:
        """Block until files can be written and read."""
        assert self._namenode is not None
        await_ready(self.port, [self._namenode], self._log)

    def kill_namenode(self) -> None:
        """End the namenode by SIGKILL."""
        assert self._namenode is not None
        self._namenode.kill()

    def stop_namenode(self) -> None:
        """Let the namenode do nothing more, with its connections open (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume_namenode(self) -> None:
        """Let the namenode continue (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._namenode is not None and self._namenode.running():
            os.kill(self._namenode.pid, number)


class Hdfs(PortServer):
    """The cluster that all tests share. Each test has a folder of its own. Its namenode is the process of the state."""

    kind = "hdfs"
    wanted_port = 15558

    def down(self) -> bool:
        for each in self._state.load().get("datanodes", []):
            ServerProcess.from_json(each).stop()
        return super().down()

    def _start(self) -> ServerProcess:
        folder = data_folder() / self.kind
        format_namenode(folder, self._log, self.port)
        datanodes = [start_datanode(number, folder, self._log) for number in range(_DATANODES)]
        self._state.save({**self._state.load(), "datanodes": [each.to_json() for each in datanodes]})
        return start_namenode(folder, self._log)

    def _await(self) -> None:
        state = self._state.load()
        processes = [ServerProcess.from_json(each) for each in (state["process"], *state["datanodes"])]
        await_ready(self.port, processes, self._log)

    def _clear(self) -> None:
        shutil.rmtree(data_folder() / self.kind, ignore_errors=True)


def format_namenode(folder: Path, log: Path, port: int) -> None:
    """Write the settings and an empty namespace into a new folder. Raises ServiceError."""
    core = {"fs.defaultFS": f"hdfs://127.0.0.1:{port}", "hadoop.tmp.dir": str(folder / "tmp")}
    own = {"dfs.namenode.rpc-address": f"127.0.0.1:{port}", "dfs.namenode.name.dir": str(folder / "names")}
    write_settings(folder / "conf", {"core": core, "hdfs": {**_SETTINGS, **own}})
    with log.open("ab") as output:
        command = [*_command("namenode", folder), "-format", "-force", "-nonInteractive"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
    if done.returncode != 0:
        raise ServiceError(f"the namenode could not be formatted ({log}):\n{tail(log)}")


def start_namenode(folder: Path, log: Path) -> ServerProcess:
    """Start the namenode. Return before it answers. Raises ServiceError without Java or the jars."""
    return ServerProcess.start(_command("namenode", folder), log)


def start_datanode(number: int, folder: Path, log: Path) -> ServerProcess:
    """Start a datanode, which finds its namenode later."""
    blocks = f"dfs.datanode.data.dir={folder / f'blocks-{number}'}"
    return ServerProcess.start([*_command("datanode", folder), "-D", blocks], log)


def await_ready(port: int, processes: list[ServerProcess], log: Path) -> None:
    """Block until a file can be written and read. Raises ServiceError with the end of the log."""
    from wal.address import ObjectAddress
    from wal.errors import StorageError
    from wal.hdfs_objects import HdfsObjects

    objects = HdfsObjects(ObjectAddress.parse(f"hdfs://127.0.0.1:{port}/eos-ready"))
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and all(each.running() for each in processes):
        try:
            objects.replace("ready", b"yes")
            if objects.read("ready") is not None:
                return
        except StorageError:  # not yet, or in safe mode
            time.sleep(0.1)
    for each in processes:
        each.stop()
    raise ServiceError(f"HDFS did not answer; the end of {log}:\n{tail(log)}")


def _command(role: str, folder: Path) -> list[str]:
    main = {"namenode": "namenode.NameNode", "datanode": "datanode.DataNode"}[role]
    conf = folder / "conf"
    options = ["-Xmx256m", f"-Dlog4j2.configurationFile={conf / 'log4j2.properties'}"]
    return [
        java("HDFS"),
        *options,
        "-cp",
        f"{conf}:{classpath('hdfs', State('hdfs').log('jars'))}",
        f"{_PACKAGE}.{main}",
    ]
