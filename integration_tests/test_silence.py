"""A database whose machine is gone without a word: found out by TCP, in half a minute, whatever is under way."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from connectors.sql import silence
from connectors.sql.mysql.engine import Session as MySqlSession
from connectors.sql.postgres.engine import Session as PostgresSession
from connectors.sql.statements import StatementError
from integration_tests.services import Services
from integration_tests.services.postgres_native import Postgres

pytestmark = pytest.mark.in_turns

_LATE_S = 15.0  # on a busy machine

_SO_ATTACH_FILTER = 26  # asm-generic/socket.h; Python has no name for it
_BPF_RET = 0x06  # linux/bpf_common.h: BPF_RET | BPF_K

AnySession = MySqlSession | PostgresSession


@contextmanager
def _nothing_arrives(descriptors: list[int]) -> Iterator[None]:
    """The kernel drops each packet for these sockets, confirmations included, as where the way from the server is cut.

    A filter of the socket's own, which needs no privilege (socket(7), SO_ATTACH_FILTER).
    """
    drop_all = struct.pack("HBBI", _BPF_RET, 0, 0, 0)  # one instruction: take 0 bytes of the packet
    instructions = ctypes.create_string_buffer(drop_all, len(drop_all))
    program = struct.pack("HP", 1, ctypes.addressof(instructions))
    with ExitStack() as opened:
        same = [opened.enter_context(socket.socket(fileno=os.dup(descriptor))) for descriptor in descriptors]
        for each in same:
            each.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
        yield


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
    sessions: list[AnySession]
    if kind == "mysql":
        url, sleep = services.database_url, "SELECT SLEEP(170)"
        by_mysql = [MySqlSession(url) for _ in range(2)]
        sessions, sockets = [*by_mysql], [session.driver._sock.fileno() for session in by_mysql]
    else:
        url, sleep = f"{postgres.url}postgres", "SELECT pg_sleep(170)"
        by_postgres = [PostgresSession(url) for _ in range(2)]
        sessions, sockets = [*by_postgres], [session.driver.fileno() for session in by_postgres]
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(_fails_after, sessions[0], sleep)
        time.sleep(1)
        with _nothing_arrives(sockets):
            asking = threads.submit(_fails_after, sessions[1], "SELECT 1")
            found = [waiting.result(), asking.result()]
    assert min(found) > silence.IDLE_S, found
    assert max(found) < silence.NOTICED_S + _LATE_S, found
