"""SQLite for callers that know only a URL. See connectors.sql.kind."""

from __future__ import annotations

from typing import Final

from connectors.sql.kind import DatabaseKind
from connectors.sql.sqlite.check import head_findings
from connectors.sql.sqlite.database import COMMENT_OF, open_url

KIND: Final = DatabaseKind(
    open_engine=open_url,
    error_of=lambda error: None,
    in_utc="",
    comment_of=COMMENT_OF,
    check_head=head_findings,
    limits=lambda url: [],
    port=0,
    keeps_prepared=False,
    head_requirements=lambda url: [],
)
