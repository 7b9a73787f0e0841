"""Every order in which drivers read, swap and tidy a register in HDFS (`wal.hdfs_objects`).

Each request to the namenode is one move: the write of a value, a rename, a listing, a deletion. A rename may also be
executed without an answer, or be executed later than its driver waits. A driver that never moves again has died; one
that moves late was frozen.

Looked at in every world: the marker names a value that is there. A driver that believes its swap landed has replaced
the value that it expected, and a driver that believes its swap refused is right for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from wal.hdfs_objects import superseded

SWAPS: Final = (2, 2, 1)
"""Of each driver, at most."""

UNANSWERED: Final = 1
"""Renames whose answer is lost, or that arrive late."""

MUTANTS: Final = (
    "numbered files, each created exclusively",
    "renames before the value is written",
    "deletes the replaced value before the rename",
    "deletes every value but its own",
    "deletes values before its swap has landed",
    "deletes the value of a swap without an answer",
    "creates the register before its first marker",
    "takes a swap without an answer for refused",
)


class Violation(Exception):
    """A value is lost, or a driver is wrong about its swap."""


@dataclass(frozen=True, slots=True)
class Driver:
    """One driver, between two requests."""

    index: int
    step: str = "read"
    swaps: int = 0
    expected: str = ""  # the value that it has read; empty: no register
    new: str = ""
    deleting: tuple[str, ...] = ()
    is_tidy: bool = False  # it has listed the values once


@dataclass(frozen=True, slots=True)
class Register:
    """The folder of the register, requests on the wire, and the drivers."""

    exists: bool = False
    markers: frozenset[str] = frozenset()  # the values that they name
    values: frozenset[str] = frozenset()
    history: tuple[str, ...] = ("",)  # what markers have named, in order
    refused: frozenset[str] = frozenset()  # believed so
    wire: frozenset[tuple[str, str]] = frozenset()
    unanswered: int = UNANSWERED
    drivers: tuple[Driver, ...] = tuple(map(Driver, range(len(SWAPS))))

    @property
    def current(self) -> str:
        """The value that a reader takes."""
        return max(self.markers, default="")


def explore(mutant: str = "") -> int:
    """Look at every world; return their number. Raises Violation."""
    first = Register()
    seen, stack = {first}, [first]
    while stack:
        world = stack.pop()
        _check(world, mutant)
        for after in _moves(world, mutant):
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return len(seen)


def _check(world: Register, mutant: str) -> None:
    if len(world.markers) > 1 and mutant != MUTANTS[0]:
        raise Violation(f"the register has {len(world.markers)} markers")
    if world.current and world.current not in world.values:
        raise Violation(f"the value {world.current} is gone")
    if found := world.refused.intersection(world.history):
        raise Violation(f"{found} landed, and its driver took it for refused")


def _moves(world: Register, mutant: str) -> Iterator[Register]:
    for source, new in world.wire:
        yield replace(_renamed(world, source, new, mutant) or world, wire=world.wire - {(source, new)})
    for driver in world.drivers:
        for changed, now in _Turn(world, driver, mutant).take():
            drivers = tuple(now if each.index == now.index else each for each in changed.drivers)
            yield replace(changed, drivers=drivers)


def _renamed(world: Register, source: str, new: str, mutant: str) -> Register | None:
    """The namenode's rename; None: it fails. With an empty source it renames a whole folder."""
    if mutant == "numbered files, each created exclusively":
        if any(each[:20] == new[:20] for each in world.markers):
            return None
        return replace(world, exists=True, markers=world.markers | {new}, history=(*world.history, new))
    if not source:
        if world.exists and mutant != "creates the register before its first marker":
            return None
        markers = world.markers | {new} if world.exists else frozenset({new})
        return replace(world, exists=True, markers=markers, values=world.values | {new}, history=(*world.history, new))
    if source not in world.markers:
        return None
    return replace(world, markers=world.markers - {source} | {new}, history=(*world.history, new))


