"""Which product answers, where it is not a PostgreSQL server itself: poolers, and servers of another make."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from typing import Final

from connectors.api.contracts import Finding
from connectors.sql.postgres.engine import Session


class Pooling(Enum):
    """How connections reach the server."""

    NONE = "directly"
    SESSION = "through a pooler, one server connection for each connection"
    TRANSACTION = "through a pooler that gives each transaction another server connection"


@dataclass(frozen=True, slots=True)
class Product:
    """Something that speaks PostgreSQL's protocol."""

    name: str
    trouble: str = ""  # with `commit: two-phase`; empty: none is known
    fatal: bool = True


_NOT_POSTGRES: Final = "give the address of a PostgreSQL server itself; no test of this framework runs on {name}"
_ITS_OWN: Final = "its prepared transactions and row locks are not PostgreSQL's, on which commits are looked up"
_PLAIN: Final = Product("a server of its own")
_CITUS: Final = Product(
    "Citus", "it refuses PREPARE TRANSACTION for a transaction that touched several nodes", fatal=False
)
_BY_WORD: Final = {
    "cockroachdb": Product("CockroachDB", _ITS_OWN),  # "CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, …)"
    "-yb-": Product("YugabyteDB", _ITS_OWN),  # "PostgreSQL 11.2-YB-2.18.0.0-b0 on x86_64-pc-linux-gnu, …"
}


def product(version: str, *, citus: bool) -> Product:
    """Return the product of this `version()`; `citus`: the database has the extension. Pure."""
    for mark, found in _BY_WORD.items():
        if mark in version.lower():
            return found
    return _CITUS if citus else _PLAIN


def what_answers(session: Session, *, prepares: bool) -> Finding:
    """Return what is known of the server. Raises ServerError."""
    ((version, citus),) = session.execute(
        "SELECT version(), EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')"
    )
    found = product(str(version), citus=bool(citus))
    trouble = (
        found.trouble if prepares else "" if found is _PLAIN else f"no test of this framework runs on {found.name}"
    )
    detail = f"{found.name}: {trouble}" if trouble else found.name
    return Finding("product", not trouble, detail, _NOT_POSTGRES.format(name=found.name), found.fatal and prepares)


def pooling(session: Session, url: str) -> Finding:
    """Return whether the server's address is a pooler's that mixes sessions up. Raises ServerError. `url`: a secret."""
    found = _pooling(session, url)
    remedy = (
        "settings, advisory locks and open transactions of one connection would reach another: give the server's own "
        "address, or a pool in session mode (PgBouncer: pool_mode = session)"
    )
    return Finding("pooler", found is not Pooling.TRANSACTION, found.value, remedy)


def _pooling(session: Session, url: str) -> Pooling:
    """A pooler tells libpq a process id of its own making, for cancel requests.

    In transaction mode `other` takes the server connection that `session` has given back. Or `other` takes a free one,
    and `session` gets another one in turn.
    """
    ((backend,),) = session.execute("SELECT pg_backend_pid()")
    if backend == session.driver.info.backend_pid:
        return Pooling.NONE
    with closing(Session(url)) as other:
        other.execute("BEGIN")  # keeps its server connection
        ((taken,),) = other.execute("SELECT pg_backend_pid()")
        if taken == backend:  # of a pool of one, `session` would wait for ever
            return Pooling.TRANSACTION
        ((now,),) = session.execute("SELECT pg_backend_pid()")
    return Pooling.SESSION if now == backend else Pooling.TRANSACTION
