"""Effects of the protocol's actions on head, the sinks and Spark. No decision is made here.

A call to a sink is retried as a whole, on SinkUnavailableError only (R7). Any other error ends the driver's epoch.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from eos.errors import (
    BadRowError,
    ConnectorError,
    FencedError,
    HeadFormatError,
    HeadUnknownError,
    IdentityError,
    LostCommittableError,
    SetBackError,
    SinkUnavailableError,
    SourceError,
    TargetError,
)
from twophase import faults, messages
from twophase.codec import check_writable, decode_record
from twophase.gather import Gather
from twophase.head_value import HeadValue
from twophase.ids import Scope
from twophase.messages import Acknowledged, Action, Failed, Inspected, StateRescaled
from twophase.news import EventHandler, SinkCommitted, ignore_event
from twophase.parted_head import PartedHead
from twophase.participants import Committer, Prepared
from twophase.positions import Positions
from twophase.retry import Patience
from twophase.values import CheckpointRecord, CommitOutcome, Committable, SinkState, SparkState

_log = logging.getLogger("eos.protocol")

_NONCE_BYTES = 4

T = TypeVar("T")

_AWAY_AFTER_S: Final = 10.0
"""The time for which a start retries a sink that may be away, before it continues without the sink."""


class SparkLog(Protocol):
    """A reader of Spark's checkpoint."""

    def state(self, incarnation: str) -> SparkState:
        """Return the newest planned and committed batch, the query id and the newest offsets. Changes nothing."""

    def await_state(self, checkpoint_id: int) -> None:
        """Block until a start can have the state after this checkpoint (R6). Raises HeadError."""


class Batch(Protocol):
    """One batch of Spark. The caller of `Driver.checkpoint` implements it."""

    def run_writers(self, scope: Scope, *, direct: bool) -> Acknowledged | Failed:
        """Run one job that writes, prepares (`direct`: commits) and acknowledges.

        Returns only when the job has ended or was cancelled.
        """

    def discard(self, digest_methods: Sequence[int]) -> Sequence[Mapping[str, tuple[int, int]]] | None:
        """Run the batch for its state only. Return rows and digest by sink, for each digest method.

        None if the pipeline has no state.
        """


RewriteJob = Callable[[Scope, CheckpointRecord, Mapping[str, tuple[Committable, ...]]], Acknowledged | Failed]
"""A job that re-reads the records of a decided checkpoint, prepares the lost rows by sink, and counts the others.

Returns the rows of each task and sink, when the job has ended.
"""


class StateRescaler(Protocol):
    """An operation that repartitions Spark's state. The caller of `Driver.rescale` implements it."""

    def rewrite(self, head: HeadValue, checkpoint_id: int, state_partitions: int) -> StateRescaled | Failed:
        """Let Spark write and commit that batch, unless it has already, and keep its state: no start can repeat it.

        Return Failed only if no part still runs.
        """

    def drop_plan(self, incarnation: str, checkpoint_id: int) -> None:
        """Delete the plan of that batch if it belongs to a rescale and Spark has not committed it."""


