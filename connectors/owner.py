"""Who owns a sink and how far the sink counts, as each sink compares it with what its driver knows (R2, R3). Pure."""

from __future__ import annotations

from typing import NamedTuple

from eos.errors import FencedError, IdentityError, SetBackError


class Owner(NamedTuple):
    """Who owns a sink."""

    incarnation: str
    epoch: int

    def __str__(self) -> str:
        return f"epoch {self.epoch} of incarnation {self.incarnation}"


def fenced_error(sink: str, found: Owner | None, owner: Owner) -> FencedError:
    """The error of a driver whose sink is somebody else's."""
    message = f"fenced: sink {sink} is claimed by {found or 'nobody'}, this driver is {owner}"
    return FencedError(message, remedy="another driver of this pipeline has started since; stop one of them")


def check_succession(sink: str, found: Owner, owner: Owner) -> None:
    """Raise IdentityError if `owner` is of another life than who has the sink, FencedError if it is older."""
    if found.incarnation != owner.incarnation:
        message = f"sink {sink} is claimed by incarnation {found.incarnation} of this pipeline, not by {owner}"
        raise IdentityError(message, remedy="run it from its own checkpoint location, or take it over: `eos reset`")
    if found.epoch > owner.epoch:
        raise fenced_error(sink, found, owner)


def check_applier(sink: str, found: Owner | None, incarnation: str, epoch: int | None) -> None:
    """Raise FencedError unless a driver may apply what is decided: any epoch of this life that does not know a newer
    one. `epoch`: None of a start, which commits before it claims (R3)."""
    if found is None or found.incarnation != incarnation or epoch not in (None, found.epoch):
        raise fenced_error(sink, found, Owner(incarnation, epoch or 0))


def check_counted(sink: str, found: int | None, known: int) -> None:
    """Raise SetBackError where the sink counts less than it is known to have counted (H26).

    `found`: the newest checkpoint that the sink counts; None where it has no count. `known`: -1 if nothing is known.
    """
    if known >= 0 and (found is None or found < known):
        raise SetBackError.of(sink, found, known)
