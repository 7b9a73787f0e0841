"""A driver and its tasks for the compliance suites: the calls to a sink, without head and without Spark."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, TypeVar

from connectors.api.contracts import DirectWriter, Sink, Writer
from connectors.testing.rows import Change, Row, batch
from connectors.testing.target import Target, schema_for
from eos.errors import SinkUnavailableError
from twophase.ids import Scope, TransactionId, sink_key
from twophase.participants import Committer, Prepared
from twophase.values import CommitOutcome, Committable

COMMITTED: Final = CommitOutcome.COMMITTED
ALREADY: Final = CommitOutcome.ALREADY_COMMITTED

_PATIENCE_S: Final = 20.0


_Aborts = TypeVar("_Aborts", Writer, DirectWriter)


@contextmanager
def _aborted_on_failure(writer: _Aborts) -> Iterator[_Aborts]:
    """Abort the writer if the block raises, as a task does."""
    try:
        yield writer
    except BaseException:
        writer.abort()
        raise


def new_incarnation() -> str:
    """Return a random name of an incarnation."""
    return secrets.token_hex(10)


@dataclass
class SinkDriver:
    """The driver of one incarnation of a pipeline with one sink. `start` begins each of its epochs."""

    target: Target
    pipeline: str = field(
        default_factory=lambda: f"compliance-{secrets.token_hex(4)}"
    )  # one server may serve many runs
    name: str = "target"
    incarnation: str = field(default_factory=new_incarnation)
    epoch: int = 0
    decided: dict[int, list[Committable]] = field(default_factory=dict)  # by checkpoint, as head would hold them
    attempts: count[int] = field(default_factory=lambda: count(1))
    sink: Sink = field(init=False)
    committer: Committer = field(init=False)

    def __post_init__(self) -> None:
        self.sink = self.target.sink(self.name).open(schema_for(self.target))

    def start(self, *, take_over: bool = False) -> None:
        """Begin the next epoch: commit decided checkpoints, claim, abort other transactions (R3)."""
        self.committer = self.sink.committer(self.pipeline)
        self.epoch += 1
        self.committer.inspect(self.incarnation, ())
        for checkpoint_id in sorted(self.decided):
            self.commit(checkpoint_id)
            self.committer.count(self.incarnation, checkpoint_id, self.decided[checkpoint_id])
        self.committer.claim(self.incarnation, self.epoch, take_over=take_over, begins=max(self.decided, default=-1))
        older = [each for each in self.prepared() if each.transaction and each.transaction.scope.epoch < self.epoch]
        self.committer.abort(older)

    def permit(self, checkpoint_id: int, attempt: int = 1) -> Scope:
        """Permit an attempt of a checkpoint, and return its scope."""
        scope = Scope(self.incarnation, self.epoch, checkpoint_id, attempt)
        self.committer.permit(scope)
        return scope

    def writer(self, scope: Scope, task: int = 0) -> Writer:
        """Return the writer of the next attempt of a task."""
        return self.sink.writer(TransactionId(scope, sink_key(self.name), task, next(self.attempts)))

    def write(self, writer: Writer, *rows: Row | Change) -> None:
        """Write rows, with the columns that the sink declares."""
        writer.write(batch(*rows).select(list(self.sink.columns)))

    def prepare(self, scope: Scope, *rows: Row | Change, task: int = 0) -> Committable:
        """Run one task attempt that writes and prepares these rows."""
        with _aborted_on_failure(self.writer(scope, task)) as writer:
            if rows:
                self.write(writer, *rows)
            return writer.prepare()

    def write_directly(self, scope: Scope, *rows: Row | Change, task: int = 0) -> Committable:
        """Run one task attempt that writes and commits these rows (at-least-once)."""
        transaction = TransactionId(scope, sink_key(self.name), task, next(self.attempts))
        with _aborted_on_failure(self.sink.direct_writer(transaction)) as writer:
            if rows:
                writer.write(batch(*rows).select(list(self.sink.columns)))
            return writer.commit()

    def lose(self, committable: Committable) -> None:
        """Roll back a prepared transaction, as an administrator could."""
        mine = committable.transaction
        self.committer.abort([each for each in self.prepared() if each.transaction == mine])

    def rewrite_missing(self, checkpoint_id: int, lost: Committable, *rows: Row | Change) -> Committable:
        """Begin the next epoch and rewrite the rows of a lost committable in a task (R7)."""
        self.epoch += 1
        self.committer.claim(self.incarnation, self.epoch)
        scope = Scope(self.incarnation, self.epoch, checkpoint_id)
        self.committer.permit_rewrite(scope)
        transaction = replace(lost.transaction, scope=scope, task_attempt=next(self.attempts))
        with _aborted_on_failure(self.sink.writer(transaction, lost)) as writer:
            self.write(writer, *rows)
            return writer.prepare()

    def checkpoint(self, checkpoint_id: int, *shares: Sequence[Row | Change]) -> None:
        """Run a whole checkpoint: one task for each share; then decide, commit, count and revoke."""
        scope = self.permit(checkpoint_id)
        self.decided[checkpoint_id] = [self.prepare(scope, *rows, task=task) for task, rows in enumerate(shares)]
        self.commit(checkpoint_id)
        self.committer.count(self.incarnation, checkpoint_id, self.decided[checkpoint_id])
        self.committer.revoke(scope, counted=True)

    def commit(self, checkpoint_id: int, committer: Committer | None = None) -> list[CommitOutcome]:
        """Commit a decided checkpoint. Retry while the outcome is RETRY_LATER."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            outcomes = self._try_to_commit(checkpoint_id, committer or self.committer)
            if CommitOutcome.RETRY_LATER not in outcomes or time.monotonic() > until:
                return outcomes
            time.sleep(0.05)

    def another_committer(self) -> Committer:
        """Return a new committer, as another process has: it knows nothing of this driver's calls."""
        made = self.sink.committer(self.pipeline)
        made.inspect(self.incarnation, ())
        return made

    def prepared(self) -> list[Prepared]:
        """Return the prepared transactions of this incarnation, as the sink lists them."""
        return [each for each in self.committer.prepared(self.incarnation) if each.transaction is not None]

    def close(self) -> None:
        """Roll back all prepared transactions, and close the committer."""
        self.committer.abort(self.prepared())
        self.committer.close()

    def _try_to_commit(self, checkpoint_id: int, committer: Committer) -> list[CommitOutcome]:
        try:
            return list(committer.commit(checkpoint_id, self.decided[checkpoint_id]))
        except SinkUnavailableError:  # the protocol's driver calls again, too
            return [CommitOutcome.RETRY_LATER]
