"""What a login costs a task: the same tasks, by turns on a connection that is kept and on one of their own."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import psutil
import sqlalchemy

from benchmarks.bench.targets import execute, number
from connectors.sql import pool
from connectors.testing.rows import rows
from connectors.testing.sink_driver import SinkDriver
from integration_tests import databases
from integration_tests.services import Services
from integration_tests.services.postgres_native import Postgres
from integration_tests.test_compliance import DatabaseTarget, MySqlTarget, PostgresTarget
from twophase.ids import Scope

_ROWS: Final = 100
"""Of a task."""


@dataclass(frozen=True, slots=True)
class _Cost:
    """Of one checkpoint's tasks, one after another."""

    time_s: float
    client_s: float  # CPU of this process, which is the worker
    server_s: float  # CPU of the server
    logins: int


@dataclass
class _Case:
    driver: SinkDriver
    server: psutil.Process
    logins: Callable[[], int]
    direct: bool
    checkpoint_id: int = 0

    def run(self, tasks: int, *, kept: bool) -> _Cost:
        """Write a checkpoint; measure its tasks alone."""
        scope = self._scope()
        forget_connections()
        time.sleep(1.5)  # PostgreSQL counts a login a moment later
        logins, server, client, began = self.logins(), cpu_s(self.server), time.process_time(), time.perf_counter()
        written = []
        for task in range(tasks):
            first = (self.checkpoint_id * tasks + task) * _ROWS
            write = self.driver.write_directly if self.direct else self.driver.prepare
            written.append(write(scope, *rows(first, first + _ROWS), task=task))
            if not kept:
                forget_connections()
        time_s, client_s = time.perf_counter() - began, time.process_time() - client
        time.sleep(1.5)  # and a connection that has ended is accounted for by then
        cost = _Cost(time_s, client_s, cpu_s(self.server) - server, self.logins() - logins)
        if not self.direct:
            self.driver.decided[self.checkpoint_id] = written
            self.driver.commit(self.checkpoint_id)
            self.driver.committer.count(self.driver.incarnation, self.checkpoint_id, written)
            self.driver.committer.revoke(scope, counted=True)
        self.checkpoint_id += 1
        return cost

    def _scope(self) -> Scope:
        if self.direct:
            return Scope(self.driver.incarnation, self.driver.epoch, self.checkpoint_id)
        return self.driver.permit(self.checkpoint_id)


def measure(services: Services, sink: str, *, direct: bool, tasks: int, rounds: int) -> dict[str, Any]:
    """Run the pairs; return the facts of a line. Raises RuntimeError where not each row is there once."""
    with on_postgres() if sink == "postgresql" else on_mysql(services) as (target, server, logins):
        case = _Case(SinkDriver(target), server, logins, direct)
        case.driver.start()
        try:
            case.run(tasks, kept=True)  # the first connection of a process asks more
            pairs = [(case.run(tasks, kept=False), case.run(tasks, kept=True)) for _ in range(rounds)]
        finally:
            case.driver.close()  # rolls back what a failure has left prepared
            forget_connections()
        arrived, expected = len(target.rows()), case.checkpoint_id * tasks * _ROWS
        if arrived != expected or sum(target.rows().values()) != expected:
            message = f"{arrived} of {expected} rows have arrived"
            raise RuntimeError(message)
    return {
        "sink": sink,
        "mode": "at-least-once" if direct else "two-phase",
        "tasks": tasks,
        **_facts("own", [own for own, _ in pairs], tasks),
        **_facts("kept", [kept for _, kept in pairs], tasks),
        "time_ratio": round(median(kept.time_s / own.time_s for own, kept in pairs), 2),
        "cpu_ratio": round(
            median((kept.client_s + kept.server_s) / (own.client_s + own.server_s) for own, kept in pairs), 2
        ),
    }


def _facts(name: str, costs: list[_Cost], tasks: int) -> dict[str, float]:
    return {
        f"{name}_logins": round(median(each.logins for each in costs)),
        f"{name}_ms": round(1000 * median(each.time_s for each in costs) / tasks, 2),
        f"{name}_client_ms": round(1000 * median(each.client_s for each in costs) / tasks, 2),
        f"{name}_server_ms": round(1000 * median(each.server_s for each in costs) / tasks, 2),
    }


def forget_connections() -> None:
    """Close the connections that tasks of this process have left to later ones."""
    for each in list(pool._pool.idle):
        pool.forget(each.login)


def cpu_s(server: psutil.Process) -> float:
    """With its children, those that have ended too."""
    found = sum(server.cpu_times()[:4])
    for child in server.children(recursive=True):
        try:
            found += sum(child.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return found


@contextmanager
def on_postgres() -> Iterator[tuple[DatabaseTarget, psutil.Process, Callable[[], int]]]:
    """A table at PostgreSQL, the process of the server, and the number of logins so far."""
    server, name = Postgres(), f"eos_{secrets.token_hex(5)}"
    server.up()
    execute(f"{server.url}postgres", f"CREATE DATABASE {name}")
    asking = sqlalchemy.create_engine(server.admin_url, poolclass=sqlalchemy.StaticPool, isolation_level="AUTOCOMMIT")
    counting = f"SELECT sessions FROM pg_stat_database WHERE datname = '{name}'"
    try:
        yield PostgresTarget(f"{server.url}{name}", None), psutil.Process(server.pid), partial(number, asking, counting)
    finally:
        execute(server.admin_url, f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def on_mysql(services: Services) -> Iterator[tuple[DatabaseTarget, psutil.Process, Callable[[], int]]]:
    """A table at MariaDB, the process of the server, and the number of logins so far."""
    name = f"eos_{secrets.token_hex(5)}"
    databases.create(services, name)
    asking = sqlalchemy.create_engine(services.admin_database_url, poolclass=sqlalchemy.StaticPool)
    with asking.connect() as connection:
        pid = int(Path(str(connection.exec_driver_sql("SELECT @@pid_file").scalar_one())).read_text())
    try:
        url = f"{services.database_url.rstrip('/')}/{name}"
        logins = partial(number, asking, "SHOW GLOBAL STATUS LIKE 'Connections'")
        yield MySqlTarget(url, None), psutil.Process(pid), logins
    finally:
        databases.drop(services, name)
