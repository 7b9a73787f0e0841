"""The task's half of a database sink that runs at-least-once: a plain transaction, committed at its end."""

from __future__ import annotations

from typing import Final

from connectors.sql.bulk_writer import BulkWriter, S
from connectors.sql.statements import translated
from twophase import faults
from twophase.values import Committable

_KEPT_S: Final = 60
"""A connection is replaced at this age: a server's name may point to another server by then. No permit tells a task
that it writes to the older server, so the time is as short as a resolver usually remembers a name."""


class DirectBulkWriter(BulkWriter[S]):
    """See DirectWriter. No witness is left, so that an unanswered commit is a failure, and its rows come again."""

    def commit(self) -> Committable:
        session = self._session
        if session is not None:
            with translated(f"{self._where}, committing"), self._bad_rows_named():
                self._sender.wait()
                session.execute("COMMIT")
            self._give_back(_KEPT_S)
        faults.point("written", self._transaction.scope.checkpoint_id)
        return Committable(self._transaction, rows=self._rows, bytes=self._bytes)

    def _begin(self, session: S) -> None:
        session.execute(session.begin)
