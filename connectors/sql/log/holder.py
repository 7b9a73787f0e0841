"""Connections that may hold what the next driver needs, and how it gets rid of one that does not let go.

A driver that was stopped in the middle of a transaction keeps its locks for as long as the server lets it. Its
connection has a mark; the next driver's start finds it, waits, and ends it. Only a start does so: whoever has claimed
the sink meets nobody older there, and two that end one another would both come to nothing.

An applier holds the claim shared and its slot; a claim waits for appliers of all slots, and ends them itself
(connectors.sql.claims). A start that applies before its claim (R3) waits for the applier of the same slot, and for a
claim under way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from connectors.sql.claims import FROZEN_S
from connectors.sql.kept import Kept
from connectors.sql.log.store import Store
from connectors.sql.statements import StatementError

_log: Final = logging.getLogger("eos.sink")


class Holder:
    """One marked connection. For one thread at a time."""

    def __init__(
        self,
        kept: Kept[Store],
        mark: str,
        member: int | None = None,
        end_others: Callable[[Store], int] | None = None,
    ) -> None:
        """Take a connection that is not marked yet.

        Args:
            kept: the connection.
            mark: the same for every driver of the pipeline that does the same there; a blocked start ends the others.
            member: which connection of the mark it is, and which of the others a blocked start ends.
            end_others: ends connections of other marks that may block it; returns how many.
        """
        self._kept = kept
        self._mark = mark
        self._member = member
        self._end_others = end_others
        self._marked: Store | None = None
        self._blocked_since: float | None = None

    @contextmanager
    def use(self, doing: str, *, starting: bool) -> Iterator[Store]:
        """See Kept.use. `starting`: this driver has not claimed the sink yet."""
        with self._kept.use(doing) as store:
            if self._marked is not store:
                store.mark(self._mark, self._member)
                self._marked = store
            try:
                yield store
            except StatementError as error:
                if error.lock_wait and starting:
                    self._blocked(store)
                raise
        self._blocked_since = None

    def close(self) -> None:
        """Disconnect; the next call connects again."""
        self._marked = None
        self._kept.close()

    def _blocked(self, store: Store) -> None:
        now = time.monotonic()
        if self._blocked_since is None:
            self._blocked_since = now
        elif now - self._blocked_since > FROZEN_S:
            self._blocked_since = None
            ended = store.end(self._mark, self._member)
            ended += self._end_others(store) if self._end_others is not None else 0
            _log.warning("%s: ended %d connections of an earlier driver, which did not let go", self._mark, ended)
