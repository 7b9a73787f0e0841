"""The database that head is kept in: what `eos doctor` finds there, and what a start refuses. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.engine import make_url

from connectors.contracts import Finding
from connectors.sql.mysql import doctor as mysql
from connectors.sql.mysql import requirements as of_mysql
from connectors.sql.mysql.engine import Session as MySqlSession
from connectors.sql.postgres import doctor as postgres
from connectors.sql.postgres import requirements as of_postgres
from connectors.sql.postgres.engine import Session as PostgresSession
from connectors.sql.statements import StatementError
from twophase.errors import SpecError


def check_head(name: str, url: str) -> Sequence[Finding]:
    """The findings, under this name; none of a kind of server that is not known here. `url`: a secret."""
    kind = make_url(url).get_backend_name()
    if kind in ("mysql", "mariadb"):
        return mysql.check_head(name, url)
    return postgres.check_head(name, url) if kind == "postgresql" else []


def require_head(url: str) -> None:
    """Refuse a database that may lose a decision which it has acknowledged (R6). Raises SpecError. `url`: a secret.

    Returns where the database does not answer: the start then waits for it, as `restart` says.
    """
    try:
        wrong = [each for each in _requirements(url) if each.fatal and not each.ok]
    except StatementError:
        return
    if wrong:
        message = "checkpoint.head: the database does not give what exactly-once rests on:\n  - "
        message += "\n  - ".join(f"{each.check}: {each.detail}" for each in wrong)
        raise SpecError(message, remedy="; ".join(each.remedy for each in wrong))


def _requirements(url: str) -> Sequence[Finding]:
    kind = make_url(url).get_backend_name()
    if kind in ("mysql", "mariadb"):
        with MySqlSession(url) as mysql_session:
            return list(of_mysql.durability(mysql_session))
    if kind != "postgresql":
        return []
    with PostgresSession(url) as session:
        return [*of_postgres.durability(session), *of_postgres.session_kept(session, url)]
