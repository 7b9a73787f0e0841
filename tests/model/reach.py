"""The search of the smaller models: every state that can be reached from the first one, each looked at once."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar


class Violation(Exception):
    """What a search looks for."""


S = TypeVar("S", bound=Hashable)


def reach(first: S, look: Callable[[S], None], successors: Callable[[S], Iterable[S]]) -> tuple[int, str]:
    """Return how many states were seen, and the first violation ('' if none).

    `look` checks a state, and what must hold at an end; it and `successors` raise Violation.
    """
    gc.disable()  # what is made stays: looking for garbage among it takes a third of the time
    try:
        return _reach(first, look, successors)
    finally:
        gc.enable()


def _reach(first: S, look: Callable[[S], None], successors: Callable[[S], Iterable[S]]) -> tuple[int, str]:
    seen, stack = {first}, [first]
    while stack:
        state = stack.pop()
        try:
            look(state)
            for after in successors(state):
                if after not in seen:
                    seen.add(after)
                    stack.append(after)
        except Violation as violation:
            return len(seen), str(violation)
    return len(seen), ""