@dataclass(frozen=True, slots=True)
class Effects:
    """The external systems of the protocol: head, sinks, sources and Spark."""

    head: PartedHead
    committers: Mapping[str, Committer]
    spark: SparkLog
    patience: Patience
    commit_back: Callable[[Mapping[str, Positions]], None]
    gather: Gather
    turns: Mapping[str, AbstractContextManager[object]]  # by sink: held for each call, since threads share a committer
    gates: Mapping[str, Committer]  # by sink: further committers, for permits alone
    permitted: set[str]  # sinks with a permit of this epoch
    watcher: EventHandler = ignore_event
    rewrite_missing: RewriteJob | None = None  # of a repair
    rewriter: StateRescaler | None = None  # of a rescale
    _commits_began_s: dict[tuple[int, str], float] = field(default_factory=dict)  # by checkpoint and sink

    def perform(self, action: Action[Any], batch: Batch | None) -> object:
        """Perform one action and return its answer (the types are in `messages`)."""
        match action:
            case messages.ReadHead():
                seen = self.head.read()
                if seen is not None:
                    check_writable(seen.head)
                return seen
            case messages.DrawNonce():
                return secrets.token_hex(_NONCE_BYTES)
            case messages.Inspect():
                return self._inspect(action)
            case messages.Swap():
                return self._swap(action)
            case messages.LoadRecord():
                return self._load_record(action)
            case messages.FindMissing():
                return self._find_lost(action)
            case messages.PermitRewrite():
                self._at({n: partial(self.committers[n].permit_rewrite, action.scope) for n in action.sinks}, "permit")
            case messages.RewriteMissing():
                assert self.rewrite_missing is not None
                return self.rewrite_missing(action.scope, action.record, action.lost)
            case messages.RescaleState():
                assert self.rewriter is not None
                return self.rewriter.rewrite(action.head, action.checkpoint_id, action.state_partitions)
            case messages.DropPlan():
                assert self.rewriter is not None
                self.rewriter.drop_plan(action.incarnation, action.checkpoint_id)
            case messages.RunWriters():
                assert batch is not None
                return batch.run_writers(action.scope, direct=action.direct)
            case messages.Discard():
                assert batch is not None
                return batch.discard(action.digest_methods)
            case messages.Commit():
                return self._commit(action)
            case messages.ListPrepared():
                incarnation, number = action.incarnation, action.checkpoint_id
                return self._at_each(
                    "list prepared transactions", lambda sink: sink.prepared(incarnation, number), action.sinks
                )
            case messages.AwaitState():
                self.spark.await_state(action.checkpoint_id)
            case messages.PutRecord():
                self.head.put_record(action.ref.name, action.content)
            case messages.Claim():
                self._at_each("claim", partial(_claim, action), action.sinks)
            case messages.Permit():
                self._permit(action)
            case messages.Revoke():
                self._at_each(
                    "revoke permits", lambda sink: sink.revoke(action.scope, counted=action.counted), action.sinks
                )
            case messages.Count():
                incarnation, number, groups = action.incarnation, action.checkpoint_id, action.committables
                counts = {
                    n: partial(self.committers[n].count, incarnation, number, each, known=action.known.get(n))
                    for n, each in groups.items()
                }
                try:
                    self._at(counts, f"count checkpoint {number}")
                except SetBackError as error:  # or a newer driver's pruning: that is for the protocol to say
                    return error
            case messages.AbortPrepared():
                self._abort(action.prepared)
            case messages.FastForward():
                at, counted = (action.incarnation, action.epoch, action.checkpoint_id), action.counted
                calls = {
                    n: partial(self.committers[n].fast_forward, *at, counted=counted.get(n, -1)) for n in action.sinks
                }
                self._at(calls, "catch up")
            case messages.CommitBack():
                self._commit_back(action.positions)
            case messages.Prune():
                for ref in action.records:
                    self.head.store.delete_record(ref.name)
                if self.head.has_parts:
                    self.head.prune()
                self._at_each("prune", lambda sink: sink.prune(action.incarnation, action.below))
            case messages.Sweep():
                self._sweep(action.head)
            case messages.Abandon():
                for each in action.abandoned:
                    _log.warning("given up: %s", each)
            case messages.Emit():
                self.watcher(action.news)
        return None

    def _at_each(self, what: str, call: Callable[[Committer], T], sinks: tuple[str, ...] | None = None) -> dict[str, T]:
        """At each sink of these; None: at every sink."""
        return self._at(
            {
                name: partial(call, committer)
                for name, committer in self.committers.items()
                if sinks is None or name in sinks
            },
            what,
        )

    def _at(self, calls: Mapping[str, Callable[[], T]], what: str) -> dict[str, T]:
        """Each call at the sink of its name, again where that is away."""
        return self._again(self._in_turn(calls), what)

    def _again(self, calls: Mapping[str, Callable[[], T]], what: str) -> dict[str, T]:
        patient = self.patience.call
        return self.gather(
            {
                name: partial(patient, f"{what} at sink {name}", partial(_guarded, name, call))
                for name, call in calls.items()
            }
        )

    def _in_turn(self, calls: Mapping[str, Callable[[], T]]) -> dict[str, Callable[[], T]]:
        def in_turn(name: str, call: Callable[[], T]) -> T:
            with self.turns[name]:
                return call()

        return {name: partial(in_turn, name, call) for name, call in calls.items()}

    def _permit(self, action: messages.Permit) -> None:
        """Where a sink commits an earlier checkpoint at this moment, over a connection of its own (`gates`)."""
        asked = [name for name, sink in self.committers.items() if not (sink.permits_once and name in self.permitted)]
        for name in action.away & {*asked}:
            self.committers[name].permit_log(action.scope)  # not in turn: the thread that joins may wait for long
            self.permitted.add(name)
        asked = [name for name in asked if name not in action.away]
        calls: dict[str, Callable[[], None]] = {
            name: partial(
                self.gates.get(name, self.committers[name]).permit,
                action.scope,
                counted=action.counted.get(name, -1),
            )
            for name in asked
        }
        gated = {name: call for name, call in calls.items() if name in self.gates}
        others = {name: call for name, call in calls.items() if name not in self.gates}
        self._again({**gated, **self._in_turn(others)}, "permit")
        self.permitted.update(asked)

    def _load_record(self, action: messages.LoadRecord) -> CheckpointRecord | HeadFormatError:
        ref = action.ref
        try:
            return decode_record(self.head.store.get_record(ref.name), ref.sha256)
        except HeadFormatError as error:  # damage, or a newer driver's pruning: that is for the protocol to say
            message = f"the record of checkpoint {ref.checkpoint_id} ({ref.name}) cannot be read: {error.message}"
            return HeadFormatError(message, remedy=error.remedy)

    def _swap(self, action: messages.Swap) -> bool | None:
        before, after = _POINTS.get(action.point, (None, None))
        number = action.value.committed if action.point == "committed" else action.value.completed
        if before is not None:
            faults.point(before, number)
        try:
            landed = self.head.swap(action.expected, action.value)
        except HeadUnknownError:
            return None
        if after is not None:
            faults.point(after, number)
        return landed

    def _inspect(self, action: messages.Inspect) -> Inspected:
        brief = replace(self.patience, deadline_s=min(self.patience.deadline_s, _AWAY_AFTER_S))
        wanted = {n: each for n, each in self.committers.items() if action.sinks is None or n in action.sinks}
        found = self.gather(
            {
                name: partial(self._look_at, name, call, brief if name in action.may_be_away else None)
                for name, call in self._in_turn(
                    {n: partial(c.inspect, action.incarnation, action.expected.get(n, ())) for n, c in wanted.items()}
                ).items()
            }
        )
        sinks = {name: each for name, each in found.items() if not isinstance(each, ConnectorError)}
        away = {name: each for name, each in found.items() if isinstance(each, ConnectorError)}
        return Inspected(self.spark.state(action.incarnation), sinks, away)

    def _look_at(
        self, name: str, call: Callable[[], SinkState], brief: Patience | None
    ) -> SinkState | SinkUnavailableError:
        """`brief`: of a sink that may be away; the error is then the answer. Any other error is raised."""
        try:
            return (brief or self.patience).call(f"inspect at sink {name}", partial(_guarded, name, call))
        except SinkUnavailableError as error:
            if brief is None:
                raise
            return error

    def _commit(self, action: messages.Commit) -> Mapping[str, Sequence[CommitOutcome] | ConnectorError]:
        number, names = action.checkpoint_id, ", ".join(action.committables)
        wait_s = self.patience.wait_s(action.repeated)
        if wait_s is None:
            message = f"checkpoint {number} is completed, but sink {names} cannot commit it yet"
            raise SinkUnavailableError(message, remedy="see what holds its locks; nothing is lost, a restart goes on")
        self.patience.over.wait(wait_s)
        commits = {name: partial(self._commit_at, name, action) for name in action.committables}
        return self._at(commits, f"commit checkpoint {number}")

    def _commit_at(self, name: str, action: messages.Commit) -> Sequence[CommitOutcome] | ConnectorError:
        number = action.checkpoint_id
        began_s = self._commits_began_s.setdefault((number, name), time.monotonic())
        answer = _commit(self.committers[name], name, action)
        if not isinstance(answer, ConnectorError) and _VISIBLE.issuperset(answer):
            self.watcher(SinkCommitted(action.incarnation, number, name, time.monotonic() - began_s))
        return answer

    def _find_lost(self, action: messages.FindMissing) -> Mapping[str, Sequence[Committable]]:
        number, asked = action.checkpoint_id, action.committables
        calls = {
            name: partial(self.committers[name].missing_committables, number, group) for name, group in asked.items()
        }
        return self._at(calls, f"ask what is lost of checkpoint {number}")

    def _abort(self, prepared: Mapping[str, tuple[Prepared, ...]]) -> None:
        found = {name: group for name, group in prepared.items() if group}
        for name, group in found.items():
            _log.info("rolling back at sink %s: %s", name, ", ".join(str(each.transaction) for each in group))
        self._at({name: partial(self.committers[name].abort, group) for name, group in found.items()}, "roll back")

    def _commit_back(self, positions: Mapping[str, Positions]) -> None:
        try:
            self.commit_back(positions)
        except SourceError as error:  # for lag tools only (R9): the pipeline does not depend on it
            _log.warning("offsets were not committed back to the consumer group: %s", error.message)

    def _sweep(self, head: HeadValue) -> None:
        kept = {ref.name for ref in head.records}
        for name in self.head.store.list_records():
            scope = Scope.parse(name.rsplit("-", 1)[0])
            # Of any life: epochs grow over resets, so that nobody can make head point at an older one any more.
            if scope is not None and scope.epoch < head.epoch and name not in kept:
                self.head.store.delete_record(name)
        self.head.prune()


