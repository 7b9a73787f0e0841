"""What `eos doctor` says of a PostgreSQL sink. Changes nothing, apart from the protocol's own tables."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from connectors.api.contracts import Finding
from connectors.log.place import late_refusal
from connectors.sql import checks
from connectors.sql.partitioning import Partitioning
from connectors.sql.postgres import requirements
from connectors.sql.postgres.address import masked, protection
from connectors.sql.postgres.engine import Session
from connectors.sql.postgres.errors import ServerError
from connectors.sql.postgres.product import what_answers
from connectors.sql.postgres.requirements import SETTINGS
from connectors.sql.postgres.server import listed
from connectors.sql.postgres.target import find_target, missing
from connectors.sql.slots import LOG_TABLES
from connectors.sql.two_phase import permits

Ahead = Callable[[Session], Iterator[Finding]]

_TWO_PHASE: Final = frozenset({"prepared transactions", "PREPARE TRANSACTION"})  # only two-phase commit needs them


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
    """Every check, in the order in which they would stop a run.

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
        late = not two_phase and not merged
        own = permits.TABLES if two_phase else LOG_TABLES
        all_checks: dict[str, checks.Check] = {
            "product": lambda: iter([what_answers(session, prepares=prepares)]),
            "version": lambda: requirements.version(session),
            "encryption": lambda: _encryption(session, url),
            "durability": lambda: requirements.durability(session),
            "replication": lambda: iter([_replication(session)]),
            "session": lambda: _session(session, url),
            "prepared transactions": lambda: _prepared(session, writers),
            "PREPARE TRANSACTION": lambda: _try_to_prepare(session),
            "own tables": lambda: checks.own_tables(session, own, masked(url)),
            "target": lambda: _target(session, table, compare, ahead, late=late),
        }
        yield _reachable(name, session, url)
        left_out = (frozenset() if prepares else _TWO_PHASE) | (frozenset() if table else {"target"})
        yield from checks.run(name, all_checks, leave_out=left_out)

    return checks.connected(name, lambda: masked(url), lambda: Session(url), look)


def check_head(name: str, url: str) -> Sequence[Finding]:
    """Whether a decision that this server acknowledges is there after a crash of it (R6). Arguments as of `check`."""

    def look(session: Session) -> Iterator[Finding]:
        yield _reachable(name, session, url)
        of_head: dict[str, checks.Check] = {
            "durability": lambda: requirements.durability(session),
            "replication": lambda: iter([_replication(session)]),
            "session": lambda: _session(session, url),
            "own tables": lambda: checks.head_tables(session, masked(url)),
        }
        yield from checks.run(name, of_head)

    return checks.connected(name, lambda: masked(url), lambda: Session(url), look)


def _reachable(name: str, session: Session, url: str) -> Finding:
    return Finding(f"{name}: reachable", True, f"PostgreSQL {_setting(session, 'server_version')} at {masked(url)}")


def _setting(session: Session, name: str) -> str:
    return requirements.read_settings(session, name)[name]


def _replication(session: Session) -> Finding:
    (standbys,) = session.execute("SELECT count(*) FROM pg_stat_replication")[0]
    if not standbys:
        return Finding("replication", True, "none: no standby is connected")
    names = _setting(session, "synchronous_standby_names")
    detail = f"synchronous, {names}" if names else "asynchronous"
    wait = f"set synchronous_standby_names {SETTINGS}"
    return checks.replication(bool(names), f"{detail}; connected standbys: {standbys}", wait)


def _encryption(session: Session, url: str) -> Iterator[Finding]:
    rows = session.execute("SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    cipher = str(rows[0][1]) if rows and rows[0][0] else ""
    yield checks.encryption(cipher, protection(url), "give ?sslrootcert=/path/ca.pem in the url, and no other sslmode")


def _session(session: Session, url: str) -> Iterator[Finding]:
    followed = _setting(session, "track_activities")
    activities = "set track_activities = on: without it a lost connection is noticed after ten minutes"
    yield Finding("track_activities", followed == "on", followed, activities, fatal=False)
    yield from requirements.session_kept(session, url)


def _prepared(session: Session, writers: int | None) -> Iterator[Finding]:
    most = int(_setting(session, "max_prepared_transactions"))
    found = listed(session)
    needed = 2 * (writers or 1)  # a task's, and that of an attempt before it
    detail = f"{most}, of which {len(found)} are used; a run needs {needed}"
    remedy = f"set max_prepared_transactions = {max(100, needed)} {SETTINGS}"
    yield Finding("max_prepared_transactions", most - len(found) >= needed, detail, remedy, fatal=most == 0)
    foreign = [each.description for each in found if each.transaction is None]
    if foreign:
        remedy = "another program prepared them; they keep their locks until COMMIT PREPARED or ROLLBACK PREPARED"
        yield Finding("foreign prepared transactions", False, "; ".join(foreign), remedy, fatal=False)


def _try_to_prepare(session: Session) -> Iterator[Finding]:
    """Some managed databases refuse it."""
    gid = f"eos-doctor-{secrets.token_hex(8)}"
    session.execute("BEGIN")
    try:
        session.execute(f"PREPARE TRANSACTION '{gid}'")
    except ServerError:
        session.execute("ROLLBACK")
        raise
    session.execute(f"ROLLBACK PREPARED '{gid}'")
    yield Finding("PREPARE TRANSACTION", True, "prepared and rolled back an empty one")


def _target(
    session: Session, table: str, compare: Callable[[], Partitioning] | None, ahead: Ahead, *, late: bool
) -> Iterator[Finding]:
    made = list(ahead(session))
    yield from made
    target = find_target(session, table)
    if target is None:
        if not made:
            raise missing(session, table, "create it, or let a run do so: create: if-missing")
        return
    remedy = f"ALTER TABLE {target.quoted.replace('%%', '%')} SET LOGGED"
    kind = {"p": "logged", "u": "unlogged", "t": "temporary"}.get(target.persistence, target.persistence)
    yield Finding("target", target.persistence == "p", f"{target}, {kind}", remedy)
    yield requirements.insert_allowed(session, target)
    if compare is not None:
        spread = compare()
        yield Finding("columns", True, f"{len(target.columns)} in the table; the rows fit; writers: {spread}")
    if late and target.unique:
        yield late_refusal([f"the unique index {each.name}" for each in target.unique])
