"""What `eos doctor` says of the database that head is kept in. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.engine import make_url

from connectors.contracts import Finding
from connectors.sql.mysql import doctor as mysql
from connectors.sql.postgres import doctor as postgres


def check_head(name: str, url: str) -> Sequence[Finding]:
    """The findings, under this name; none of a kind of server that is not known here. `url`: a secret."""
    kind = make_url(url).get_backend_name()
    if kind in ("mysql", "mariadb"):
        return mysql.check_head(name, url)
    return postgres.check_head(name, url) if kind == "postgresql" else []
