"""What `eos doctor` does alike for every database server: run checks, name their findings, and tell what stops one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Table

from connectors.contracts import Finding
from connectors.sql import tables
from connectors.sql.statements import Connected, StatementError
from connectors.tls_options import Protection
from twophase.errors import ConnectorError

Check = Callable[[], Iterator[Finding]]


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


def own_tables(server: Connected, own: Sequence[Table]) -> Iterator[Finding]:
    """The protocol's own tables, made where they are missing."""
    tables.ensure(server, own)
    yield Finding("own tables", True, f"{', '.join(each.name for each in own)} are there")


def encryption(cipher: str, asked: Protection, remedy: str) -> Finding:
    """Whether anybody else could read along, or answer. `cipher`: of this connection; `asked`: what the URL says."""
    return Finding("encryption", not asked.is_open, f"{cipher or 'none'}; {asked.value}", remedy, fatal=False)
