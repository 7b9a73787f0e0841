"""Runs the protocol of one epoch: takes each action from the pure steps, has it carried out, and sends the answer back.

One driver is one epoch. It is used from one thread at a time; every method may block on head and on the sinks. Where
sinks may be behind, threads of its own commit in them (`backlog`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from twophase.backlog import Backlog, Limit
from twophase.checkpoint import decide, permit, run_checkpoint
from twophase.doing import ADMIT, Doing
from twophase.effects import Batch, Effects, RewriteJob, SparkLog, StateRescaler
from twophase.gather import Gather, one_by_one
from twophase.head import HeadStore
from twophase.head_value import HeadValue
from twophase.ids import Scope
from twophase.messages import Action, BatchStart, HeadSnapshot, Steps, Swap
from twophase.news import EventHandler, ignore_event
from twophase.ownership import Held, Ownership, check_owned, take_up
from twophase.parted_head import PartedHead
from twophase.participants import Committer
from twophase.positions import Positions
from twophase.repair import Repaired, repair
from twophase.rescale import Rescaled, rescale
from twophase.reset import Begun, reset
from twophase.restore import Seed, look, restore
from twophase.retry import Patience
from twophase.startup import start
from twophase.transitions import SetPositions, SetQuery
from twophase.values import CheckpointRecord, SinkState, StartingPoint

T = TypeVar("T")

_STOP_S: Final = 10.0
"""How long a pipeline that stops waits for sinks that are behind; the next start commits there."""


@dataclass(slots=True)
class Driver:
    """One epoch of one pipeline."""

    pipeline: str
    head: HeadStore
    committers: Mapping[str, Committer]
    spark: SparkLog
    session: str  # random, unique to this driver; `<run>.<number>` where a run starts one after another
    incarnation: str  # random; becomes the pipeline's if it never ran here
    retained: int = 10
    direct: bool = False  # at-least-once: tasks commit their rows themselves
    patience: Patience = field(default_factory=Patience)
    commit_back: Callable[[Mapping[str, Positions]], None] = lambda _positions: None
    gather: Gather = one_by_one  # over the sinks
    follows: HeadSnapshot | None = None  # head as this run's driver before this one held it: see startup.start
    limits: Mapping[str, Limit] = field(default_factory=dict)  # by sink; none: none may be behind
    gates: Mapping[str, Committer] = field(default_factory=dict)  # for permits, of sinks that may be committing
    is_stopping: Callable[[], bool] = lambda: False  # nobody waits then for a sink that is behind
    watcher: EventHandler = ignore_event
    late: Collection[str] = ()  # sinks that may join a pipeline that has run: see verify
    known: Mapping[str, Collection[str]] = field(
        default_factory=dict
    )  # sinks that may be away at a start: see startup.start
    durations_s: dict[str, float] = field(default_factory=dict)  # of the newest checkpoint, by action: see _name
    doing: Doing | None = None  # the newest action; read by any thread, so it is replaced as a whole
    _owned: Ownership | None = None
    _backlog: Backlog | None = None
    _turns: dict[str, threading.Lock] = field(init=False)
    _parted: PartedHead = field(init=False)
    _over: threading.Event = field(default_factory=threading.Event)  # threads that commit wait for no sink any more
    _permitted: set[str] = field(default_factory=set)
    _rewrite_missing: RewriteJob | None = None  # of `repair`
    _rewriter: StateRescaler | None = None  # of `rescale`

    def __post_init__(self) -> None:
        """A committer serves one thread at a time; head, with its parts, all of them."""
        self._parted = PartedHead(self.head)
        self._turns = {sink: threading.Lock() for sink in self.committers}

    @property
    def owned(self) -> HeadValue:
        """Head as this driver holds it. Only after `start` or `take_up`."""
        return self._ownership.head

    @property
    def seen(self) -> HeadSnapshot:
        """The same with its version, for a driver that follows this one: see `follows`."""
        return self._ownership.held()

    @property
    def held(self) -> Held:
        """The name of `owned`, by which another process takes it up."""
        return Held.of(self.seen)

    def start(self) -> HeadValue:
        """R1-R3. A sink of `known` that does not answer is `away` then: it joins while the driver runs (H32).

        Raises IdentityError, LostCommittableError, FencedError, HeadError, SinkUnavailableError."""
        sinks = tuple(self.committers)
        names = self.pipeline, sinks, self.session, self.incarnation
        known = {name: incarnations for name, incarnations in self.known.items() if self._may_be_away(name)}
        self._owned = self._carry_out(start(*names, self.retained, self.follows, self.late, known))
        if any(limit.checkpoints for limit in self.limits.values()) and not self.direct:
            self._backlog = Backlog(self._owned, self.limits, self._carry_out_behind, self.retained, self._over)
        return self.owned

    @property
    def away(self) -> frozenset[str]:
        """The sinks that were away at the start, and have not joined yet."""
        return frozenset(self._ownership.away)

    @property
    def absent(self) -> frozenset[str]:
        """The sinks that were away at the start, also those that have joined since."""
        return self._ownership.absent

    def _may_be_away(self, sink: str) -> bool:
        limit = self.limits.get(sink)
        return limit is not None and limit.outlasts_outages and bool(self.committers[sink].slots) and not self.direct

    def take_up(self, held: Held) -> HeadValue:
        """Go on where another process has started this epoch, and left this head; instead of `start`.

        Raises FencedError if anybody has changed head since, HeadError.
        """
        self._owned = self._carry_out(take_up(self.session, held))
        return self.owned

    def check_owned(self) -> None:
        """Raises FencedError if another driver has started since; IdentityError if head was set back; HeadError."""
        self._carry_out(check_owned(self._ownership))

    def reset(
        self,
        *,
        expected: HeadValue | None,
        abandon_lost: bool = False,
        begins: Mapping[str, StartingPoint] | None = None,
    ) -> Begun:
        """R2: end the incarnation in head and begin `incarnation`. For the arguments see reset.reset.

        Raises IdentityError, with nothing changed, where head is not as expected; LostCommittableError for decided
        rows that cannot become visible, unless `abandon_lost`; FencedError, HeadError, SinkUnavailableError.
        """
        names = self.pipeline, tuple(self.committers), self.session, self.incarnation
        return self._carry_out(reset(*names, expected=expected, abandon_lost=abandon_lost, begins=begins))

    def inspect(self, incarnation: str) -> Mapping[str, SinkState]:
        """How the sinks stand to this life, before anything is decided. Raises what a sink raises."""
        return self._carry_out(look(incarnation))

    def restore(self, seed: Seed, *, expected: HeadValue | None, take_over: bool) -> Begun:
        """R2: begin `incarnation` from a savepoint, and end the life in head. For the arguments see restore.restore.

        Raises IdentityError where another life has the sinks or head is not as expected; LostCommittableError,
        FencedError, HeadError, SinkUnavailableError.
        """
        sinks = tuple(self.committers)
        steps = restore(
            self.pipeline, sinks, self.session, self.incarnation, seed, expected=expected, take_over=take_over
        )
        return self._carry_out(steps)

    def repair(self, rewrite_missing: RewriteJob) -> Repaired:
        """R7: write again what is lost, and commit it, instead of `start`. Called by `eos repair`; no driver runs.

        Raises what `start` raises, ReplayMismatchError, and what `rewrite_missing` answers.
        """
        self._rewrite_missing = rewrite_missing
        preparing = [name for name, sink in self.committers.items() if not sink.permits_once]
        sinks = tuple(self.committers)
        return self._carry_out(repair(self.pipeline, sinks, preparing, self.session, self.incarnation, self.retained))

    def rescale(self, state_partitions: int, rewriter: StateRescaler) -> Rescaled:
        """R2: divide Spark's state anew, instead of `start`. Called by `eos rescale`; no driver runs.

        Raises what `start` raises, SpecError for a pipeline without state, and what `rewriter` answers.
        """
        self._rewriter = rewriter
        names = self.pipeline, tuple(self.committers), self.session, self.incarnation
        steps = rescale(*names, self.retained, state_partitions, self.late, direct=self.direct)
        return self._carry_out(steps)

    def store_positions(self, source: str, starting_point: StartingPoint) -> None:
        """R6, R10: before Spark first hears of these splits. Those already stored stay."""
        self._carry_out(self._ownership.swap(SetPositions(source, starting_point), "positions"))

    def set_query(self, query_id: str) -> None:
        """R2: once per incarnation; costs nothing when it is already stored."""
        if self.owned.query_id != query_id:
            self._carry_out(self._ownership.swap(SetQuery(query_id), "query"))

    def permit(self, checkpoint_id: int) -> Scope | None:
        """What tasks of this checkpoint may prepare in, for a decision by `checkpoint` in another process.

        None: it is decided already. Raises IdentityError, SinkUnavailableError.
        """
        return self._carry_out(permit(self._ownership, checkpoint_id))

    def checkpoint(self, begin: BatchStart, batch: Batch) -> CheckpointRecord:
        """R4-R9 for one batch. Returning: it is committed everywhere, or where a sink may be behind, by and by.

        Raising: Spark must not mark it done; what tasks have committed at-least-once is there, and is written again.
        """
        self.durations_s = {}
        owned, sinks = self._ownership, tuple(self.committers)
        if self._backlog is None:
            return self._carry_out(run_checkpoint(owned, begin, sinks, self.retained, direct=self.direct), batch)
        self.check()
        known = owned.head.completed
        if begin.checkpoint_id > known:
            self.doing = Doing(ADMIT)
            self._backlog.admit(self.is_stopping)
        record = self._carry_out(decide(owned, begin, sinks), batch)
        if record.checkpoint_id > known:
            self.doing = Doing(ADMIT)
            self._backlog.add(record, self.is_stopping)
        return record

    def check(self) -> None:
        """Raise what has ended a thread that commits. Never blocks; may be called from any thread."""
        if self._backlog is not None and self._backlog.error is not None:
            raise self._backlog.error

    def drain(self) -> None:
        """Block until every sink has committed everything; for some seconds only while the pipeline stops."""
        if self._backlog is not None:
            self._backlog.drain(self.is_stopping, _STOP_S)

    def close(self) -> None:
        """End the threads that commit, each after the call that it is in; committers and head are the caller's."""
        if self._backlog is not None:
            self._backlog.close()

    @property
    def _ownership(self) -> Ownership:
        if self._owned is None:
            message = "the driver was not started"
            raise RuntimeError(message)
        return self._owned

    def _carry_out(self, steps: Steps[T], batch: Batch | None = None) -> T:
        return self._run(steps, self.committers, self.patience, self.durations_s, batch)

    def _carry_out_behind(self, steps: Steps[None], sink: str) -> None:
        committers = {sink: self.committers[sink]} if sink else {}
        self._run(steps, committers, replace(self.patience, over=self._over), {}, None)

    def _run(
        self,
        steps: Steps[T],
        committers: Mapping[str, Committer],
        patience: Patience,
        durations_s: dict[str, float],
        batch: Batch | None,
    ) -> T:
        effects = Effects(
            head=self._parted,
            committers=committers,
            spark=self.spark,
            patience=patience,
            commit_back=self.commit_back,
            gather=self.gather,
            turns=self._turns,
            gates=self.gates,
            permitted=self._permitted,
            watcher=self.watcher,
            rewrite_missing=self._rewrite_missing,
            rewriter=self._rewriter,
        )
        answer: object = None
        while True:
            try:
                action = steps.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result
            name = _name(action)
            if durations_s is self.durations_s:  # and not of a thread that commits behind
                self.doing = Doing.of(name, action)
            before = time.monotonic()
            answer = effects.perform(action, batch)
            durations_s[name] = durations_s.get(name, 0.0) + time.monotonic() - before


def _name(action: Action[Any]) -> str:
    """Of a swap, which one: a checkpoint has several."""
    return f"Swap {action.point}" if isinstance(action, Swap) else type(action).__name__
