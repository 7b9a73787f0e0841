"""Carries out what the protocol asks for, one action at a time: persist, then commit, then notify.

One driver is one epoch. It is used from one thread at a time; every method may block on head and on the sinks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from twophase import faults, messages
from twophase.checkpoint import run_checkpoint
from twophase.codec import decode_head, decode_record, encode_head, encode_record
from twophase.errors import HeadUnknownError, SinkUnavailableError, SourceError
from twophase.head import HeadStore
from twophase.head_value import HeadValue
from twophase.ids import Scope
from twophase.messages import Acknowledged, Action, Begin, Failed, Inspected, Seen, Steps
from twophase.ownership import Ownership
from twophase.participants import Committer, Prepared
from twophase.retry import Patience
from twophase.startup import start
from twophase.transitions import SetPositions, SetQuery
from twophase.values import CheckpointRecord, CommitOutcome, SparkState

_log = logging.getLogger("eos.protocol")

T = TypeVar("T")


class SparkLog(Protocol):
    """Reads what Spark has written to its checkpoint."""

    def state(self, incarnation: str) -> SparkState:
        """Newest planned and committed batch, query id, and the newest offsets; changes nothing."""


class Batch(Protocol):
    """One batch as Spark hands it over, seen from the protocol. The caller of `Driver.checkpoint` implements it."""

    def run_writers(self, scope: Scope) -> Acknowledged | Failed:
        """One job: write, prepare, acknowledge. Returns only when the job has ended or was cancelled."""

    def discard(self) -> Mapping[str, tuple[int, int]] | None:
        """Run the batch for its state only: rows and digest by sink; None where there is no state to bring along."""


@dataclass(slots=True)
class Driver:
    """The effects around the pure protocol."""

    pipeline: str
    head: HeadStore
    committers: Mapping[str, Committer]
    spark: SparkLog
    session: str  # random, unique to this driver
    incarnation: str  # random; becomes the pipeline's if it never ran here
    retained: int = 10
    patience: Patience = Patience()
    commit_back: Callable[[Mapping[str, Mapping[str, int]]], None] = lambda _positions: None
    durations_s: dict[str, float] = field(default_factory=dict)  # of the running checkpoint, by kind of action
    _owned: Ownership | None = None

    @property
    def owned(self) -> HeadValue:
        """Head as this driver holds it. Only after `start`."""
        return self._ownership.head

    @property
    def _ownership(self) -> Ownership:
        if self._owned is None:
            message = "the driver was not started"
            raise RuntimeError(message)
        return self._owned

    def start(self) -> HeadValue:
        """R1-R3. Raises IdentityError, LostCommittableError, FencedError, HeadError, SinkUnavailableError."""
        steps = start(self.pipeline, tuple(self.committers), self.session, self.incarnation, self.retained)
        self._owned = self._carry_out(steps)
        return self.owned

    def store_positions(self, source: str, positions: Mapping[str, int]) -> None:
        """R6, R10: before Spark first hears of these splits. Those already stored stay."""
        self._carry_out(self._ownership.swap(SetPositions(source, positions), "positions"))

    def set_query(self, query_id: str) -> None:
        """R2: once per incarnation; costs nothing when it is already stored."""
        if self.owned.query_id != query_id:
            self._carry_out(self._ownership.swap(SetQuery(query_id), "query"))

    def checkpoint(self, begin: Begin, batch: Batch) -> CheckpointRecord:
        """R4-R9 for one batch. Returning: it is committed everywhere. Raising: Spark must not mark it done."""
        self.durations_s = {}
        steps = run_checkpoint(self._ownership, begin, tuple(self.committers), self.retained)
        return self._carry_out(steps, batch)

    def _carry_out(self, steps: Steps[T], batch: Batch | None = None) -> T:
        answer: object = None
        while True:
            try:
                action = steps.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result
            before = time.monotonic()
            answer = self._perform(action, batch)
            kind = type(action).__name__
            self.durations_s[kind] = self.durations_s.get(kind, 0.0) + time.monotonic() - before

    def _perform(self, action: Action, batch: Batch | None) -> object:
        match action:
            case messages.ReadHead():
                return self._read_head()
            case messages.Inspect():
                return self._inspect(action)
            case messages.Swap():
                return self._swap(action)
            case messages.PutRecord():
                return self.head.put_record(action.ref.name, encode_record(action.record))
            case messages.LoadRecord():
                return decode_record(self.head.get_record(action.ref.name), action.ref.sha256)
            case messages.RunWriters():
                assert batch is not None
                return batch.run_writers(action.scope)
            case messages.Discard():
                assert batch is not None
                return batch.discard()
            case messages.Commit():
                return self._commit(action)
            case messages.CommitBack():
                return self._commit_back(action.positions)
            case messages.Prune():
                for ref in action.records:
                    self.head.delete_record(ref.name)
                return self._each("prune", lambda sink: sink.prune(action.incarnation, action.below))
            case messages.Sweep():
                return self._sweep(action.head)
            case messages.Claim():
                return self._each("claim", lambda sink: sink.claim(action.incarnation, action.epoch))
            case messages.Permit():
                return self._each("permit", lambda sink: sink.permit(action.scope))
            case messages.Revoke():
                return self._each("revoke permits", lambda sink: sink.revoke(action.scope))
            case messages.ListPrepared():
                return self._list_prepared(action.incarnation)
            case messages.AbortPrepared():
                return self._abort(action.prepared)

    def _each(self, what: str, call: Callable[[Committer], None]) -> None:
        for name, committer in self.committers.items():
            self.patience.call(f"{what} at sink {name}", lambda committer=committer: call(committer))  # type: ignore[misc]

    def _read_head(self) -> Seen | None:
        read = self.head.read()
        return Seen(read.version, decode_head(read.value)) if read is not None else None

    def _swap(self, action: messages.Swap) -> bool | None:
        number = action.value.completed
        if action.point == "decide":
            faults.point("before-decide", number)
        elif action.point == "committed":
            faults.point("after-commits", number)
        try:
            landed = self.head.swap(action.version, encode_head(action.value))
        except HeadUnknownError:
            return None
        if action.point == "decide":
            faults.point("after-decide", number)
        elif action.point == "committed":
            faults.point("closed", number)
        return landed

    def _inspect(self, action: messages.Inspect) -> Inspected:
        sinks = {
            name: self.patience.call(
                f"inspect sink {name}",
                lambda name=name, committer=committer: committer.inspect(  # type: ignore[misc]
                    action.incarnation, action.expected.get(name, ())
                ),
            )
            for name, committer in self.committers.items()
        }
        return Inspected(self.spark.state(action.incarnation), sinks)

    def _commit(self, action: messages.Commit) -> Mapping[str, Sequence[CommitOutcome]]:
        wait_s = self.patience.wait_s(action.repeated)
        if wait_s is None:
            message = f"checkpoint {action.checkpoint_id} is completed, but {', '.join(action.committables)} cannot commit it yet"
            raise SinkUnavailableError(message, remedy="look for what holds its locks; nothing is lost, a restart goes on")
        time.sleep(wait_s)
        return {
            name: self.patience.call(
                f"commit checkpoint {action.checkpoint_id} at sink {name}",
                lambda name=name, group=group: self.committers[name].commit(action.checkpoint_id, group),  # type: ignore[misc]
            )
            for name, group in action.committables.items()
        }

    def _list_prepared(self, incarnation: str) -> dict[str, Sequence[Prepared]]:
        listed: dict[str, Sequence[Prepared]] = {}
        for name, committer in self.committers.items():
            found = self.patience.call(
                f"list what sink {name} holds prepared",
                lambda committer=committer: committer.prepared(incarnation),  # type: ignore[misc]
            )
            listed[name] = found
        return listed

    def _abort(self, prepared: Mapping[str, tuple[Prepared, ...]]) -> None:
        for name, group in prepared.items():
            if group:
                _log.info("rolling back at sink %s: %s", name, ", ".join(str(each.transaction) for each in group))
                self.patience.call(
                    f"roll back at sink {name}",
                    lambda name=name, group=group: self.committers[name].abort(group),  # type: ignore[misc]
                )

    def _commit_back(self, positions: Mapping[str, Mapping[str, int]]) -> None:
        try:
            self.commit_back(positions)
        except SourceError as error:  # for lag tools only (R9): the pipeline does not depend on it
            _log.warning("offsets were not committed back to the consumer group: %s", error.message)

    def _sweep(self, head: HeadValue) -> None:
        kept = {ref.name for ref in head.records}
        for name in self.head.list_records():
            scope = Scope.parse(name.rsplit("-", 1)[0])
            if name not in kept and scope is not None and scope.incarnation == head.incarnation and scope.epoch < head.epoch:
                self.head.delete_record(name)
