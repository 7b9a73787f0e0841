"""Tries on the real server what a run does, and undoes it: some managed databases and proxies refuse only then."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from typing import Final

from connectors.api.contracts import Finding
from connectors.sql.mysql import xa
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import ServerError
from connectors.sql.mysql.product import NO_XA
from connectors.sql.mysql.target import Target

_NO_LOCAL: Final = (
    "SET GLOBAL local_infile = OFF, and rows go by multi-row INSERT, which is slower; or give the address of the "
    "server itself, if a proxy stands before it"
)
_NO_RIGHT: Final = frozenset({1044, 1142, 1143})
_GRANT: Final = "GRANT INSERT on the table to the pipeline's user"
_EMPTY: Final = memoryview(b"")


def transaction(url: str) -> Iterator[Finding]:
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


def load_local(url: str, target: Target | None) -> Iterator[Finding]:
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


def kill(session: Session, url: str) -> Iterator[Finding]:
    """Whether the user may end a connection of its own, as a start does with stragglers."""
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
