"""Every order of the requests that write, discard and dispose of one savepoint in an object store (H42).

A writer sends two files and then the manifest, which is created only where none exists. Each put may be answered, or
its answer may be lost; then it has landed, or lands later, or never does. Two users discard the savepoint, and a third
one disposes of it. Each of them may end at any request. No put lands twice.

Looked at in every world: a savepoint that its writer has reported, and that nobody has disposed of, has all its files.
A user who was told that it is discarded, or that it is disposed of, was told so rightly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

MUTANTS: Final = (
    "the manifest is written first",
    "the manifest replaces the mark",
    "the mark replaces the manifest",
    "files are deleted without a mark",
    "files are deleted before the mark",
    "the mark is deleted at the end",
    "a writer that knows nothing of its manifest deletes the files",
    "a disposal deletes the files first",
)

_ALL: Final = frozenset({1, 2})
Name = Literal["", "manifest", "mark"]


class Violation(Exception):
    """A savepoint that was reported, or that can be listed, is not whole."""


@dataclass(frozen=True, slots=True)
class World:
    """The store, and how far each process is. A process that has ended moves no more."""

    files: frozenset[int] = frozenset()
    name: Name = ""  # the object of the manifest's name
    late: bool = False  # a put of the manifest is under way, and its writer has given up on it
    writer: str = "sends"  # sends, published, reported, refused, unknown, gone
    sent: int = 0  # requests of the writer
    users: tuple[int, int] = (0, 0)  # requests of each user that discards; -1: refused
    disposed: int = 0  # requests of the disposal

    @property
    def is_disposed(self) -> bool:
        """Whether a user wanted it gone, who had seen it whole."""
        return self.disposed > 0


def explore(mutant: str = "") -> int:
    """Look at every world; return their number. Raises Violation."""
    seen, stack = {World()}, [World()]
    while stack:
        world = stack.pop()
        _check(world)
        for after in moves(world, mutant):
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return len(seen)


def _check(world: World) -> None:
    if world.writer == "reported" and not world.is_disposed and (world.name != "manifest" or world.files != _ALL):
        raise Violation("a savepoint that was reported is not there")
    if world.name == "manifest" and world.files != _ALL:
        raise Violation("a manifest names files that are not there")
    if any(step == _DISCARDED for step in world.users) and world.name == "manifest":
        raise Violation("what was discarded is a savepoint")
    if world.disposed == _DISPOSED and world.files:
        raise Violation("files of what was disposed of stay")


_DISCARDED: Final = 4
_DISPOSED: Final = 4


def moves(world: World, mutant: str) -> Iterator[World]:
    """Each process's next request."""
    yield from _write(world, mutant)
    for index, step in enumerate(world.users):
        for after, now in _discard(world, step, mutant):
            users = (now, world.users[1]) if index == 0 else (world.users[0], now)
            yield replace(after, users=users)
    yield from _dispose(world, mutant)
    if world.late:
        yield replace(world, late=False)  # it never lands
        if world.name == "":
            yield replace(world, late=False, name="manifest")


def _write(world: World, mutant: str) -> Iterator[World]:
    order: tuple[object, ...] = (1, 2, "manifest")
    if mutant == "the manifest is written first":
        order = ("manifest", 1, 2)
    if world.writer == "sends" and world.sent < len(order):
        sent = replace(world, sent=world.sent + 1)
        if isinstance(step := order[world.sent], int):
            yield replace(sent, files=world.files | {step})
            yield replace(sent, writer="clears", sent=1)  # an outage
        else:
            yield from _publish(sent, is_last=world.sent == len(order) - 1, mutant=mutant)
    elif world.writer == "sends":
        yield replace(world, writer="reported")
    elif world.writer == "clears":  # each of its files
        yield replace(world, files=world.files - {world.sent}, sent=world.sent + 1, writer=_cleared(world.sent))


def _cleared(sent: int) -> str:
    return "clears" if sent < len(_ALL) else "gone"


def _publish(world: World, *, is_last: bool, mutant: str) -> Iterator[World]:
    done = "reported" if is_last else "sends"
    if world.name == "" or mutant == "the manifest replaces the mark":
        yield replace(world, name="manifest", writer=done)  # also where its answer is lost, and is looked up
        unknown = replace(world, writer="unknown")
        if mutant == "a writer that knows nothing of its manifest deletes the files":
            unknown = replace(world, writer="clears", sent=1)
        yield replace(unknown, late=True)
        yield replace(unknown, name="manifest")  # the answer of the look-up is lost, too
    else:
        yield replace(world, writer="clears", sent=1)  # refused


def _discard(world: World, step: int, mutant: str) -> Iterator[tuple[World, int]]:
    """A user: puts the mark, deletes the files, and is told so."""
    if step == _DISCARDED or step < 0:
        return
    order = ["mark", 1, 2, "told"]
    if mutant == "files are deleted before the mark":
        order = [1, 2, "mark", "told"]
    match order[step]:
        case "mark" if mutant == "files are deleted without a mark":
            yield world, step + 1 if world.name == "" else -1
        case "mark" if world.name in {"", "mark"} or mutant == "the mark replaces the manifest":
            yield replace(world, name="mark"), step + 1
        case "mark":
            yield world, -1
        case int() as file:
            if mutant == "files are deleted before the mark" and world.name == "manifest":
                yield world, -1
            else:
                yield replace(world, files=world.files - {file}), step + 1
        case _:
            forgets = mutant == "the mark is deleted at the end" and world.name == "mark"
            yield replace(world, name="" if forgets else world.name), step + 1


def _dispose(world: World, mutant: str) -> Iterator[World]:
    """A user who has read the manifest deletes it, then the files, and is told so."""
    step = world.disposed
    order: list[object] = ["manifest", 1, 2, "told"]
    if mutant == "a disposal deletes the files first":
        order = [1, 2, "manifest", "told"]
    if step == _DISPOSED or (step == 0 and (world.name != "manifest" or world.files != _ALL)):
        return
    match order[step]:
        case "manifest":
            yield replace(world, name="" if world.name == "manifest" else world.name, disposed=step + 1)
        case int() as file:
            yield replace(world, files=world.files - {file}, disposed=step + 1)
        case _:
            yield replace(world, disposed=step + 1)
