"""What `eos doctor` says of a database whose replicas lag: a sink and a head may go back in time (H26, H29)."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from connectors.api.contracts import Finding
from connectors.sql.head import check_head
from connectors.sql.mysql.engine import Session as MariadbSession
from connectors.sql.postgres.engine import Session
from integration_tests.services.copied import CopiedMariadb, CopiedPostgres
from integration_tests.services.postgres_native import program

pytestmark = pytest.mark.any_server

_PATIENCE_S = 30


class _Replica(CopiedMariadb):
    kind = "mariadb-replica"
    options = (*CopiedMariadb.options, "--server-id=2")


@pytest.fixture
def pair() -> Iterator[tuple[CopiedMariadb, _Replica]]:
    """A server and one that is to become its replica."""
    primary = CopiedMariadb()
    primary.up()
    replica = _Replica()  # takes a port that is free now
    replica.up()
    yield primary, replica
    replica.down()
    primary.down()


def _replication(url: str) -> Finding:
    (found,) = (each for each in check_head("head", url) if each.check == "head: replication")
    return found


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.xdist_group("copied-mariadb")
def test_a_replica_that_mariadb_does_not_wait_for_is_a_warning(pair: tuple[CopiedMariadb, _Replica]) -> None:
    primary, replica = pair
    port, url = make_url(primary.admin_url).port, f"{primary.admin_url.rstrip('/')}/mysql"
    assert _replication(url) == Finding("head: replication", True, "none: no replica is connected")
    with MariadbSession(f"{replica.admin_url.rstrip('/')}/mysql") as session:
        session.execute(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='root',"
            " MASTER_PASSWORD='eos-admin'"
        )
        session.execute("START SLAVE")
    _await(lambda: _replication(url).detail != "none: no replica is connected")
    found = _replication(url)
    assert (found.ok, found.fatal, found.detail) == (False, False, "asynchronous; connected replicas: 1")
    assert "`eos repair`" in found.remedy
    with MariadbSession(url) as session:
        session.execute("SET GLOBAL rpl_semi_sync_master_enabled = ON")
        assert _replication(url).detail == "semi-synchronous, AFTER_COMMIT; connected replicas: 1"
        assert not _replication(url).ok
        session.execute("SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC")
    assert _replication(url).ok


@pytest.fixture
def standalone() -> Iterator[CopiedPostgres]:
    """A server of this test alone."""
    server = CopiedPostgres()
    server.up()
    yield server
    server.down()


@pytest.mark.xdist_group("copied-postgresql")
def test_a_standby_that_postgresql_does_not_wait_for_is_a_warning(tmp_path: Path, standalone: CopiedPostgres) -> None:
    """`pg_receivewal` is a standby to the server."""
    url, admin = f"{standalone.url}postgres", make_url(standalone.admin_url)
    assert _replication(url) == Finding("head: replication", True, "none: no standby is connected")
    where = ["-h", "127.0.0.1", "-p", str(admin.port), "-U", str(admin.username)]
    environment = {**os.environ, "PGPASSWORD": str(admin.password)}
    with subprocess.Popen([program("pg_receivewal"), "-D", str(tmp_path), *where], env=environment) as receiver:
        try:
            _await(lambda: _replication(url).detail != "none: no standby is connected")
            found = _replication(url)
            assert (found.ok, found.fatal, found.detail) == (False, False, "asynchronous; connected standbys: 1")
            assert "`eos repair`" in found.remedy
            with Session(standalone.admin_url) as session:
                session.execute("ALTER SYSTEM SET synchronous_standby_names = 'pg_receivewal'")
                session.execute("SELECT pg_reload_conf()")
            _await(lambda: _replication(url).ok)
            assert _replication(url).detail == "synchronous, pg_receivewal; connected standbys: 1"
        finally:
            receiver.terminate()
