"""Processes that race for one head register. The value is the list of all swaps that landed, so it shows who won each.

A swap without an answer is settled by the final value. One that was answered True must be in it.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from connectors.sql.head import SqlHead
from eos.errors import HeadError, HeadUnknownError
from twophase.head import HeadStore
from twophase.local_head import LocalHead
from twophase.object_head import ObjectHead
from wal.address import ObjectAddress

RACERS: Final = 3
_START_S: Final = 120.0  # of new interpreters on a busy machine

Place = Path | str | ObjectAddress
"""Where head is: a folder, the URL of a database, or a prefix of a bucket. Another process gets it, too."""


def open_head(place: Place) -> HeadStore:
    match place:
        case Path():
            return LocalHead(place)
        case str():
            return SqlHead(place, "p")
        case _:
            return ObjectHead(place)


@dataclass(slots=True)
class Racer:
    """Swaps of one process, by their unique words in the value."""

    won: dict[str, int] = field(default_factory=dict)  # answered True: word to version
    refused: set[str] = field(default_factory=set)  # answered False
    unanswered: set[str] = field(default_factory=set)
    found: set[str] = field(default_factory=set)  # unanswered, and in the value that a later read returned
    failed_reads: int = 0


def race(place: Place, name: str, start: Any, end: Any, result: Any) -> None:
    """Swap until `end`, in a process of its own, and send the Racer."""
    store, mine, number = open_head(place), Racer(), 0
    start.wait()
    while not end.is_set():
        try:
            seen = store.read()
        except HeadError:
            mine.failed_reads += 1
            continue
        words = seen.value.split() if seen is not None else []
        mine.found |= mine.unanswered & {word.decode() for word in words}
        number += 1
        word = f"{name}.{number}"
        try:
            if store.swap(seen, b" ".join([*words, word.encode()])):
                mine.won[word] = len(words) + 1
            else:
                mine.refused.add(word)
        except HeadUnknownError:
            mine.unanswered.add(word)
    result.put(mine)


@contextmanager
def racing(place: Place) -> Iterator[list[Racer]]:
    """Let RACERS processes race during the block. After it, the list has their Racers."""
    context = multiprocessing.get_context("spawn")  # a client of an object store does not survive a fork
    start, end, results = context.Barrier(RACERS + 1), context.Event(), context.Queue()
    given = [(place, f"racer{n}", start, end, results) for n in range(RACERS)]
    processes = [context.Process(target=race, args=each, daemon=True) for each in given]
    ended: list[Racer] = []
    try:
        for process in processes:
            process.start()
        start.wait(_START_S)
        yield ended
        end.set()
        ended.extend(results.get(timeout=60) for _ in processes)
        for process in processes:
            process.join(10)
    finally:
        for process in processes:
            process.kill()


def await_version(store: HeadStore, version: int, seconds: float = 120) -> None:
    """Block until so many swaps have landed."""
    deadline = time.monotonic() + seconds
    seen = None
    while seen is None or seen.version < version:
        assert time.monotonic() < deadline, seen
        time.sleep(0.01)
        with suppress(HeadError):
            seen = store.read()


def assert_each_version_is_won_once(store: HeadStore, racers: list[Racer]) -> int:
    """Return the number of versions. Every version has one winner, and no swap that was answered True is lost."""
    seen = store.read()
    assert seen is not None
    words = seen.value.decode().split()
    assert len(words) == len(set(words)) == seen.version
    won = {word: version for racer in racers for word, version in racer.won.items()}
    assert len(won) == sum(len(racer.won) for racer in racers)
    assert {word: words.index(word) + 1 for word in won if word in words} == won
    landed = set(words)
    unanswered = {word for racer in racers for word in racer.unanswered}
    assert landed - won.keys() <= unanswered
    for racer in racers:
        assert racer.found <= landed
        assert not racer.refused & landed
    return seen.version
