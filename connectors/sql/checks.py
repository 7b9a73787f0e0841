"""What `eos doctor` does alike for every database server: run checks, name their findings, and tell what stops one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypeVar

from sqlalchemy import Table

from connectors.api.contracts import Finding
from connectors.api.tls import Protection
from connectors.sql import head, table_format, tables
from connectors.sql.statements import Connected, StatementError
from eos.errors import ConnectorError, TargetError

Check = Callable[[], Iterator[Finding]]
_Session = TypeVar("_Session")


def connected(
    name: str,
    where: Callable[[], str],
    connect: Callable[[], AbstractContextManager[_Session]],
    look: Callable[[_Session], Iterable[Finding]],
) -> Sequence[Finding]:
    """The findings of a connection, or why there is none.

    Args:
        name: what the server is for: a sink's, or `head`.
        where: its address for people; raises SpecError for a url that cannot be read.
        connect: raises SpecError, StatementError.
        look: the findings.
    """
    try:
        place = where()
        opened = connect()
    except ConnectorError as error:
        return [Finding(f"{name}: url", False, error.message, error.remedy)]
    except StatementError as error:
        problem = error.connector_error(f"connecting to {place}")
        return [Finding(f"{name}: reachable", False, problem.message, problem.remedy)]
    with opened as session:
        return list(look(session))


def run(sink: str, checks: Mapping[str, Check], *, leave_out: Collection[str] = ()) -> Iterator[Finding]:
    """The findings of each check in turn, under the sink's name. One that fails is a finding itself."""
    for what, check in checks.items():
        if what in leave_out:
            continue
        try:
            for finding in check():
                yield replace(finding, check=f"{sink}: {finding.check}")
        except ConnectorError as error:
            yield Finding(f"{sink}: {what}", False, error.message, error.remedy)
        except StatementError as error:
            problem = error.connector_error(what)
            yield Finding(f"{sink}: {what}", False, problem.message, problem.remedy)


def require(what: str, findings: Iterable[Finding]) -> None:
    """Refuse to start where `eos doctor` finds something fatal. Raises TargetError, which begins with `what`."""
    wrong = [each for each in findings if each.fatal and not each.ok]
    if wrong:
        message = f"{what}: the server does not give what exactly-once rests on:\n  - "
        message += "\n  - ".join(f"{each.check}: {each.detail}" for each in wrong)
        raise TargetError(message, remedy="; ".join(each.remedy for each in wrong))


def own_tables(server: Connected, own: Sequence[Table], where: str) -> Iterator[Finding]:
    """The protocol's own tables, made where they are missing. `where`: the database, for people."""
    tables.ensure(server, own, where)
    yield Finding("own tables", True, f"{', '.join(each.name for each in own)} are there")


def head_tables(server: Connected, where: str) -> Iterator[Finding]:
    """The tables of head, as far as they are there. `where`: the database, for people."""
    found = server.execute(table_format.reading(server.comment_of, head.TABLES))
    table_format.check_formats(found, where)
    names = ", ".join(str(name) for name, _ in found)
    yield Finding("own tables", True, f"{names or 'none'} are there; a start creates what is missing")


def encryption(cipher: str, asked: Protection, remedy: str) -> Finding:
    """Whether anybody else could read along, or answer. `cipher`: of this connection; `asked`: what the URL says."""
    return Finding("encryption", not asked.is_open, f"{cipher or 'none'}; {asked.value}", remedy, fatal=False)


def replication(waits: bool, detail: str, wait: str) -> Finding:
    """Whether the server waits for the replicas that are connected. `wait`: how to have it do so."""
    remedy = (
        "a replica that takes over may lack rows that were committed: the next start says so, and `eos repair` writes "
        f"them again. To lose none, {wait}"
    )
    return Finding("replication", waits, detail, remedy, fatal=False)
