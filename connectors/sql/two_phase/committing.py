"""The COMMIT statements of one checkpoint, over several connections at once (R7).

A server syncs its disk for each commit. Commits that arrive on several connections at the same time share a sync (group
commit), so a checkpoint with many transactions is committed over several. The order of commits within a checkpoint is
free: the protocol continues when all of them have an outcome.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from connectors.sql.reconnecting import IDLE_S, ReconnectingConnection
from connectors.sql.statements import StatementError
from connectors.sql.two_phase.server import Server
from twophase.gather import at_once
from twophase.ids import TransactionId

CONNECTIONS: Final = 4
"""Connections over which a sink commits a checkpoint, unless the spec says otherwise (`checkpoint.connections`)."""

LEAST_SHARE: Final = 16
"""Transactions of a checkpoint for each further connection: fewer are committed as fast without it."""

_BATCH: Final = 50
"""Statements sent in one piece: they and their answers fit the buffers of any connection."""

Answers = Mapping[TransactionId, StatementError | None]
"""By transaction, the server's answer; None: committed. A missing one was not sent."""

_log: Final = logging.getLogger("eos.sink")


def check_known(answer: StatementError | None) -> None:
    """Raise an answer that is a failure. Any other error is neither success nor failure, and is looked up (R7)."""
    if answer and not (answer.disconnected or answer.in_doubt or answer.lock_wait or answer.rolled_back):
        raise answer


def stops(answer: StatementError | None) -> bool:
    """Whether the next commit on the same connection could only wait, or fail as well."""
    return answer is not None and not (answer.in_doubt or answer.rolled_back)


class ParallelCommits:
    """The connections of one committer for its commits. The further ones are closed after 30 seconds without a commit.

    Used by one thread at a time, which starts the others and waits for them.
    """

    def __init__(self, where: str, connect: Callable[[], Server], most: int) -> None:
        """`most`: connections at once, with the committer's own."""
        self._where = where
        self._connect = connect
        self._most = most
        self._further: list[ReconnectingConnection[Server]] = []
        self._lock = threading.Lock()  # Invariant: who uses or closes the further connections holds it
        self._closing: threading.Timer | None = None

    def commit(self, own: ReconnectingConnection[Server], transactions: Sequence[TransactionId]) -> Answers:
        """Commit these, over the committer's `own` connection and as many others as are worth a login.

        If the server has no room for another connection, the open ones commit its share. Raises StatementError if
        `own` cannot connect.
        """
        count = min(self._most, max(1, len(transactions) // LEAST_SHARE))
        if count == 1:
            return _commit_on(own, transactions)
        shares = [transactions[number::count] for number in range(count)]
        with self._use(count - 1) as further:
            calls = {f"{self._where}, connection 1": partial(_commit_on, own, shares[0])}
            for number, (connection, share) in enumerate(zip(further, shares[1:], strict=True), 2):
                name = f"{self._where}, connection {number}"
                calls[name] = partial(_commit_if_connected, name, connection, share)
            answers = {each: answer for found in at_once(calls).values() for each, answer in found.items()}
        if any(map(stops, answers.values())):
            return answers
        return {**answers, **_commit_on(own, [each for each in transactions if each not in answers])}

    def close(self) -> None:
        """Disconnect, and return when no thread is left. Never raises."""
        with self._lock:
            closing, self._closing = self._closing, None
            if closing is not None:
                closing.cancel()
            for each in self._further:
                each.close()
        if closing is not None and closing is not threading.current_thread():
            closing.join()

    @contextmanager
    def _use(self, count: int) -> Iterator[Sequence[ReconnectingConnection[Server]]]:
        with self._lock:
            if self._closing is not None:
                self._closing.cancel()
            while len(self._further) < count:
                self._further.append(ReconnectingConnection(self._where, self._connect))
            try:
                yield self._further[:count]
            finally:
                for unused in self._further[count:]:
                    unused.close_if_idle()
                self._closing = threading.Timer(IDLE_S, self.close)
                self._closing.name, self._closing.daemon = "eos-idle-commits", True
                self._closing.start()


def _commit_if_connected(
    name: str, connection: ReconnectingConnection[Server], transactions: Sequence[TransactionId]
) -> Answers:
    """Commit these, or nothing if the connection cannot be opened. Never raises StatementError."""
    try:
        connection.open()
    except StatementError as error:
        _log.warning("%s: %s; the other connections commit its transactions", name, error.text)
        return {}
    return _commit_on(connection, transactions)


def _commit_on(connection: ReconnectingConnection[Server], transactions: Sequence[TransactionId]) -> Answers:
    """Commit these, up to an answer after which the next ones could only wait or fail as well."""
    answers: dict[TransactionId, StatementError | None] = {}
    left = transactions
    while left:
        found = connection.open().commit_prepared(left[:_BATCH])
        answers |= zip(left, found, strict=False)
        if (last := found[-1]) is not None and last.disconnected:
            connection.close()  # the last commit may or may not have landed: a look-up on another connection decides
        if stops(last):
            break
        left = left[len(found) :]
    return answers
