"""Connections that a run may open at once, against what each database server still gives: for `eos doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from sqlalchemy.engine import make_url

from connectors.api.contracts import Finding
from connectors.api.database import DatabaseUse
from connectors.sql.kind import Limit, kind_of, place_of
from connectors.sql.statements import StatementError

_DRIVER: Final = 3
"""Of a sink without a log: to commit over one, to permit meanwhile or to ask what a start asks, and to ask about the
others."""
_HEAD: Final = 2
_WORKERS: Final = 2
"""Python workers for each task at once: a task is read in one and written in another, and each may have either part."""


def connections(use: DatabaseUse, tasks: int) -> tuple[int, str]:
    """Return how many connections `use` has at most where so many tasks run at once, and how they come about.

    Raises StatementError, SpecError.
    """
    if use.is_head:
        return _HEAD, f"{use.name} {_HEAD}"
    if use.slots:
        of_driver = 1 + max(1, use.learns)  # to claim and permit; to ask what a start asks, or to learn tables
        return use.slots + of_driver, f"{use.name} {use.slots} for its slots and {of_driver} of the driver"
    kept = not use.prepares or kind_of(use.url).keeps_prepared(use.url)
    count = tasks * (_WORKERS if kept else 1)
    by = f"{count} kept by workers of {tasks} tasks at once" if kept else f"{count} for as many tasks at once"
    of_driver = _DRIVER + use.commits - 1
    return count + of_driver, f"{use.name} {by} and {of_driver} of the driver"


def check(uses: Sequence[DatabaseUse], tasks: int | None) -> Iterator[Finding]:
    """Compare what a run opens with the limits of each server, user and database. Raises SpecError.

    Too few is a warning: a task that finds no connection fails, and is tried again. A server that does not answer has
    no finding here: the findings of its sink have it.

    `tasks`: that run at once; None where only the cluster knows: then one is counted, and the finding says so.
    """
    seen = set[tuple[object, ...]]()
    for one in uses:
        if (place := (_place("server", one), _place("user", one), _place("database", one))) in seen:
            continue
        seen.add(place)
        with suppress(StatementError):
            for limit in kind_of(one.url).limits(one.url):
                if (of := (limit.name, _place(limit.of, one))) not in seen:
                    seen.add(of)
                    sharing = [each for each in uses if _place(limit.of, each) == _place(limit.of, one)]
                    yield _finding(limit, sharing, one, tasks)


def _finding(limit: Limit, uses: Sequence[DatabaseUse], one: DatabaseUse, tasks: int | None) -> Finding:
    counted = [connections(each, tasks or 1) for each in uses]
    needed = sum(count for count, _ in counted)
    free = limit.most - limit.reserved - limit.used
    reserved = f"{limit.reserved} reserved and " if limit.reserved else ""
    detail = f"{limit.most}, {reserved}{limit.used} in use; a run opens up to {needed}: "
    detail += "; ".join(how for _, how in counted)
    if tasks is None:
        detail += "; how many tasks run at once is not known here (spark.cores.max)"
    missing = needed - free
    remedy = ""
    if missing > 0:
        remedy = (
            f"{missing} are missing: raise {limit.name} to {limit.most + missing} at least, or let fewer tasks run "
        )
        remedy += "at once (spark.master, spark.cores.max)"
    return Finding(f"{limit.name} of {_name(limit, one)}", missing <= 0, detail, remedy, fatal=False)


def _name(limit: Limit, one: DatabaseUse) -> str:
    url, port = make_url(one.url), kind_of(one.url).port
    server = place_of(url.host or "localhost", url.port or port, None)
    own = {"server": "", "user": url.username, "database": url.database}[limit.of]
    return f"{own} at {server}" if own else server


def _place(of: str, use: DatabaseUse) -> tuple[object, ...]:
    """Equal for uses that share a limit of a server, user or database."""
    url, port = make_url(use.url), kind_of(use.url).port
    own = {"server": None, "user": url.username, "database": url.database}[of]
    return of, port, url.host or "localhost", url.port or port, own
