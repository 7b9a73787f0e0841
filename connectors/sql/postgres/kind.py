"""PostgreSQL for callers that know only a URL. See connectors.sql.kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from connectors.api.contracts import Finding
from connectors.sql.kind import DatabaseKind, Limit
from connectors.sql.postgres import connections, doctor, requirements
from connectors.sql.postgres.engine import COMMENT_OF, Session
from connectors.sql.postgres.errors import of_driver
from connectors.sql.postgres.serverside import open_engine


def _head_requirements(url: str) -> Sequence[Finding]:
    with Session(url) as session:
        return [*requirements.durability(session), *requirements.session_kept(session, url)]


def _limits(url: str) -> Sequence[Limit]:
    with Session(url) as session:
        return connections.limits(session)


KIND: Final = DatabaseKind(
    open_engine=open_engine,
    error_of=of_driver,
    in_utc="SET timezone = 'UTC'",  # else a time near the years 1 or 9999 is one that Python does not know
    comment_of=COMMENT_OF,
    check_head=doctor.check_head,
    limits=_limits,
    port=5432,
    keeps_prepared=lambda url: True,
    head_requirements=_head_requirements,
)
