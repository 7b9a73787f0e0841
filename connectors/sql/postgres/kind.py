"""PostgreSQL for callers that know only a URL. See connectors.sql.kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from connectors.api.contracts import Finding
from connectors.sql.kind import DatabaseKind, Limit
from connectors.sql.postgres import doctor, requirements
from connectors.sql.postgres.database import PostgresDatabase
from connectors.sql.postgres.engine import COMMENT_OF, Session
from connectors.sql.postgres.errors import of_driver
from connectors.sql.postgres.serverside import open_engine

_SERVER: Final = """\
SELECT current_setting('max_connections')::int,
    current_setting('superuser_reserved_connections')::int
    + COALESCE(current_setting('reserved_connections', true), '0')::int,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())"""
_USER: Final = """\
SELECT rolconnlimit, (SELECT count(*) FROM pg_stat_activity WHERE usename = rolname AND pid <> pg_backend_pid())
FROM pg_roles WHERE rolname = session_user AND rolconnlimit >= 0"""
_DATABASE: Final = """\
SELECT datconnlimit, (SELECT count(*) FROM pg_stat_activity a WHERE a.datname = d.datname AND pid <> pg_backend_pid()
    AND backend_type = 'client backend')
FROM pg_database d WHERE d.datname = current_database() AND datconnlimit >= 0"""


def _head_requirements(url: str) -> Sequence[Finding]:
    with Session(url) as session:
        return [*requirements.durability(session), *requirements.session_kept(session, url)]


def _limits(url: str) -> Sequence[Limit]:
    """Return how many connections the server, this user and the database may have, and how many there are.

    Without a limit of the user or the database there is none in the list. `reserved_connections` exists since 16.
    """
    with Session(url) as session:
        ((most, reserved, used),) = session.execute(_SERVER)
        found = [Limit("max_connections", "server", int(most), int(used), int(reserved))]
        found += [Limit("CONNECTION LIMIT", "user", int(most), int(used)) for most, used in session.execute(_USER)]
        of_database = session.execute(_DATABASE)
        found += [Limit("CONNECTION LIMIT", "database", int(most), int(used)) for most, used in of_database]
    return found


KIND: Final = DatabaseKind(
    open_engine=open_engine,
    error_of=of_driver,
    in_utc="SET timezone = 'UTC'",  # else a time near the years 1 or 9999 is one that Python does not know
    comment_of=COMMENT_OF,
    check_head=doctor.check_head,
    limits=_limits,
    port=PostgresDatabase.port,
    keeps_prepared=lambda url: True,
    head_requirements=_head_requirements,
)