@dataclass(frozen=True, slots=True)
class _Turn:
    world: Register
    driver: Driver
    mutant: str

    def take(self) -> Iterator[tuple[Register, Driver]]:
        """Each outcome of the driver's next request; none: it has ended."""
        match self.driver.step:
            case "read":
                yield from self._read()
            case "write":
                yield from self._write()
            case "rename":
                yield from self._rename()
            case "list":
                yield self.world, self._deletes(self._listed())
            case "delete":
                yield from self._delete()

    def _listed(self) -> list[str]:
        if self.mutant == "deletes every value but its own":
            return [f"value-{each}" for each in self.world.values if each != self.driver.new]
        return superseded([f"value-{each}" for each in self.world.values], self.driver.new)

    def _go(self, step: str, **changes: object) -> Driver:
        return replace(self.driver, step=step, **changes)  # type: ignore[arg-type]

    def _read(self) -> Iterator[tuple[Register, Driver]]:
        driver, current = self.driver, self.world.current
        if driver.swaps == SWAPS[driver.index]:
            return
        number = int(current[:20] or "0") + 1
        new = f"{number:020d}-{driver.index:08x}{driver.swaps:08x}"
        step = "rename" if self.mutant == "renames before the value is written" else "write"
        yield self.world, self._go(step, expected=current, new=new, swaps=driver.swaps + 1)

    def _write(self) -> Iterator[tuple[Register, Driver]]:
        """The first value is written into the folder that the rename brings."""
        driver, world = self.driver, self.world
        wrote = world if not driver.expected and self.mutant != MUTANTS[0] else self._with(driver.new)
        match self.mutant:
            case "renames before the value is written":
                yield wrote, self._landed()
            case "deletes values before its swap has landed" if driver.expected:
                dead = superseded([f"value-{each}" for each in wrote.values], driver.new)
                gone = {each.removeprefix("value-") for each in dead} - {driver.expected}
                yield replace(wrote, values=wrote.values - gone), self._go("rename")
            case "deletes the replaced value before the rename":
                yield replace(wrote, values=wrote.values - {driver.expected}), self._go("rename")
            case _:
                yield wrote, self._go("rename")

    def _with(self, value: str) -> Register:
        return replace(self.world, values=self.world.values | {value})

    def _rename(self) -> Iterator[tuple[Register, Driver]]:
        driver, world = self.driver, self.world
        after = _renamed(world, driver.expected, driver.new, self.mutant)
        if after is not None:
            self._require_successor(after)
            is_late_write = self.mutant == "renames before the value is written" and driver.expected
            yield after, self._go("write") if is_late_write else self._landed()
        else:
            gone = replace(world, values=world.values - {driver.new}, refused=world.refused | {driver.new})
            yield gone, self._go("read")
        if world.unanswered:
            spent = replace(world, unanswered=world.unanswered - 1)
            late = replace(spent, wire=spent.wire | {(driver.expected, driver.new)})
            for each in (late, *([replace(after, unanswered=spent.unanswered)] if after is not None else [])):
                yield self._without_answer(each), self._go("read")

    def _without_answer(self, world: Register) -> Register:
        """The driver reads again, and cannot know."""
        match self.mutant:
            case "deletes the value of a swap without an answer":
                return replace(world, values=world.values - {self.driver.new})
            case "takes a swap without an answer for refused":
                return replace(world, refused=world.refused | {self.driver.new})
        return world

    def _require_successor(self, after: Register) -> None:
        """It believes that it has replaced what it expected."""
        if after.history[-2] != self.driver.expected or after.current != self.driver.new:
            raise Violation(f"{self.driver.new} landed, and did not replace {self.driver.expected}")

    def _landed(self) -> Driver:
        driver = self.driver
        if driver.is_tidy or not driver.expected:
            return self._deletes([f"value-{driver.expected}"] if driver.expected else [])
        return self._go("list", is_tidy=True)

    def _deletes(self, entries: list[str]) -> Driver:
        values = tuple(sorted(each.removeprefix("value-") for each in entries))
        return self._go("delete" if values else "read", deleting=values)

    def _delete(self) -> Iterator[tuple[Register, Driver]]:
        gone, *others = self.driver.deleting
        markers = self.world.markers
        if self.mutant == "numbered files, each created exclusively":
            markers -= {gone}
        after = replace(self.world, values=self.world.values - {gone}, markers=markers)
        yield after, self._go("delete" if others else "read", deleting=tuple(others))
