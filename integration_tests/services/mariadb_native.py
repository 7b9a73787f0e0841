"""A MariaDB server as a process of this machine, never as root, with its own data, port and socket."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from integration_tests.services.debian import install
from integration_tests.services.processes import ServerProcess
from integration_tests.services.state import State, tail
from integration_tests.services.values import ServiceError

# The programs alone. The package `mariadb-server` would also start the distribution's own service.
_DEBIAN_PACKAGES = ("mariadb-server-core", "mariadb-client-core")

USER = "eos:eos"
ADMIN = "root:eos-admin"

# Read by the server at every start, so every statement can be repeated.
_GRANTS = """\
CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';
ALTER USER 'root'@'127.0.0.1' IDENTIFIED BY 'eos-admin';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS 'eos'@'127.0.0.1' IDENTIFIED BY 'eos';
GRANT ALL ON `eos\\_%`.* TO 'eos'@'127.0.0.1';
"""

_SETTINGS = (
    # Durable commits: MariaDB's own default for sync_binlog is 0.
    "--innodb-flush-log-at-trx-commit=1",
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--sync-binlog=1",
    "--server-id=1",
    "--local-infile=ON",
    "--transaction-isolation=REPEATABLE-READ",
    "--character-set-server=utf8mb4",
    "--innodb-buffer-pool-size=512M",
    "--innodb-log-file-size=512M",
    "--innodb-flush-method=O_DIRECT",
    "--max-allowed-packet=64M",
    "--max-connections=300",
    "--binlog-expire-logs-seconds=7200",
    "--skip-name-resolve",
    "--bind-address=127.0.0.1",
    "--default-time-zone=+05:45",  # a connection that does not set UTC shows at once
)


class MariadbNative:
    """How to start the server; the process itself is remembered by the caller."""

    def __init__(self, state: State, data: Path, port: int, more: Sequence[str] = ()) -> None:
        """`more`: options that come after, and so above, those that every server has."""
        self._state = state
        self._more = more
        self._folder = data / "mariadb"
        self._port = port
        self.log = state.log("mariadb")
        self.url = f"mysql+pymysql://{USER}@127.0.0.1:{port}/"
        self.admin_url = f"mysql+pymysql://{ADMIN}@127.0.0.1:{port}/"

    def start(self) -> ServerProcess:
        """Start the server, installing it and creating its data folder where that is missing."""
        if _program("mariadbd") is None or _program("mariadb-install-db") is None:
            install("MariaDB's server", _DEBIAN_PACKAGES, "the package that holds mariadbd and mariadb-install-db")
        if not (self._folder / "data" / "mysql").exists():
            self._create()
        (self._folder / "grants.sql").write_text(_GRANTS)
        socket = self._folder / "server.sock"
        command = [_required("mariadbd"), "--no-defaults", *_as_user(), *self._folders()]
        command += [f"--socket={socket}", f"--port={self._port}", f"--init-file={self._folder / 'grants.sql'}"]
        return ServerProcess.start([*command, *_SETTINGS, *self._more], self.log)

    def _create(self) -> None:
        self._folder.mkdir(mode=0o711, exist_ok=True)
        if _as_user():
            shutil.chown(self._folder, server_user())
        command = [_required("mariadb-install-db"), "--no-defaults", *_as_user()]
        command += [*self._folders(), "--auth-root-authentication-method=normal", "--skip-test-db"]
        self._run(command, "MariaDB's data folder could not be created")

    def _folders(self) -> list[str]:
        """Return the options. A server that starts deletes the temporary tables that others have in its folder."""
        temporary = self._folder / "tmp"
        if not temporary.exists():
            temporary.mkdir(mode=0o700)
            if _as_user():
                shutil.chown(temporary, server_user())
        return [f"--datadir={self._folder / 'data'}", f"--tmpdir={temporary}"]

    def _run(self, command: list[str], problem: str) -> None:
        with self.log.open("ab") as output:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
        if done.returncode != 0:
            raise ServiceError(f"{problem} ({self.log}):\n{tail(self.log)}")


def _as_user() -> list[str]:
    return [f"--user={server_user()}"] if os.getuid() == 0 else []


def server_user() -> str:
    """Return the user that a server started by root becomes: the distribution's if there is one."""
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "mysql" if "mysql" in names else "nobody"


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def _required(name: str) -> str:
    found = _program(name)
    if found is None:
        raise ServiceError(f"{name} is not on PATH, although its package is installed")
    return found
