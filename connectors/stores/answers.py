"""Answers of a small store. The code of a store may return or raise anything; the token decides, so it is checked.

Each function calls the store, and raises TargetError for an answer of another kind. The call may have changed the store
by then. The next start reads the token, so nothing is lost or written twice.

An error of the store itself is raised as `failure`. In a task it is PrepareError: the checkpoint is aborted, and the
restart strategy decides (R8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from connectors.api.contracts import Finding
from connectors.foreign import foreign
from eos.errors import ConnectorError, TargetError

_READS: Final = "the call that reads the token"
_REPLACES: Final = "the call that replaces the token"

_REMEDY: Final = "correct the store: docs/tutorial/plugins.md lists the results and errors of its calls"

T = TypeVar("T")


def answered_text(
    sink: str, call: Callable[[str], str], slot: str, *, failure: type[ConnectorError] = TargetError
) -> str:
    """Return the token of a slot. A token is a text: None would be taken for a slot that has none."""
    found: object = _call(sink, lambda: call(slot), _READS, failure)
    if not isinstance(found, str):
        raise _wrong(sink, _READS, found, "a text")
    return found


def answered_flag(
    sink: str, call: Callable[..., bool], *arguments: object, failure: type[ConnectorError] = TargetError
) -> bool:
    """Return whether a call has replaced the token. Any other true value would count rows that are not there."""
    found: object = _call(sink, lambda: call(*arguments), _REPLACES, failure)
    if not isinstance(found, bool):
        raise _wrong(sink, _REPLACES, found, "True or False")
    return found


def answered_names(sink: str, call: Callable[[str], Iterable[str]], prefix: str) -> Sequence[str]:
    """Return the names of prepared transactions. A text is refused: it would be taken for many names."""
    return _answered_items(sink, lambda: call(prefix), "`list`", str, "a sequence of names")


def answered_findings(sink: str, call: Callable[[], Iterable[Finding]]) -> Sequence[Finding]:
    """Return the findings of `check`."""
    return _answered_items(sink, call, "`check`", Finding, "a sequence of Finding")


def done(sink: str, call: Callable[[], None], what: str, *, failure: type[ConnectorError] = TargetError) -> None:
    """Carry out a call of the store that has no answer. `what`: for the message."""
    _call(sink, call, what, failure)


def _answered_items(sink: str, call: Callable[[], Iterable[T]], what: str, kind: type[T], wanted: str) -> Sequence[T]:
    found: object = _call(sink, call, what)
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise _wrong(sink, what, found, wanted)
    items: Sequence[T] = _call(sink, lambda: list(found), what)
    for item in items:
        if not isinstance(item, kind):
            raise _wrong(sink, what, item, wanted, "an item that is")
    return items


def _call(sink: str, call: Callable[[], T], what: str, failure: type[ConnectorError] = TargetError) -> T:
    with foreign(f"sink {sink}: {what} of the store", failure, _REMEDY):
        return call()


def _wrong(sink: str, call: str, found: object, wanted: str, item: str = "") -> TargetError:
    what = f"{item} a {type(found).__name__}" if item else f"a {type(found).__name__}"
    return TargetError(f"sink {sink}: {call} of the store returned {what}, not {wanted}", remedy=_REMEDY)
