"""R2: ends the incarnation in head and begins another. One path for a reset and for a start from a savepoint. Pure.

The two differ in what the new incarnation knows at birth, and in what the user agreed to (`ClaimExpected`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

from eos.errors import FencedError, IdentityError
from twophase import messages
from twophase.abandoned import Abandoned
from twophase.ending import end_incarnation
from twophase.head_value import HeadValue
from twophase.messages import HeadSnapshot, Steps
from twophase.ownership import Ownership
from twophase.transitions import Claim, SetPositions, Transition
from twophase.values import StartingPoint


class Birth(Transition, Protocol):
    """The transition that puts a new incarnation into head."""

    point: ClassVar[str]  # name of its swap, see messages.Swap

    @property
    def incarnation(self) -> str:
        """Random id of the new incarnation."""

    @property
    def sinks(self) -> tuple[str, ...]:
        """Names of the sinks in the spec."""


@dataclass(frozen=True, slots=True)
class Reset:
    """A new incarnation under the same name: no checkpoints, a later epoch, and only the positions in `begins`.

    Nothing of the old incarnation can match. The positions are stored in the same swap (R6), so the next start
    begins there.
    """

    point: ClassVar[str] = "reset"
    incarnation: str
    sinks: tuple[str, ...]
    begins: Mapping[str, StartingPoint] = field(default_factory=dict)  # by source; empty: by `starting_offsets`

    def apply(self, head: HeadValue) -> HeadValue:
        born = HeadValue(head.pipeline, self.incarnation, head.epoch, head.nonces, sinks=self.sinks)
        for source, starting_point in self.begins.items():
            born = SetPositions(source, starting_point).apply(born)
        return born


@dataclass(frozen=True, slots=True)
class ClaimExpected:
    """R1: claims head, but only the head that the user was shown (H30).

    The register compares the version, and `apply` compares the content. So the claim lands on an expected head or not
    at all, and a refusal changes nothing. Without this comparison a driver that still runs completes checkpoints after
    the user was shown head, and a new incarnation that begins at older positions writes their records again.
    """

    pipeline: str
    expected: HeadValue | None  # None: the pipeline never ran here
    with_positions: bool  # the user agreed to positions: no checkpoint may have completed since

    def apply(self, head: HeadValue) -> HeadValue:
        """See transitions.Transition. Raises IdentityError where head is not as expected."""
        self.check(head)
        return Claim().apply(head)

    def check(self, head: HeadValue | None) -> None:
        """Raise IdentityError where head is not as expected."""
        then, now = self._identity(self.expected), self._identity(head)
        if now == then:
            return
        message = (
            f"pipeline {self.pipeline} has changed since this command read its head: "
            f"then {_describe(self.expected)}, now {_describe(head)}"
        )
        raise IdentityError(
            message,
            remedy="nothing was changed; stop the driver that runs the pipeline (`eos stop`), then give the command "
            "again",
        )

    def _identity(self, head: HeadValue | None) -> tuple[object, ...]:
        if head is None:
            return ()
        return (head.incarnation, head.completed) if self.with_positions else (head.incarnation,)


@dataclass(frozen=True, slots=True)
class Begun:
    """The result of a reset, or of a start from a savepoint."""

    head: HeadValue  # of the new incarnation
    ended: str | None  # the incarnation before it; None if the pipeline never ran here
    abandoned: tuple[Abandoned, ...]
    before: HeadValue | None = None  # the last head of `ended`, after its claim


def reset(
    pipeline: str,
    sinks: Sequence[str],
    session: str,
    incarnation: str,
    *,
    expected: HeadValue | None,
    abandon_lost: bool = False,
    begins: Mapping[str, StartingPoint] | None = None,
) -> Steps[Begun]:
    """Commit what the old incarnation had decided, abort what it had prepared, then begin `incarnation`.

    The three stores are not compared: a reset is the way on when they do not fit. If the process dies half way, the
    reset is run again. Sinks of another incarnation are claimed on purpose. What that incarnation has prepared stays,
    because only its own head knows the decisions.

    Args:
        pipeline: name in the spec.
        sinks: names of the sinks of the spec.
        session: see startup.start.
        incarnation: random, of the new incarnation.
        expected: head when the user agreed to this reset; None: there was none.
        abandon_lost: give up decided rows that cannot become visible; each is reported first.
        begins: by source, where the new incarnation begins; None: by `starting_offsets`, at its first start.

    Raises IdentityError, with nothing changed, where head is not as expected: another incarnation, or, with `begins`,
    another completed checkpoint. Without `begins` further checkpoints are accepted: the user agreed to leave all
    positions behind, and none of the old ones are used.

    Raises LostCommittableError, before anything is rolled back, when decided rows cannot become visible: a sink has
    lost them, their record cannot be read, or the spec no longer names their sink; also for a sink that it no longer
    names and that may hold something prepared.
    """
    claim = ClaimExpected(pipeline, expected, with_positions=begins is not None)
    seen = yield from read_expected(claim)
    return (
        yield from begin(
            seen, claim, Reset(incarnation, tuple(sinks), begins or {}), session, abandon_lost=abandon_lost
        )
    )


def read_expected(claim: ClaimExpected) -> Steps[HeadSnapshot | None]:
    """Read head. Raises IdentityError where it is not as expected: before anything is changed."""
    seen = yield from messages.ReadHead()
    claim.check(seen.head if seen is not None else None)
    return seen


def begin(
    seen: HeadSnapshot | None, claim: ClaimExpected, birth: Birth, session: str, *, abandon_lost: bool
) -> Steps[Begun]:
    """End the incarnation in head, put another one in its place, and claim the sinks for it.

    `seen`: head as `read_expected` returned it. Raises what `reset` raises.
    """
    if seen is None:
        unborn = HeadValue(claim.pipeline, birth.incarnation, epoch=0, nonces=())
        owned = Ownership(session, 0, birth.apply(unborn))
        yield from _create_head(owned, birth.point)
        yield from messages.Inspect(birth.incarnation, {})  # creates the sinks' own tables, too
        yield from messages.Claim(birth.incarnation, owned.head.epoch, take_over=True, begins=owned.head.completed)
        return Begun(owned.head, None, ())
    owned = Ownership(session, seen.version, seen.head, content=seen.content)
    yield from owned.swap(claim, "claim")
    old = owned.head
    inspected = yield from messages.Inspect(old.incarnation, {})  # creates the sinks' own tables, too
    abandoned = yield from end_incarnation(owned, birth.sinks, inspected, abandon_lost=abandon_lost)
    yield from owned.swap(birth, birth.point)
    yield from _claim_sinks(owned, old)
    return Begun(owned.head, old.incarnation, abandoned, old)


def _claim_sinks(owned: Ownership, old: HeadValue) -> Steps[None]:
    """Claim the sinks for the new incarnation, then delete the witnesses and records of the old one."""
    yield from messages.Claim(owned.head.incarnation, owned.head.epoch, take_over=True, begins=owned.head.completed)
    # No process needs a record or a witness of the old incarnation now: its drivers are fenced, its head is gone.
    yield from messages.Prune(old.incarnation, old.records, below=old.completed + 1)
    yield from messages.Sweep(owned.head)


def _create_head(owned: Ownership, point: str) -> Steps[None]:
    """Write the first head of this location. Raises FencedError if another driver has written one."""
    value = yield from owned.stamp(replace(owned.head, epoch=1))
    landed = yield from messages.Swap(owned.expected(), value, point)
    if not landed:
        seen = yield from messages.ReadHead()
        if seen is None or value.nonces[-1] not in seen.head.nonces:
            message = "another driver of this pipeline has started at the same moment"
            raise FencedError(message, remedy="stop it, and give the command again")
    owned.take(HeadSnapshot(owned.version + 1, value))


def _describe(head: HeadValue | None) -> str:
    if head is None:
        return "it had never run here"
    return f"checkpoint {head.completed} of incarnation {head.incarnation}"
