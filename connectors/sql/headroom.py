"""Connections that a run may open at once, against what each database server still gives: for `eos doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy.engine import make_url

from connectors.api.contracts import Finding
from connectors.sql.kind import Limit, kind_of, place_of
from connectors.sql.statements import StatementError

_DRIVER: Final = 3
"""Of a sink without a log: to commit, to permit meanwhile or to ask what a start asks, and to ask about the others."""
_CONTROL: Final = 2
"""Of a sink with a log, beside its slots: to claim and permit, and to ask what a start asks."""
_HEAD: Final = 2
_WORKERS: Final = 2
"""Python workers for each task at once: a task is read in one and written in another, and each may have either part."""


@dataclass(frozen=True, slots=True)
class Use:
    """What uses a server."""

    name: str  # for people
    url: str = field(repr=False)  # a secret
    slots: int = 0  # of a sink with a log: its tasks do not connect
    prepares: bool = False  # its tasks prepare transactions
    is_head: bool = False

    def connections(self, tasks: int) -> tuple[int, str]:
        """Return how many it has at most where so many tasks run at once, and how they come about.

        Raises StatementError, SpecError.
        """
        if self.is_head:
            return _HEAD, f"{self.name} {_HEAD}"
        if self.slots:
            return self.slots + _CONTROL, f"{self.name} {self.slots} for its slots and {_CONTROL} of the driver"
        kept = not self.prepares or kind_of(self.url).keeps_prepared(self.url)
        count = tasks * (_WORKERS if kept else 1)
        by = f"{count} kept by workers of {tasks} tasks at once" if kept else f"{count} for as many tasks at once"
        return count + _DRIVER, f"{self.name} {by} and {_DRIVER} of the driver"


def check(uses: Sequence[Use], tasks: int | None) -> Iterator[Finding]:
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


def _finding(limit: Limit, uses: Sequence[Use], one: Use, tasks: int | None) -> Finding:
    counted = [each.connections(tasks or 1) for each in uses]
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


def _name(limit: Limit, one: Use) -> str:
    url, port = make_url(one.url), kind_of(one.url).port
    server = place_of(url.host or "localhost", url.port or port, None)
    own = {"server": "", "user": url.username, "database": url.database}[limit.of]
    return f"{own} at {server}" if own else server


def _place(of: str, use: Use) -> tuple[object, ...]:
    """Equal for uses that share a limit of a server, user or database."""
    url, port = make_url(use.url), kind_of(use.url).port
    own = {"server": None, "user": url.username, "database": url.database}[of]
    return of, port, url.host or "localhost", url.port or port, own
