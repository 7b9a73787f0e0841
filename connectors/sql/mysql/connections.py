"""How many connections MySQL or MariaDB allows, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from connectors.sql.kind import Limit
from connectors.sql.mysql.engine import Session

_MINE: Final = (
    "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)"
)


def limits(session: Session) -> Sequence[Limit]:
    """Return the limits that hold for this connection's user. Raises ServerError."""
    most, of_user = session.execute("SELECT @@global.max_connections, @@session.max_user_connections")[0]
    used = int(session.execute("SHOW GLOBAL STATUS LIKE 'Threads_connected'")[0][1]) - 1
    found = [Limit("max_connections", "server", int(most), used)]
    if int(of_user):
        mine = int(session.execute(_MINE)[0][0]) - 1
        found.append(Limit("max_user_connections", "user", int(of_user), mine))
    return found
