"""A sink that takes no time: it answers what the protocol asks of it, in memory, and counts the calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from twophase.ids import Scope
from twophase.participants import Prepared
from twophase.values import CommitOutcome, Committable, SinkState


class FreeSink:
    """A twophase.participants.Committer."""

    permits_once = False
    slots: frozenset[int] = frozenset()

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: Counter[str] = Counter()
        self.rows = 0  # visible

    def inspect(self, incarnation: str, expected: Sequence[Committable]) -> SinkState:
        self.calls["inspect"] += 1
        return SinkState()

    def claim(
        self, incarnation: str, epoch: int, *, take_over: bool = False, begins: int = -1, counted: int = -1
    ) -> None:
        self.calls["claim"] += 1

    def permit(self, scope: Scope, *, counted: int = -1) -> None:
        self.calls["permit"] += 1

    def permit_log(self, scope: Scope) -> None:
        raise NotImplementedError

    def commit(
        self, checkpoint_id: int, committables: Sequence[Committable], *, own: bool = False, known: int | None = None
    ) -> Sequence[CommitOutcome]:
        self.calls["commit"] += 1
        self.rows += sum(each.rows for each in committables)
        return [CommitOutcome.COMMITTED] * len(committables)

    def count(
        self, incarnation: str, checkpoint_id: int, committables: Sequence[Committable], *, known: int | None = None
    ) -> None:
        self.calls["count"] += 1

    def missing_committables(self, checkpoint_id: int, committables: Sequence[Committable]) -> Sequence[Committable]:
        raise NotImplementedError

    def permit_rewrite(self, scope: Scope) -> None:
        raise NotImplementedError

    def prepared(self, incarnation: str, checkpoint_id: int | None = None) -> Sequence[Prepared]:
        self.calls["prepared"] += 1
        return ()

    def abort(self, prepared: Iterable[Prepared]) -> None:
        self.calls["abort"] += 1

    def revoke(self, scope: Scope, *, counted: bool = False) -> None:
        self.calls["revoke"] += 1

    def fast_forward(self, incarnation: str, epoch: int, checkpoint_id: int, *, counted: int = -1) -> None:
        raise NotImplementedError

    def prune(self, incarnation: str, below: int) -> None:
        self.calls["prune"] += 1

    def close(self) -> None: ...
