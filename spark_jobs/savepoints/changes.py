"""What a spec has changed since a savepoint was taken, and what of the savepoint it can still use. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from eos.errors import IdentityError
from spark_jobs.savepoints.plan import Operator, Plan, names


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between the spec of the savepoint and the one that is started."""

    kind: str  # sources, transforms, sinks or state
    name: str
    what: str  # added, dropped or changed; of state: kept, widened, begins empty or dropped
    detail: str = ""

    def __str__(self) -> str:
        """One line for people."""
        return f"{_SINGULAR[self.kind]} {self.name}: {self.what}{f' ({self.detail})' if self.detail else ''}"


_SINGULAR = {"sources": "source", "transforms": "step", "sinks": "sink", "state": "state of"}

_WIDTHS: Final = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
_INTEGER: Final = re.compile(rf"\b(?:{'|'.join(_WIDTHS)})\b")
_REWRITTEN: Final = frozenset({"Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct"})
"""Kinds that keep one row for each key, whose columns the types name."""
_FUNCTION: Final = re.compile(r"(?P<name>\w+)\((?P<inputs>(?:[^()]|\([^()]*\))*)\)")
_BY_COLUMNS: Final = frozenset(
    {"any_value", "avg", "bit_and", "bit_or", "bit_xor", "count", "first", "first_value", "last", "last_value", "max"}
    | {"max_by", "mean", "min", "min_by", "sum", "try_avg", "try_sum"}
)
"""Aggregate functions whose state is columns of values. Others keep bytes or hashes, which other types do not fit."""
_SEVERAL: Final = "the step has several of this kind, and now others"


@dataclass(frozen=True, slots=True)
class Changes:
    """All changes, and the fate of positions and state."""

    changes: tuple[Change, ...]
    not_restored: tuple[str, ...]  # needs --allow-non-restored-state
    operators: Mapping[int, int] | None = field(default_factory=dict)  # Spark's number now -> in the savepoint
    # None: no state at all is restored, and Spark begins with batch 0
    empty: tuple[int, ...] = ()  # Spark's numbers of operators that begin empty, beside others that keep their state
    widened: tuple[int, ...] = ()  # keys of `operators` whose state has narrower integers in the savepoint

    @property
    def keeps_numbers(self) -> bool:
        """Whether Spark can continue with its folder: each operator has its number and its types."""
        if self.operators is None or self.empty or self.widened:
            return False
        return all(now == then for now, then in self.operators.items())


def compare(then: Plan | None, now: Plan, kept: int, refused: Mapping[int, str] | None = None) -> Changes:
    """Return the changes of the spec, and which operators keep their state.

    Args:
        then: of the savepoint; None: not known.
        now: of the query that is to start.
        kept: how many operators have state in the savepoint.
        refused: Spark's number in the query -> why its state cannot be rewritten for wider types.
    """
    if then is None:
        return _unnamed(now, kept)
    changes = [change for kind in ("sources", "transforms", "sinks") for change in _described(then, now, kind)]
    dropped = [f"positions of source {name}" for name in then.sources if name not in now.sources]
    before = then.operators
    if len(before) != kept:
        unnamed = _unnamed(now, kept)
        return Changes((*changes, *unnamed.changes), (*dropped, *unnamed.not_restored), unnamed.operators)
    fates = _fates(before, now.operators, refused or {})
    left = tuple(_left_behind(before[old], fates.why.get(old, "")) for old in fates.lost)
    return Changes(
        (*changes, *fates.told(before, now.operators)),
        (*dropped, *left),
        None if fates.added and not fates.operators else fates.operators,
        tuple(fates.added) if fates.operators else (),
        tuple(fates.widened),
    )


@dataclass(frozen=True, slots=True)
class _Fates:
    """The operators of both queries, by Spark's numbers: number now -> number then."""

    operators: Mapping[int, int]
    widened: Mapping[int, int]  # a part of `operators`
    lost: Sequence[int]  # then
    added: Sequence[int]  # now
    why: Mapping[int, str]  # of some of `lost`: why no operator gets its state

    def told(self, then: Sequence[Operator], now: Sequence[Operator]) -> Iterator[Change]:
        """Return the fate of each operator; nothing where all are as they were."""
        if not self.lost and not self.added and all(new == old for new, old in self.operators.items()):
            yield from (self._widening(then, now, number) for number in self.widened)
            return
        for number, each in enumerate(now):
            if number in self.widened:
                yield self._widening(then, now, number)
            elif number in self.operators:
                yield Change("state", each.named, "kept")
            else:
                yield Change("state", each.named, "begins empty", each.state)
        for number in self.lost:
            yield Change("state", then[number].named, "dropped", self.why.get(number, then[number].state))

    def _widening(self, then: Sequence[Operator], now: Sequence[Operator], number: int) -> Change:
        new, old = now[number], then[self.widened[number]]
        return Change("state", new.named, "widened", f"{old.state} -> {new.state}")


