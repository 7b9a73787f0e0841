"""MySQL and MariaDB for callers that know only a URL. See connectors.sql.kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from connectors.api.contracts import Finding
from connectors.sql.kind import DatabaseKind, Limit
from connectors.sql.mysql import connections, doctor, requirements, xa
from connectors.sql.mysql.engine import COMMENT_OF, Session, open_engine
from connectors.sql.mysql.errors import of_driver


def _head_requirements(url: str) -> Sequence[Finding]:
    with Session(url) as session:
        return list(requirements.durability(session))


def _limits(url: str) -> Sequence[Limit]:
    with Session(url) as session:
        return connections.limits(session)


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
    port=3306,
    keeps_prepared=_keeps_prepared,
    head_requirements=_head_requirements,
)
