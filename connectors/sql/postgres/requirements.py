"""The settings of PostgreSQL without which a run would lose or block: read by `eos doctor` and by each start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from connectors.api.contracts import Finding
from connectors.sql.postgres.engine import Session
from connectors.sql.postgres.product import pooling, what_answers
from connectors.sql.postgres.serverside import DURABLE
from connectors.sql.postgres.target import Target

SETTINGS: Final = "in postgresql.conf, or by ALTER SYSTEM; then restart the server"

_OLDEST: Final = 130000


def requirements(session: Session, url: str, *, prepares: bool) -> Iterator[Finding]:
    """Yield what must hold at each start. Raises ServerError.

    Args:
        session: a connection to the server.
        url: its address; a secret.
        prepares: the sink's tasks prepare transactions; else they apply a log, or commit themselves.
    """
    yield what_answers(session, prepares=prepares)
    yield from version(session)
    yield from durability(session)
    yield from session_kept(session, url)
    if prepares:
        yield prepared_allowed(session)


def version(session: Session) -> Iterator[Finding]:
    """Yield whether the server is new enough, and takes writes. Raises ServerError."""
    found = read_settings(session, "server_version_num", "server_version")
    recent = int(found["server_version_num"]) >= _OLDEST
    yield Finding("version", recent, found["server_version"], "use PostgreSQL 13 or newer")
    (replica,) = session.execute("SELECT pg_is_in_recovery()")[0]
    yield Finding("writable", not replica, "a standby" if replica else "yes", "give the address of the primary server")


def durability(session: Session) -> Iterator[Finding]:
    """Yield whether what is acknowledged outlives a power cut. Raises ServerError.

    A prepared transaction that a power cut takes away is a lost committable (R7); a decision, a lost one (R6).
    """
    found = read_settings(session, "fsync", "full_page_writes")
    yield Finding("fsync", found["fsync"] == "on", found["fsync"], f"set fsync = on {SETTINGS}")
    whole = found["full_page_writes"]
    remedy = f"set full_page_writes = on {SETTINGS}; storage that writes each page as a whole needs it not"
    yield Finding("full_page_writes", whole == "on", whole, remedy, fatal=False)


def session_kept(session: Session, url: str) -> Iterator[Finding]:
    """Yield whether a connection keeps its settings and its place at the server. Raises ServerError."""
    found = read_settings(session, "synchronous_commit", "lock_timeout")
    kept = found["synchronous_commit"] in DURABLE and found["lock_timeout"] == "3s"
    remedy = "a pooler does not keep sessions: give the server's own address, or a pool in session mode"
    yield Finding("session settings", kept, "kept" if kept else "lost between statements", remedy)
    yield pooling(session, url)


def prepared_allowed(session: Session) -> Finding:
    """Return whether the server prepares any transaction at all. Raises ServerError."""
    value = read_settings(session, "max_prepared_transactions")["max_prepared_transactions"]
    remedy = f"set max_prepared_transactions = 100 {SETTINGS}; or use `commit: write-ahead-log`"
    return Finding("max_prepared_transactions", value != "0", value, remedy)


def insert_allowed(session: Session, target: Target) -> Finding:
    """Return whether the user may add rows, if only to some columns. Raises ServerError.

    With a log the server would refuse rows only after their checkpoint is decided.
    """
    table = target.quoted.replace("%%", "%")
    (allowed,) = session.execute("SELECT has_any_column_privilege(%s, 'INSERT')", table)[0]
    remedy = f"as an administrator: GRANT INSERT ON {table} TO <the pipeline's user>"
    return Finding("INSERT", bool(allowed), "allowed" if allowed else "not allowed", remedy)


def read_settings(session: Session, *names: str) -> Mapping[str, str]:
    """Return the settings as this connection has them. Raises ServerError."""
    calls = ", ".join(["current_setting(%s)"] * len(names))
    (row,) = session.execute(f"SELECT {calls}", *names)
    return dict(zip(names, map(str, row), strict=True))
