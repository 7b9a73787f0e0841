"""A PostgreSQL server as a process of this machine, never as root: started by the first test that asks for it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from integration_tests.services.debian import install
from integration_tests.services.processes import ServerProcess
from integration_tests.services.readiness import await_database
from integration_tests.services.state import State, data_folder, free_port, tail
from integration_tests.services.values import Server, ServiceError

# The programs alone: `postgresql-common` is told not to make and start a cluster of the distribution's own.
_DEBIAN_PACKAGE = "postgresql"
_NO_CLUSTER = Path("/etc/postgresql-common/createcluster.d/eos.conf")

_SETTINGS = (
    "max_prepared_transactions=1200",  # a thousand tasks of a checkpoint; the server's default is 0
    "max_connections=200",
    "listen_addresses=127.0.0.1",
    "shared_buffers=128MB",
    "log_min_messages=warning",
    "timezone=Asia/Kathmandu",  # +05:45: a connection that does not set UTC shows at once
)


class Postgres:
    """Starts, kills and stops the server. Also used by `python -m integration_tests.services down`."""

    kind = "postgres"
    wanted_port = "15433"

    def __init__(self) -> None:
        self._state = State(self.kind)
        self._log = self._state.log("postgres")

    @property
    def data(self) -> Path:
        """Its data folder."""
        return data_folder() / self.kind

    @property
    def settings(self) -> Sequence[str]:
        """What it is started with."""
        return _SETTINGS

    def prepare(self) -> None:
        """Called when there is a data folder, before each start."""

    @property
    def url(self) -> str:
        """SQLAlchemy's form, with the rights of a pipeline's user, without a database."""
        return f"postgresql+psycopg://eos:eos@127.0.0.1:{self._port()}/"

    @property
    def admin_url(self) -> str:
        """The same server with all rights."""
        return f"postgresql+psycopg://postgres:eos-admin@127.0.0.1:{self._port()}/postgres"

    @property
    def server(self) -> Server:
        """What it is."""
        version = subprocess.run([program("postgres"), "--version"], capture_output=True, text=True, check=True).stdout
        return Server("PostgreSQL", version.split()[2])

    def up(self) -> None:
        """Start it where it does not run, installing it and creating its data where that is missing; wait for it."""
        with self._state.locked():
            if not self.running():
                if _found("postgres") is None or _found("initdb") is None:
                    self._install()
                data = self.data
                if not (data / "PG_VERSION").exists():
                    self._create(data)
                self.prepare()
                command = [*_as_user(), program("postgres"), "-D", str(data), "-p", str(self._port()), "-k", str(data)]
                for setting in self.settings:
                    command += ["-c", setting]
                process = ServerProcess.start(command, self._log)
                self._state.save({**self._state.load(), "process": process.to_json()})
            await_database(self.admin_url, lambda: None if self.running() else tail(self._log))

    def running(self) -> bool:
        """Whether the process lives."""
        document = self._state.load().get("process")
        return document is not None and ServerProcess.from_json(document).running()

    @property
    def pid(self) -> int:
        """Of its first process; each connection has one of its own below it."""
        return self._process().pid

    def kill(self) -> None:
        """End it at once."""
        process = self._process()
        process.kill()
        process.await_reaped()  # its successor looks for the pid in postmaster.pid

    def down(self) -> bool:
        """Stop it and drop its data; tell whether there was anything to stop."""
        with self._state.locked():
            known = "process" in self._state.load()
            if known:
                process = self._process()
                if process.running():
                    os.kill(process.pid, signal.SIGINT)  # without waiting for its clients
                process.stop()
                shutil.rmtree(self.data, ignore_errors=True)
            self._state.forget()
        return known

    def _process(self) -> ServerProcess:
        return ServerProcess.from_json(self._state.load()["process"])

    def _port(self) -> int:
        state = self._state.load()
        if "port" not in state:
            state["port"] = free_port(int(os.environ.get("EOS_NATIVE_POSTGRES_PORT", self.wanted_port)))
            self._state.save(state)
        port: int = state["port"]
        return port

    def _create(self, data: Path) -> None:
        data.mkdir(mode=0o700, exist_ok=True)
        password = data.parent / "postgres.password"
        password.write_text("eos-admin")
        password.chmod(0o644)  # of a server for tests, on the loopback address
        if _as_user():
            shutil.chown(data, server_user())
        command = [*_as_user(), program("initdb"), "-D", str(data), "-U", "postgres", f"--pwfile={password}"]
        self._run([*command, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8"], "its data could not be created")
        single = [*_as_user(), program("postgres"), "--single", "-D", str(data), "postgres"]
        self._run(single, "its user could not be created", b"CREATE ROLE eos LOGIN CREATEDB PASSWORD 'eos'\n")

    def _install(self) -> None:
        if os.getuid() == 0:
            _NO_CLUSTER.parent.mkdir(parents=True, exist_ok=True)
            _NO_CLUSTER.write_text("create_main_cluster = false\n")
        install("PostgreSQL's server", [_DEBIAN_PACKAGE])

    def _run(self, command: list[str], problem: str, given: bytes = b"") -> None:
        with self._log.open("ab") as output:
            done = subprocess.run(command, input=given, stdout=output, stderr=output, cwd="/", check=False)
        if done.returncode != 0:
            raise ServiceError(f"PostgreSQL: {problem} ({self._log}):\n{tail(self._log)}")


def _as_user() -> list[str]:
    """The server refuses to run as root."""
    if os.getuid() != 0:
        return []
    return ["setpriv", f"--reuid={server_user()}", f"--regid={pwd.getpwnam(server_user()).pw_gid}", "--clear-groups"]


def server_user() -> str:
    """Whom a server started by root runs as."""
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _found(name: str) -> str | None:
    """Debian keeps the programs of each version in a folder of its own; the newest is taken."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    return shutil.which(name, path=":".join([*map(str, versions), os.environ.get("PATH", "")]))


def program(name: str) -> str:
    """Return where a program of the server or its clients is. Raises ServiceError."""
    found = _found(name)
    if found is None:
        raise ServiceError(f"{name} is not on PATH, although its package is installed")
    return found
