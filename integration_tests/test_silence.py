"""A database whose machine is gone without a word: found out by TCP, in half a minute, whatever is under way."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import sqlalchemy

from connectors.sql import silence
from connectors.sql.mysql.engine import Session as MySqlSession
from connectors.sql.postgres.engine import Session as PostgresSession
from connectors.sql.statements import StatementError
from integration_tests.services import Services
from integration_tests.services.postgres_native import Postgres

_LATE_S = 15.0  # on a busy machine

AnySession = MySqlSession | PostgresSession


def _may_drop() -> bool:
    return os.geteuid() == 0 and shutil.which("iptables") is not None and _iptables("-L", "-n") == 0


def _iptables(*arguments: str) -> int:
    return subprocess.run(["iptables", "-w", *arguments], capture_output=True, check=False).returncode


@contextmanager
def _gone(server: int, clients: list[int]) -> Iterator[None]:
    """No packet of these connections arrives any more, in either direction, and nobody is told."""
    ways = [(str(a), str(b)) for client in clients for a, b in ((server, client), (client, server))]
    rules = [("OUTPUT", "-o", "lo", "-p", "tcp", "--sport", a, "--dport", b, "-j", "DROP") for a, b in ways]
    try:
        for rule in rules:
            assert _iptables("-I", *rule) == 0
        yield
    finally:
        for rule in rules:
            _iptables("-D", *rule)


def _own_port(descriptor: int) -> int:
    with socket.socket(fileno=os.dup(descriptor)) as same:
        return int(same.getsockname()[1])


def _fails_after(session: AnySession, statement: str) -> float:
    began_s = time.monotonic()
    with pytest.raises(StatementError):
        session.execute(statement)
    return time.monotonic() - began_s


@pytest.mark.any_server
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["mysql", "postgresql"])
def test_a_server_that_is_gone_is_noticed(services: Services, postgres: Postgres, kind: str) -> None:
    """Before a statement, and while one is waited for."""
    if not _may_drop():
        pytest.skip("iptables cannot be used here")
    sessions: list[AnySession]
    if kind == "mysql":
        url, sleep = services.database_url, "SELECT SLEEP(170)"
        by_mysql = [MySqlSession(url) for _ in range(2)]
        sessions, clients = [*by_mysql], [_own_port(session.driver._sock.fileno()) for session in by_mysql]
    else:
        url, sleep = f"{postgres.url}postgres", "SELECT pg_sleep(170)"
        by_postgres = [PostgresSession(url) for _ in range(2)]
        sessions, clients = [*by_postgres], [_own_port(session.driver.fileno()) for session in by_postgres]
    port = sqlalchemy.make_url(url).port
    assert port is not None
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(_fails_after, sessions[0], sleep)
        time.sleep(1)
        with _gone(port, clients):
            asking = threads.submit(_fails_after, sessions[1], "SELECT 1")
            found = [waiting.result(), asking.result()]
    assert max(found) < silence.NOTICED_S + _LATE_S, found
