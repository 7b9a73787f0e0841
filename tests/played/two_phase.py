"""What the played servers have in common where they prepare transactions: a sink's committer, listings, and words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from connectors.sql.mysql import xa
from connectors.sql.mysql.server import MySqlServer, mysql_committer
from connectors.sql.postgres.server import PostgresServer, postgres_committer
from connectors.sql.two_phase.committer import TwoPhaseCommitter
from tests.played.mysql import MARIADB, MYSQL, mysql
from tests.played.postgres import postgres
from tests.played.script import Refused, Rows, Script
from twophase.ids import Scope, TransactionId, sink_key

SINK: Final = "warehouse"
PIPELINE: Final = "orders"
OURS: Final = "a" * 20
THEIRS: Final = "b" * 20

LISTING: Final = "XA RECOVER|pg_prepared_xacts"
COMMITTING: Final = "XA COMMIT|COMMIT PREPARED"
ROLLING_BACK: Final = "XA ROLLBACK|ROLLBACK PREPARED"
WITNESS: Final = "SELECT 1 FROM eos_witness.*task_attempt = .* (FOR SHARE|LOCK IN SHARE MODE)"
CLAIM: Final = "FROM eos_claim WHERE.*FOR UPDATE"
DELETING_PERMIT: Final = "DELETE FROM eos_permit"


@dataclass(frozen=True)
class Played:
    """A server, the sink's committer, and how the server says things."""

    script: Script
    committer: TwoPhaseCommitter
    connect: Callable[[], MySqlServer | PostgresServer]
    unknown: Refused
    wrong_state: Refused
    lock_wait: Refused
    duplicate: Refused
    end: str  # of a connection
    lists: Callable[..., Rows]

    def owned(self, epoch: int = 1, incarnation: str = OURS) -> None:
        """The claim row is this one."""
        self.script.on("FROM eos_claim WHERE", [(incarnation, epoch)])


def transaction(
    task: int = 0, *, checkpoint_id: int = 7, epoch: int = 1, attempt: int = 1, incarnation: str = OURS
) -> TransactionId:
    """One of the sink's."""
    return TransactionId(Scope(incarnation, epoch, checkpoint_id, attempt), sink_key(SINK), task, 11 + task)


def _xa(*transactions: TransactionId) -> Rows:
    found = []
    for each in transactions:
        gtrid, bqual = str(each.scope), each.branch
        found.append((xa.FORMAT_ID, len(gtrid), len(bqual), "0x" + (gtrid + bqual).encode().hex()))
    return found


def _gids(*transactions: TransactionId) -> Rows:
    return [(f"eos:{each}",) for each in transactions]


@contextmanager
def _of_mysql(greeting: str) -> Iterator[Played]:
    with mysql(greeting) as (url, script):
        committer = mysql_committer(SINK, url, PIPELINE)
        unknown, wrong_state, lock_wait, duplicate = map(Refused, (1397, 1399, 1205, 1062))
        yield Played(
            script, committer, lambda: MySqlServer(url), unknown, wrong_state, lock_wait, duplicate, "KILL", _xa
        )
        committer.close()


@contextmanager
def _of_postgres() -> Iterator[Played]:
    with postgres() as (url, script):
        committer = postgres_committer(SINK, url, PIPELINE)
        unknown, wrong_state, lock_wait, duplicate = map(Refused, ("42704", "55000", "55P03", "23505"))
        end = "pg_terminate_backend"
        yield Played(
            script, committer, lambda: PostgresServer(url), unknown, wrong_state, lock_wait, duplicate, end, _gids
        )
        committer.close()


SERVERS: Final = {
    "MySQL": lambda: _of_mysql(MYSQL),
    "MariaDB": lambda: _of_mysql(MARIADB),
    "PostgreSQL": _of_postgres,
}
