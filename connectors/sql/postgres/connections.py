"""How many connections PostgreSQL allows, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from connectors.sql.kind import Limit
from connectors.sql.postgres.engine import Session

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


def limits(session: Session) -> Sequence[Limit]:
    """Return the limits that hold for this connection's user and database. Raises ServerError.

    Without a limit of the user or the database there is none in the list. `reserved_connections` exists since 16.
    """
    ((most, reserved, used),) = session.execute(_SERVER)
    found = [Limit("max_connections", "server", int(most), int(used), int(reserved))]
    found += [Limit("CONNECTION LIMIT", "user", int(most), int(used)) for most, used in session.execute(_USER)]
    found += [Limit("CONNECTION LIMIT", "database", int(most), int(used)) for most, used in session.execute(_DATABASE)]
    return found
