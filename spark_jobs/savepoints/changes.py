"""What a spec has changed since a savepoint was taken, and what of the savepoint it can still use. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from eos.errors import IdentityError
from spark_jobs.savepoints.plan import Operator, Plan, names


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between the spec of the savepoint and the one that is started."""

    kind: str  # sources, transforms, sinks or state
    name: str
    what: str  # added, dropped or changed
    detail: str = ""

    def __str__(self) -> str:
        """One line for people."""
        return f"{_SINGULAR[self.kind]} {self.name}: {self.what}{f' ({self.detail})' if self.detail else ''}"


_SINGULAR = {"sources": "source", "transforms": "step", "sinks": "sink", "state": "state of"}


@dataclass(frozen=True, slots=True)
class Changes:
    """All of them, and what becomes of positions and state."""

    changes: tuple[Change, ...]
    not_restored: tuple[str, ...]  # needs --allow-non-restored-state
    operators: Mapping[int, int] | None = field(default_factory=dict)  # Spark's number now -> in the savepoint
    # None: no state at all is restored, and Spark begins with batch 0

    @property
    def keeps_numbers(self) -> bool:
        """Every operator is there under the number that it had."""
        return self.operators is not None and all(now == then for now, then in self.operators.items())


def compare(then: Plan | None, now: Plan, kept: int) -> Changes:
    """What has changed.

    Args:
        then: of the savepoint; None: not known.
        now: of the query that is to start.
        kept: how many operators have state in the savepoint.
    """
    if then is None:
        return _unnamed(now, kept)
    changes = [change for kind in ("sources", "transforms", "sinks") for change in _described(then, now, kind)]
    dropped = [f"positions of source {name}" for name in then.sources if name not in now.sources]
    before = then.operators
    if len(before) != kept:
        unnamed = _unnamed(now, kept)
        return Changes((*changes, *unnamed.changes), (*dropped, *unnamed.not_restored), unnamed.operators)
    operators, lost, added = _matched(before, now.operators)
    changes += [Change("state", each.named, "added", each.state) for each in added]
    if added and before:
        detail = f"Spark cannot add the state of {names(added)} beside it"
        changes += [
            Change("state", each.named, "dropped", detail if each not in lost else each.state) for each in before
        ]
        return Changes(tuple(changes), (*dropped, *(f"state of {each.named}" for each in before)), None)
    changes += [Change("state", each.named, "dropped", each.state) for each in lost]
    restored = None if added else operators
    return Changes(tuple(changes), (*dropped, *(f"state of {each.named}" for each in lost)), restored)


def check_in_place(then: Plan | None, now: Plan) -> None:
    """Raise IdentityError where Spark cannot continue with its checkpoint: it knows sources and state by their places.

    It refuses another number of sources. If steps that keep state have changed places, each would get the other's.

    Args:
        then: of the query that made the state; None: not known.
        now: of the query that is to go on with it.
    """
    if then is not None and then.sources and len(then.sources) != len(now.sources):
        added = [f"{name} is added" for name in now.sources if name not in then.sources]
        dropped = [f"{name} is missing" for name in then.sources if name not in set(now.sources)]
        message = f"the query reads other sources than before: source {', source '.join([*added, *dropped])}"
        remedy = (
            "change the sources back; or take a savepoint (`eos savepoint`) and start from it, which gives each source "
            "its positions by its name"
        )
        raise IdentityError(message, remedy=remedy)
    operators, _, _ = _matched(then.operators if then is not None else (), now.operators)
    moved = [now.operators[number] for number, before in operators.items() if number != before]
    if moved:
        message = f"steps that keep state stand in another order than before: {names(moved)}"
        remedy = (
            "change the order back; or take a savepoint (`eos savepoint`) and start from it, which finds each by its "
            "name"
        )
        raise IdentityError(message, remedy=remedy)


def _unnamed(now: Plan, kept: int) -> Changes:
    """Of a savepoint without a plan: what it has is known by numbers alone."""
    if kept == len(now.operators):
        return Changes((), (), {number: number for number in range(kept)})
    count = f"{kept} operators, of which no names are known"
    change = Change("state", count, "dropped", f"there are {len(now.operators)} now")
    return Changes((change,), (f"state of {count}",) if kept else (), None)


def _matched(
    then: Sequence[Operator], now: Sequence[Operator]
) -> tuple[dict[int, int], list[Operator], list[Operator]]:
    """By step, kind and what is kept; where a step has several alike, in their order."""
    old = dict(_keyed(then))
    new = dict(_keyed(now))
    operators = {number: old[key] for key, number in new.items() if key in old}
    lost = [then[number] for key, number in old.items() if key not in new]
    added = [now[number] for key, number in new.items() if key not in old]
    return operators, lost, added


def _keyed(operators: Sequence[Operator]) -> Iterator[tuple[tuple[Operator, int], int]]:
    seen: Counter[Operator] = Counter()
    for number, each in enumerate(operators):
        yield (each, seen[each]), number
        seen[each] += 1


def _described(then: Plan, now: Plan, kind: str) -> Iterator[Change]:
    old, new = then.described.get(kind, {}), now.described.get(kind, {})
    yield from (Change(kind, name, "dropped") for name in old if name not in new)
    yield from (Change(kind, name, "added") for name in new if name not in old)
    for name in (name for name in new if name in old):
        differing = [key for key in {**old[name], **new[name]} if old[name].get(key) != new[name].get(key)]
        if differing:
            told = "; ".join(f"{key}: {old[name].get(key, '')} -> {new[name].get(key, '')}" for key in differing)
            yield Change(kind, name, "changed", told)