def _guarded(sink: str, call: Callable[[], T]) -> T:
    """Carry out a call of a sink's connector, which must not end a thread of the driver, or the process.

    A KeyboardInterrupt of the main thread is the user's.
    """
    try:
        return call()
    except (SystemExit, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        message = f"the connector of sink {sink} raised {type(error).__name__}: {error}"
        raise TargetError(
            message, remedy="correct the connector: it raises the errors of docs/tutorial/plugins.md"
        ) from error


def _claim(action: messages.Claim, sink: Committer) -> None:
    counted = action.counted.get(sink.name, -1)
    sink.claim(action.incarnation, action.epoch, take_over=action.take_over, begins=action.begins, counted=counted)


def _commit(committer: Committer, sink: str, action: messages.Commit) -> Sequence[CommitOutcome] | ConnectorError:
    """A sink that is away is not among the refusals: it is waited for."""
    group, known = action.committables[sink], action.known.get(sink)
    try:
        return committer.commit(action.checkpoint_id, group, own=action.own, known=known)
    except (LostCommittableError, BadRowError, TargetError, IdentityError, FencedError) as error:
        if not action.tell_refusals:
            raise
        return error


_VISIBLE = frozenset({CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED})

_POINTS: Mapping[str, tuple[str, str | None]] = {
    "claim": ("before-claim", None),
    "decide": ("before-decide", "after-decide"),
    "repair": ("before-repair", "after-repair"),
    "committed": ("after-commits", "closed"),
    "note": ("before-decide", "closed"),
    "restore": ("before-restore", "after-restore"),
}
"""Fault points around the swaps that matter (see `faults`)."""
