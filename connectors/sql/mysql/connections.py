"""Whether the server has connections enough for a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from connectors.contracts import Finding
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.stragglers import MOST_MARKED

_DRIVER: Final = 3
"""One on which it commits, one for permits while it does or for what a start asks, and one to remind MariaDB (H24)."""


def headroom(session: Session, writers: int | None) -> Iterator[Finding]:
    """What a run needs against what is free now, of the server and of this user. `session` is not counted as used.

    Too few is a warning: a task that finds none fails, and Spark tries it again.
    """
    needed = (writers or 1) + _DRIVER
    tasks = "as many as tasks write at once" if writers is None else f"{writers} tasks that write at once"
    most, of_user = session.execute("SELECT @@global.max_connections, @@session.max_user_connections")[0]
    used = int(session.execute("SHOW GLOBAL STATUS LIKE 'Threads_connected'")[0][1]) - 1
    limits = [("max_connections", int(most), used)]
    if int(of_user):
        mine = session.execute(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)"
        )
        limits.append(("max_user_connections", int(of_user), int(mine[0][0]) - 1))
    if (writers or 1) > MOST_MARKED:
        detail = f"{writers} tasks that write at once: a start can end {MOST_MARKED} that hang"
        yield Finding("hanging tasks", False, detail, "let fewer tasks write at once (spark.master)", fatal=False)
    for name, limit, taken in limits:
        detail = f"{limit}, of which {taken} are used; a run needs {needed}: {tasks}, and {_DRIVER} of the driver"
        remedy = f"raise {name}, or let fewer tasks write at once (spark.master)"
        yield Finding(name, limit - taken >= needed, detail, remedy, fatal=False)