def _fates(then: Sequence[Operator], now: Sequence[Operator], refused: Mapping[int, str]) -> _Fates:
    unclear = _unclear(then, now)
    matched, _, _ = _matched(then, now)
    operators = {new: old for new, old in matched.items() if now[new] not in unclear}
    lost = [old for old in range(len(then)) if old not in operators.values()]
    added = [new for new in range(len(now)) if new not in operators]
    widened, why = dict[int, int](), {old: _SEVERAL for old in lost if then[old] in unclear}
    for new in (each for each in added if now[each] not in unclear):
        alike = [old for old in lost if _is_of(then[old], now[new]) and old not in {*widened.values(), *why}]
        wider = next((old for old in alike if widens(then[old], now[new])), None)
        if wider is not None and new not in refused:
            widened[new] = wider
        elif alike:
            old = wider if wider is not None else alike[0]
            why[old] = f"{then[old].state} -> {now[new].state}{f': {refused[new]}' if new in refused else ''}"
    return _Fates(
        {**operators, **widened},
        widened,
        [old for old in lost if old not in widened.values()],
        [new for new in added if new not in widened],
        why,
    )


def widens(then: Operator, now: Operator) -> bool:
    """Return whether the types of an operator differ in integers only, and none of these is narrower than before."""
    if not _is_of(then, now) or then.kind not in _REWRITTEN:
        return False
    if _INTEGER.sub("", then.state) != _INTEGER.sub("", now.state):
        return False
    pairs = zip(_INTEGER.findall(then.state), _INTEGER.findall(now.state), strict=True)
    if _rereads(then, now):
        return False
    return all(_WIDTHS[old] <= _WIDTHS[new] for old, new in pairs)


def _rereads(then: Operator, now: Operator) -> bool:
    """Whether a function that keeps bytes or hashes of values has other inputs. Spark does not notice it."""
    pairs = zip(_FUNCTION.finditer(then.state), _FUNCTION.finditer(now.state), strict=False)
    same = (each for each in pairs if each[0]["name"] == each[1]["name"] and each[0]["name"] not in _BY_COLUMNS)
    return any(old["inputs"] != new["inputs"] for old, new in same)


def _unclear(then: Sequence[Operator], now: Sequence[Operator]) -> frozenset[Operator]:
    """Return operators whose state may be of another one of their kind in the same step.

    Several with the same types are distinguished by their order, where their number is the same.
    """
    old, new = Counter(then), Counter(now)
    left, more = old - new, new - old
    found = {each for each in old.keys() & new.keys() if old[each] != new[each]}
    for each in new:
        narrower = [other for other in left if other != each and widens(other, each)]
        if narrower and (each in old or len(narrower) > 1 or left[narrower[0]] != more[each]):
            found |= {each, *narrower}
    for each in left:
        wider = [other for other in more if other != each and widens(each, other)]
        if len(wider) > 1:
            found |= {each, *wider}
    return frozenset(found)


def _is_of(then: Operator, now: Operator) -> bool:
    return (then.step, then.kind) == (now.step, now.kind)


def _left_behind(operator: Operator, why: str) -> str:
    if why == _SEVERAL:
        return f"state of {operator.named}: {why}"
    return f"state of {operator.named}{f', whose types have changed ({why})' if why else ''}"


def check_in_place(then: Plan | None, now: Plan) -> None:
    """Raise IdentityError where Spark cannot continue with its checkpoint: it knows sources and state by their places.

    It refuses another number of sources. If steps that keep state have changed places, each would get the other's.
    Bytes of values (`collect_list`) would be read as values of other types.

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
    for before, after in zip(then.operators if then is not None else (), now.operators, strict=False):
        if _is_of(before, after) and _rereads(before, after):
            message = f"the state of {after.named} holds bytes of other types: {before.state} -> {after.state}"
            remedy = "change the types back; or take a savepoint (`eos savepoint`) and start from it without that state"
            raise IdentityError(message, remedy=remedy)


def _unnamed(now: Plan, kept: int) -> Changes:
    """Of a savepoint without a plan: what it has is known by numbers alone."""
    if kept == len(now.operators):
        return Changes((), (), {number: number for number in range(kept)})
    count = f"{kept} operators, of which no names are known"
    change = Change("state", count, "dropped", f"there are {len(now.operators)} now")
    lost = f"state of {count}" if kept else "state of operators that the savepoint does not name"
    return Changes((change,), (lost,), None)


def _matched(then: Sequence[Operator], now: Sequence[Operator]) -> tuple[dict[int, int], list[int], list[int]]:
    """Match by step, kind and types; several alike in one step by their order.

    Return number now -> number then, the numbers then without a match, and the numbers now without one.
    """
    old = dict(_keyed(then))
    new = dict(_keyed(now))
    operators = {number: old[key] for key, number in new.items() if key in old}
    lost = [number for key, number in old.items() if key not in new]
    added = [number for key, number in new.items() if key not in old]
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
