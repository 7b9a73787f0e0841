"""The settings of MySQL and MariaDB without which a run would lose or block: read by `eos doctor` and by each start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from connectors.api.contracts import Finding
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.product import product

_MYSQL: Final = (8, 0, 30)
_MARIADB: Final = (10, 5, 2)
_WHY_MYSQL: Final = (
    "`commit: two-phase` needs MySQL 8.0.30 or newer: before it, a crash of the server within XA PREPARE or XA COMMIT "
    "can leave the binary log and InnoDB with different transactions; update the server, or use "
    "`commit: write-ahead-log`"
)
_WHY_MARIADB: Final = (
    "`commit: two-phase` needs MariaDB 10.5.2 or newer: before it, a prepared transaction ends with its connection; "
    "update the server, or use `commit: write-ahead-log`"
)


def requirements(session: Session, *, prepares: bool) -> Iterator[Finding]:
    """Yield what must hold at each start. Raises ServerError.

    `prepares`: the sink's tasks prepare transactions; else they apply a log, or commit themselves.
    """
    yield what_answers(session, prepares=prepares)
    if prepares:
        yield from can_prepare(session)
    yield binlog_format(session)
    yield from durability(session)
    yield writable(session)
    yield session_settings(session)


def what_answers(session: Session, *, prepares: bool) -> Finding:
    """Return what is known of a managed database or a proxy. Raises ServerError."""
    variables = read_variables(session, "version", "version_comment", "aurora_version", "wsrep_on")
    found = product(session.dialect.greeting, variables)
    trouble, remedy = (found.trouble, found.remedy) if prepares else (found.with_log, found.log_remedy)
    detail = f"{found.name}: {trouble}" if trouble else found.name
    return Finding("product", not trouble, detail, remedy, fatal=found.fatal and prepares)


def can_prepare(session: Session) -> Iterator[Finding]:
    """Yield whether a prepared branch outlives its connection, and a crash of the server. Raises ServerError."""
    least, why = (_MARIADB, _WHY_MARIADB) if session.dialect.is_mariadb else (_MYSQL, _WHY_MYSQL)
    yield Finding("version", session.dialect.version >= least, session.dialect.name, why)
    if not session.dialect.is_mariadb:
        value = read_variables(session, "xa_detach_on_prepare").get("xa_detach_on_prepare", "missing")
        yield Finding("xa_detach_on_prepare", value == "ON", value, "SET PERSIST xa_detach_on_prepare = ON")


def binlog_format(session: Session) -> Finding:
    """Return whether rows can be written at the isolation that the protocol needs. Raises ServerError."""
    value = read_variables(session, "binlog_format").get("binlog_format", "ROW")
    remedy = "set binlog_format = ROW: STATEMENT refuses READ COMMITTED"
    return Finding("binlog_format", value != "STATEMENT", value, remedy)


def durability(session: Session) -> Iterator[Finding]:
    """Yield whether what is acknowledged outlives a power cut. Raises ServerError.

    A prepared branch that a power cut takes away is a lost committable (R7); a decision, a lost one (R6).
    """
    found = read_variables(session, "innodb_flush_log_at_trx_commit", "log_bin", "sync_binlog")
    flush = found.get("innodb_flush_log_at_trx_commit", "missing")
    remedy = "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's configuration"
    yield Finding("innodb_flush_log_at_trx_commit", flush == "1", flush, remedy)
    if found.get("log_bin") == "ON":
        sync = found.get("sync_binlog", "missing")
        remedy = "SET GLOBAL sync_binlog = 1, and in the server's configuration"
        yield Finding("sync_binlog", sync == "1", sync, remedy)


def writable(session: Session) -> Finding:
    """Return whether the server takes writes. Raises ServerError."""
    found = read_variables(session, "innodb_read_only", "read_only")
    read_only = [key for key in ("read_only", "innodb_read_only") if found.get(key) == "ON"]
    return Finding("writable", not read_only, ", ".join(read_only) or "yes", "give the address of the primary server")


def session_settings(session: Session) -> Finding:
    """Return whether this connection still has the settings that it was given. Raises ServerError."""
    rows = session.execute(
        "SHOW SESSION VARIABLES WHERE Variable_name IN ('innodb_lock_wait_timeout', 'lock_wait_timeout',"
        " 'wait_timeout', 'net_read_timeout', 'transaction_isolation', 'tx_isolation')"
    )
    settings = {str(key): str(value) for key, value in rows}
    kept = "READ-COMMITTED" in (settings.get("transaction_isolation"), settings.get("tx_isolation"))
    remedy = "a proxy drops what a session sets: give the server's own address"
    return Finding("session settings", kept, ", ".join(f"{key}={value}" for key, value in settings.items()), remedy)


def read_variables(session: Session, *names: str) -> dict[str, str]:
    """Return the server's global variables, in capitals; one that it does not have is left out. Raises ServerError."""
    statement = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({', '.join(['%s'] * len(names))})"
    return {str(name): str(value).upper() for name, value in session.execute(statement, *names)}
