"""PgBouncer as a process of this machine, in front of a PostgreSQL server, for as long as one test takes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy

from integration_tests.services.debian import install
from integration_tests.services.postgres_native import server_user
from integration_tests.services.state import free_port, tail
from integration_tests.services.values import ServiceError

_START_S: Final = 20


@contextmanager
def pgbouncer(url: str, folder: Path, pool_mode: str) -> Iterator[str]:
    """Yield the URL of the same database through a pooler, which ends with the block. `folder`: for its files."""
    program = _program()
    server = sqlalchemy.make_url(url)
    port = free_port(16432)
    (folder / "users.txt").write_text(f'"{server.username}" "{server.password}"\n')
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = host={server.host} port={server.port}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = scram-sha-256\nauth_file = {folder / 'users.txt'}\npool_mode = {pool_mode}\n"
        "ignore_startup_parameters = extra_float_digits\nmax_client_conn = 100\ndefault_pool_size = 20\n"
    )
    command = [program, str(settings)]
    if os.getuid() == 0:  # it refuses to run as root
        for path in (folder, settings, folder / "users.txt"):
            shutil.chown(path, server_user())
        command[1:1] = ["-u", server_user()]
    log = folder / "pgbouncer.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/")
    try:
        _await(port, process, log)
        yield server.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
    finally:
        process.kill()
        process.wait()


def _program() -> str:
    where = f"/usr/sbin:{os.environ.get('PATH', '')}"
    if shutil.which("pgbouncer", path=where) is None:
        install("PgBouncer", ["pgbouncer"])
    found = shutil.which("pgbouncer", path=where)
    if found is None:
        message = "pgbouncer is not on PATH, although its package is installed"
        raise ServiceError(message)
    return found


def _await(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + _START_S
    while time.monotonic() < deadline_s:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
        if process.poll() is not None:
            break
    raise ServiceError(f"PgBouncer does not answer ({log}):\n{tail(log)}")
