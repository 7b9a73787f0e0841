"""`eos doctor` for MySQL and MariaDB: what design and protocol need of the server, the user and the table."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from connectors.api.contracts import Finding
from connectors.log.place import late_refusal
from connectors.sql import checks
from connectors.sql.mysql import requirements, xa
from connectors.sql.mysql.address import masked, protection
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import PRIVILEGE_MISSING, ServerError
from connectors.sql.mysql.partitioning import REMEDY, partitioning_of_table
from connectors.sql.mysql.product import NO_XA
from connectors.sql.mysql.target import Target, find_target, missing
from connectors.sql.mysql.zombie_connections import MOST_MARKED
from connectors.sql.partitioning import Partitioning
from connectors.sql.slots import LOG_TABLES
from connectors.sql.two_phase import permits

Ahead = Callable[[Session], Iterator[Finding]]

_TO_PREPARE: Final = frozenset({"prepared branches", "XA"})  # checks of what only prepared transactions need
_TO_LIST: Final = frozenset({"prepared transactions"})  # a start of each sink without a log lists them
_WAIT: Final = "have the server wait for replicas: semi-synchronous, with the wait point AFTER_SYNC"
_GRANT_RECOVER: Final = "as an administrator: GRANT XA_RECOVER_ADMIN ON *.* TO <the pipeline's user>"


def check(
    name: str,
    url: str,
    table: str,
    compare: Callable[[], Partitioning] | None,
    ahead: Ahead,
    writers: int | None,
    *,
    two_phase: bool,
    prepares: bool,
    merged: bool = False,
) -> Sequence[Finding]:
    """Everything that can be asked without changing anything but creating the protocol's own tables.

    Args:
        name: the sink's.
        url: the sink's; a secret.
        table: the target; empty for a sink of several tables.
        compare: compares the rows with the table, where the rows are known; raises ConnectorError.
        ahead: what a run would make.
        writers: how many connections may write at once, where that is known.
        two_phase: whether the sink has no log.
        prepares: whether tasks prepare transactions; not at-least-once.
        merged: whether rows of the log are merged, so that the table's one key refuses none.
    """

    def look(session: Session) -> Iterator[Finding]:
        own = permits.TABLES if two_phase else LOG_TABLES
        left_out = (frozenset() if prepares else _TO_PREPARE) | (frozenset() if two_phase else _TO_LIST)
        left_out |= frozenset() if table else {"target"}
        all_checks: dict[str, checks.Check] = {
            "product": lambda: iter([requirements.what_answers(session, prepares=prepares)]),
            "prepared branches": lambda: requirements.can_prepare(session),
            "binlog_format": lambda: iter([requirements.binlog_format(session)]),
            "encryption": lambda: _encryption(session, url),
            "durability": lambda: requirements.durability(session),
            "replication": lambda: iter([_replication(session)]),
            "bulk load": lambda: _bulk_load(session),
            "limits": lambda: _limits(session),
            "hanging tasks": lambda: _hanging(writers),
            "XA": lambda: _try_xa(url),
            "KILL": lambda: _try_kill(session, url),
            "prepared transactions": lambda: _recover(session),
            "own tables": lambda: checks.own_tables(session, own, masked(url)),
            "target": lambda: _target(session, table, compare, ahead, two_phase=two_phase, merged=merged),
            "LOAD DATA LOCAL": lambda: _try_load_local(url, find_target(session, table) if table else None),
        }
        yield _reachable(name, session, url)
        yield from checks.run(name, all_checks, leave_out=left_out)

    return checks.connected(name, lambda: masked(url), lambda: Session(url), look)


def check_head(name: str, url: str) -> Sequence[Finding]:
    """Whether a decision that this server acknowledges is there after a crash of it (R6). Arguments as of `check`."""

    def look(session: Session) -> Iterator[Finding]:
        yield _reachable(name, session, url)
        of_head: dict[str, checks.Check] = {
            "durability": lambda: requirements.durability(session),
            "replication": lambda: iter([_replication(session)]),
            "own tables": lambda: checks.head_tables(session, masked(url)),
        }
        yield from checks.run(name, of_head)

    return checks.connected(name, lambda: masked(url), lambda: Session(url), look)


def _reachable(name: str, session: Session, url: str) -> Finding:
    return Finding(f"{name}: reachable", True, f"{session.dialect.name} at {masked(url)}")


def _replication(session: Session) -> Finding:
    names = [f"rpl_semi_sync_{role}_{what}" for role in ("master", "source") for what in ("enabled", "wait_point")]
    found = requirements.read_variables(session, "log_bin", *names)
    if found.get("log_bin") != "ON":
        return Finding("replication", True, "none: the server writes no binary log")
    replicas = _count_replicas(session)
    if replicas == 0:
        return Finding("replication", True, "none: no replica is connected")
    role = "source" if "rpl_semi_sync_source_enabled" in found else "master"
    who = "replicas cannot be listed by this user" if replicas is None else f"connected replicas: {replicas}"
    if found.get(f"rpl_semi_sync_{role}_enabled") == "ON":
        point = found.get(f"rpl_semi_sync_{role}_wait_point", "missing")
        return checks.replication(point == "AFTER_SYNC", f"semi-synchronous, {point}; {who}", _WAIT)
    return checks.replication(replicas is None, f"asynchronous; {who}", _WAIT)


def _count_replicas(session: Session) -> int | None:
    if session.dialect.is_mariadb:
        return int(str(session.execute("SHOW GLOBAL STATUS LIKE 'Slaves_connected'")[0][1]))
    try:
        return len(session.execute("SHOW REPLICAS"))
    except ServerError as error:
        if error.number != PRIVILEGE_MISSING:
            raise
        return None  # it takes one that a pipeline does not need


def _encryption(session: Session, url: str) -> Iterator[Finding]:
    cipher = str(session.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")[0][1])
    yield checks.encryption(cipher, protection(url), "give ?ssl_ca=/path/ca.pem in the url, and no other option of TLS")


def _bulk_load(session: Session) -> Iterator[Finding]:
    value = requirements.read_variables(session, "local_infile").get("local_infile", "OFF")
    remedy = "SET GLOBAL local_infile = ON; without it rows go by multi-row INSERT, which is slower"
    yield Finding("local_infile", value == "ON", value, remedy, fatal=False)


def _limits(session: Session) -> Iterator[Finding]:
    yield requirements.writable(session)
    yield requirements.session_settings(session)


def _hanging(writers: int | None) -> Iterator[Finding]:
    if (writers or 1) > MOST_MARKED:
        detail = f"{writers} tasks that write at once: a start can end {MOST_MARKED} that hang"
        yield Finding("hanging tasks", False, detail, "let fewer tasks write at once (spark.master)", fatal=False)


def _recover(session: Session) -> Iterator[Finding]:
    try:
        listed = xa.recover(session)
    except ServerError as error:
        yield Finding("XA RECOVER", False, error.text, _GRANT_RECOVER)
        return
    yield Finding("XA RECOVER", True, f"allowed, {len(listed)} prepared")
    foreign = [branch.literal for branch in listed if branch.transaction is None]
    if foreign:
        remedy = "another program prepared them; they keep their locks until XA COMMIT or XA ROLLBACK"
        yield Finding("foreign prepared transactions", False, "; ".join(foreign), remedy, fatal=False)


def _target(
    session: Session,
    table: str,
    compare: Callable[[], Partitioning] | None,
    ahead: Ahead,
    *,
    two_phase: bool,
    merged: bool,
) -> Iterator[Finding]:
    made = list(ahead(session))
    yield from made
    target = find_target(session, table)
    if target is None:
        if not made:
            raise missing(session, table, "create it, or let a run do so: create: if-missing")
        return
    remedy = f"ALTER TABLE {target} ENGINE = InnoDB"
    yield Finding("target", target.engine.lower() == "innodb", f"{target}, {target.engine}", remedy)
    spread = partitioning_of_table(target)
    if compare is not None:
        spread = compare()
        yield Finding("columns", True, f"{len(target.columns)} in the table; the rows fit")
    if two_phase:
        yield Finding("writers", not spread.one_writer, str(spread), REMEDY, fatal=False)
    elif target.unique and not merged:
        yield late_refusal([f"the unique index {each.name}" for each in target.unique])


_NO_LOCAL: Final = (
    "SET GLOBAL local_infile = OFF, and rows go by multi-row INSERT, which is slower; or give the address of the "
    "server itself, if a proxy stands before it"
)
_NO_RIGHT: Final = frozenset({1044, 1142, 1143})
_GRANT: Final = "GRANT INSERT on the table to the pipeline's user"
_EMPTY: Final = memoryview(b"")


def _try_xa(url: str) -> Iterator[Finding]:
    """`XA START`, `XA END` and `XA ROLLBACK` under an id that nobody else has; nothing is ever prepared."""
    literal = xa.Branch(xa.FORMAT_ID, f"eos-doctor-{secrets.token_hex(8)}".encode(), b"probe").literal
    with Session(url) as session:
        try:
            for statement in (f"XA START {literal}", f"XA END {literal}", f"XA ROLLBACK {literal}"):
                session.execute(statement)
        except ServerError as error:
            yield Finding("XA", False, f"refused: {error.text} (error {error.number})", NO_XA)
        else:
            yield Finding("XA", True, "START, END and ROLLBACK work")


def _try_load_local(url: str, target: Target | None) -> Iterator[Finding]:
    """An empty `LOAD DATA LOCAL` into the target, inside a transaction that is rolled back; no row in either case."""
    with Session(url) as session:
        if target is None or not session.execute("SELECT @@local_infile")[0][0]:
            return  # said already; a run does not try it then
        into = f"`{_escaped(target.schema)}`.`{_escaped(target.table)}`"
        session.execute("START TRANSACTION")
        try:
            session.send(f"LOAD DATA LOCAL INFILE 'eos-doctor' INTO TABLE {into} CHARACTER SET utf8mb4", _EMPTY)
        except ServerError as error:
            remedy = _GRANT if error.number in _NO_RIGHT else _NO_LOCAL
            yield Finding("LOAD DATA LOCAL", False, f"refused: {error.text} (error {error.number})", remedy)
        else:
            yield Finding("LOAD DATA LOCAL", True, "an empty file was taken")
        with contextlib.suppress(ServerError):  # the server does so by itself when the connection ends
            session.execute("ROLLBACK")


def _try_kill(session: Session, url: str) -> Iterator[Finding]:
    """Whether the user may end a connection of its own, as a start does with zombie connections."""
    with Session(url) as other:
        number = int(other.execute("SELECT CONNECTION_ID()")[0][0])
        try:
            session.execute(f"KILL {number}")
        except ServerError as error:
            remedy = "let the user end its own connections; without it a start waits for what hangs"
            yield Finding("KILL", False, f"refused: {error.text} (error {error.number})", remedy, fatal=False)
        else:
            yield Finding("KILL", True, "the user may end its own connections")


def _escaped(name: str) -> str:
    return name.replace("`", "``")  # for Session.send, which takes no format string, unlike `quote`
