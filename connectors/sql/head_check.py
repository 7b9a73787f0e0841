"""The database that head is kept in: what `eos doctor` finds there, and what a start refuses. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.api.contracts import Finding
from connectors.sql.kind import kind_of
from connectors.sql.statements import StatementError
from eos.errors import SpecError


def check_head(name: str, url: str) -> Sequence[Finding]:
    """The findings, under this name; none of a file. `url`: a secret. Raises SpecError."""
    return kind_of(url).check_head(name, url)


def require_head(url: str) -> None:
    """Refuse a database that may lose a decision which it has acknowledged (R6). Raises SpecError. `url`: a secret.

    Returns where the database does not answer: the start then waits for it, as `restart` says.
    """
    try:
        wrong = [each for each in kind_of(url).head_requirements(url) if each.fatal and not each.ok]
    except StatementError:
        return
    if wrong:
        message = "checkpoint.head: the database does not give what exactly-once rests on:\n  - "
        message += "\n  - ".join(f"{each.check}: {each.detail}" for each in wrong)
        raise SpecError(message, remedy="; ".join(each.remedy for each in wrong))
