"""MySQL and MariaDB for callers that know only a URL. See connectors.sql.kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from connectors.api.contracts import Finding
from connectors.sql.kind import DatabaseKind, Limit
from connectors.sql.mysql import doctor, requirements, xa
from connectors.sql.mysql.database import MySqlDatabase
from connectors.sql.mysql.engine import COMMENT_OF, Session, open_engine
from connectors.sql.mysql.errors import of_driver

_MINE: Final = (
    "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)"
)


def _head_requirements(url: str) -> Sequence[Finding]:
    with Session(url) as session:
        return list(requirements.durability(session))


def _limits(url: str) -> Sequence[Limit]:
    """Return how many connections the server and this user may have, and how many there are."""
    with Session(url) as session:
        most, of_user = session.execute("SELECT @@global.max_connections, @@session.max_user_connections")[0]
        used = int(session.execute("SHOW GLOBAL STATUS LIKE 'Threads_connected'")[0][1]) - 1
        found = [Limit("max_connections", "server", int(most), used)]
        if int(of_user):
            mine = int(session.execute(_MINE)[0][0]) - 1
            found.append(Limit("max_user_connections", "user", int(of_user), mine))
    return found


def _keeps_prepared(url: str) -> bool:
    with Session(url) as session:
        return xa.releases_xid(session)


KIND: Final = DatabaseKind(
    open_engine=open_engine,
    error_of=of_driver,
    in_utc="SET time_zone = '+00:00'",  # the server does not name the zone of a TIMESTAMP
    comment_of=COMMENT_OF,
    check_head=doctor.check_head,
    limits=_limits,
    port=MySqlDatabase.port,
    keeps_prepared=_keeps_prepared,
    head_requirements=_head_requirements,
)
