"""The commits of one checkpoint: as many transactions as tasks, over one connection and over several."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any, Final

import psutil
import sqlalchemy

from benchmarks.bench.targets import number
from benchmarks.scale.logins import cpu_s, forget_connections, on_mysql, on_postgres
from connectors.sql.server_sink import ServerSink
from connectors.sql.two_phase.committing import LEAST_SHARE
from connectors.testing.rows import rows
from connectors.testing.sink_driver import COMMITTED, SinkDriver
from integration_tests.services import Services
from integration_tests.test_compliance import DatabaseTarget
from twophase.participants import Committer
from twophase.values import Committable

_AT_ONCE: Final = 8
"""Tasks that prepare."""

_CONNECTED: Final = {  # without the connection that asks
    "mysql": "SELECT COUNT(*) - 1 FROM information_schema.processlist WHERE db = DATABASE()",
    "postgresql": "SELECT COUNT(*) - 1 FROM pg_stat_activity WHERE datname = current_database()",
}


@dataclass(frozen=True, slots=True)
class _Cost:
    """Time, CPU time and connections of the commits of one checkpoint."""

    time_s: float
    client_s: float  # CPU of this process, which is the driver
    server_s: float  # CPU of the server
    connections: int  # of the committer, at the server


@dataclass
class _Case:
    driver: SinkDriver
    server: psutil.Process
    connected: Callable[[], int]
    checkpoint_id: int = 0
    rows: int = 0

    def run(self, transactions: int, connections: int) -> _Cost:
        """Measure the commits of a checkpoint, behind a small one for which its connections are opened."""
        assert isinstance(self.driver.sink, ServerSink)
        sink = replace(self.driver.sink, connections=connections)
        with closing(sink.committer(self.driver.pipeline)) as committer:
            first = self._prepare(connections * LEAST_SHARE + 1)
            second = self._prepare(transactions)
            forget_connections()
            self.driver.committer.close()  # it has permitted both, and connects again for the next ones
            time.sleep(1)  # MariaDB: the connections of the tasks are still being closed
            self._commit(committer, first)
            gc.collect()  # or else it runs in the middle of some commits
            server_s, client_s, began_s = cpu_s(self.server), time.process_time(), time.perf_counter()
            self._commit(committer, second)
            time_s, client_s = time.perf_counter() - began_s, time.process_time() - client_s
            return _Cost(time_s, client_s, cpu_s(self.server) - server_s, self.connected())

    def _prepare(self, transactions: int) -> Sequence[Committable]:
        driver, first = self.driver, self.rows
        scope = driver.permit(self.checkpoint_id)

        def prepare(task: int) -> Committable:
            return driver.prepare(scope, *rows(first + task, first + task + 1), task=task)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            written = list(pool.map(prepare, range(transactions)))
        self.checkpoint_id, self.rows = self.checkpoint_id + 1, first + transactions
        return written

    def _commit(self, committer: Committer, written: Sequence[Committable]) -> None:
        checkpoint_id = written[0].transaction.scope.checkpoint_id
        outcomes = committer.commit(checkpoint_id, written)
        if set(outcomes) != {COMMITTED}:
            message = f"the outcomes of checkpoint {checkpoint_id} are {set(outcomes)}"
            raise RuntimeError(message)


def measure(
    services: Services, sink: str, *, transactions: int, connections: Sequence[int], rounds: int
) -> list[dict[str, Any]]:
    """Run each number of connections by turns; return the facts of a line for each.

    Raises RuntimeError where not each row is there once.
    """
    with on_postgres() if sink == "postgresql" else on_mysql(services) as (target, server, _):
        case = _case(target, server, sink)
        try:
            found = [[case.run(transactions, each) for each in connections] for _ in range(rounds)]
        finally:
            case.driver.close()  # rolls back what a failure has left prepared
            forget_connections()
        arrived = target.rows()
        if len(arrived) != case.rows or arrived.total() != case.rows:
            message = f"{len(arrived)} of {case.rows} rows have arrived"
            raise RuntimeError(message)
    return [
        {"sink": sink, "transactions": transactions, "most_connections": each, **_facts([r[at] for r in found], found)}
        for at, each in enumerate(connections)
    ]


def _case(target: DatabaseTarget, server: psutil.Process, sink: str) -> _Case:
    asking = sqlalchemy.create_engine(target.url, poolclass=sqlalchemy.StaticPool, isolation_level="AUTOCOMMIT")
    case = _Case(SinkDriver(target), server, partial(number, asking, _CONNECTED[sink]))
    case.driver.start()
    return case


def _facts(costs: Sequence[_Cost], rounds: Sequence[Sequence[_Cost]]) -> dict[str, float]:
    return {
        "connections": max(each.connections for each in costs),
        "commits_ms": round(1000 * median(each.time_s for each in costs), 1),
        "client_cpu_ms": round(1000 * median(each.client_s for each in costs), 1),
        "server_cpu_ms": round(1000 * median(each.server_s for each in costs), 1),
        "time_ratio": round(median(mine.time_s / of[0].time_s for mine, of in zip(costs, rounds, strict=True)), 2),
    }
