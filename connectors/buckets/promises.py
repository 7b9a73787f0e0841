"""Promises of an object store, tried on objects of a random name, which are deleted afterwards.

Head and a log rest on them. A store that compares first and writes later passes each single comparison, and loses one
of two replacements that arrive at once. So several are sent at once, as Elasticsearch's repository analysis and the
tests of Rust's `object_store` do.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from connectors.api.contracts import Finding
from wal.conditional_objects import ConditionalObjects, Found, Tag
from wal.errors import StorageError

Attempt = tuple[str, Iterator[Finding]]
"""The name of a check, and its findings as they are tried. Raises StorageError, which is a finding of this name."""

_AT_ONCE: Final = 4
_ROUNDS: Final = 4
_PAUSES_S: Final = (1.5, 3.0)
_USE_ANOTHER: Final = "use a store that honours it: S3, Google Cloud Storage, Azure, or a recent version of this one"
_CONSISTENT: Final = "use a store that is strongly consistent"


class Objects(Protocol):
    """The requests that are tried: of a log, or of head. Each raises StorageError."""

    def create(self, name: str, content: bytes) -> bool:
        """Create an object; False where the name is taken."""

    def read(self, name: str) -> bytes | None:
        """Return the content; None where the object is missing."""

    def is_listed(self, name: str) -> bool:
        """Return whether a listing has the name."""

    def delete(self, name: str) -> None:
        """Delete an object. Idempotent."""


def unused_name() -> str:
    """Return a name that nothing else uses."""
    return f"eos-doctor-{secrets.token_hex(8)}"


def put_check(check: str) -> str:
    """Return the name of the check of creations."""
    return f"{check}: conditional put"


def run(
    objects: Objects, names: Sequence[str], attempts: Iterable[Attempt], check: str, endpoint: str
) -> Sequence[Finding]:
    """Try all attempts until a request fails, and delete the objects of these names, also after a failure.

    Args:
        names: every name that the attempts write.
        check: the name of a finding about requests that fail.
        endpoint: of the store, for messages.
    """
    try:
        objects.read(names[0])  # a store that remembers "not found" would hide a new object from its reader
    except StorageError as error:
        return [failure(check, error, endpoint)]
    try:
        found = list(_findings(attempts, endpoint))
    finally:
        left = _clean(objects, names, check)
    return [*found, *left]


def _findings(attempts: Iterable[Attempt], endpoint: str) -> Iterator[Finding]:
    for check, findings in attempts:
        try:
            yield from findings
        except StorageError as error:
            yield failure(check, error, endpoint)
            return


def failure(check: str, error: StorageError, endpoint: str) -> Finding:
    """Return the finding for a request that failed, with the address that it was sent to."""
    remedy = error.remedy.partition(": it is")[0]  # retried, by a run
    return Finding(check, ok=False, detail=f"{error.message} ({endpoint})", remedy=remedy)


def _clean(objects: Objects, names: Sequence[str], check: str) -> list[Finding]:
    for name in names:
        try:
            objects.delete(name)
        except StorageError as error:
            return [Finding(f"{check}: probe", False, f"it may be left: {error.message}", "delete it", fatal=False)]
    return []


def try_objects(objects: Objects, name: str, check: str, place: str) -> Iterator[Finding]:
    """Create an object, see a second one refused, and read, list and delete it."""
    if not objects.create(name, b"first"):
        detail = f"{place}: a new object was refused, as if there were one of its name"
        yield Finding(put_check(check), ok=False, detail=detail, remedy=_USE_ANOTHER)
        return
    yield _refused(objects, name, check, place)
    read = objects.read(name)
    is_listed = objects.is_listed(name)
    objects.delete(name)
    faults = {
        "the object that was read differs from the object that was written": read not in (b"first", b"other"),
        "a new object is not in the listing at once": not is_listed,
        "a deleted object is still in the listing": objects.is_listed(name),
    }
    wrong = [text for text, is_so in faults.items() if is_so]
    detail = "; ".join(wrong) or f"{place}: an object was written, read, listed and deleted"
    yield Finding(check, not wrong, detail, _CONSISTENT if wrong else "")


def _refused(objects: Objects, name: str, check: str, place: str) -> Finding:
    if not objects.create(name, b"other"):
        return Finding(put_check(check), ok=True, detail="a second object of one name was refused")
    detail = f"{place} ignores If-None-Match: an object was put over another one, which is lost"
    return Finding(put_check(check), ok=False, detail=detail, remedy=_USE_ANOTHER)


def try_swaps(objects: ConditionalObjects, name: str, check: str) -> Iterator[Finding]:
    """Replace an object by its tag, see older tags refused, and see one of several replacements land."""
    wrong = _wrong_swap(objects, name) or _wrong_race(objects, name)
    if wrong:
        detail, remedy = f"{objects.place('')[:-1]}: {wrong}", _USE_ANOTHER
        yield Finding(check, ok=False, detail=detail, remedy=remedy)
        return
    detail = "an object was replaced by its tag; an older tag, and the tag of a deleted object, were refused; "
    detail += f"of {_AT_ONCE} replacements at once one landed"
    yield Finding(check, ok=True, detail=detail)


def _wrong_swap(objects: ConditionalObjects, name: str) -> str:
    """Return the promise that the store breaks; empty: none. Contents have one length: a tag may not rest on it."""
    first = _swap(objects, name, None, b"one")
    if first is None:
        return "a new object was refused, as if there were one of its name"
    if first == Tag(None, None):
        return "a put is answered without a tag (ETag), by which an object is replaced"
    found = objects.read(name)
    if found is None or found.content != b"one":
        return "a new object was not read at once"
    second = _swap(objects, name, first, b"two")
    if second is None:
        return "a replacement by the right tag was refused"
    if second == first:
        return "another content has the same tag, so an older object could pass for the newest"
    found = objects.read(name)
    if found is None or found.content != b"two":
        return "after a replacement, the old content was read"
    if found.tag != second:
        return "a read gives another tag than the put, so the right tag is not known"
    if _swap(objects, name, first, b"old") is not None:
        return "it ignores If-Match: an older tag replaced a newer object, which is lost"
    if objects.read(name) != found:
        return "an older tag was refused, and yet the object has changed"
    objects.delete(name)
    if _swap(objects, name, second, b"new") is not None:
        return "it ignores If-Match: the tag of a deleted object created a new one"
    return "a deleted object was read" if objects.read(name) is not None else ""


def _swap(objects: ConditionalObjects, name: str, expected: Tag | None, content: bytes) -> Tag | None:
    """As ConditionalObjects.swap, and once more after an error that may pass.

    Google takes one write a second of one object, and answers 429 to more.
    """
    for pause_s in _PAUSES_S:
        try:
            return objects.swap(name, expected, content)
        except StorageError as error:
            if not error.retriable:
                raise
        time.sleep(pause_s)
        found = objects.read(name)
        if found is not None and found.content == content:
            return found.tag
    return objects.swap(name, expected, content)


def _wrong_race(objects: ConditionalObjects, name: str) -> str:
    """Return the promise that the store breaks when replacements arrive at once; empty: none.

    The store may refuse all of them, as S3 does with 409, or be too busy for some.
    """
    found: Found | None = None
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for number in range(_ROUNDS):
            rivals = [f"{number} {rival}".encode() for rival in range(_AT_ONCE)]
            sent = [pool.submit(_outcome, objects, name, found.tag if found else None, each) for each in rivals]
            outcomes = dict(zip(rivals, [each.result() for each in sent], strict=True))
            landed: list[bytes | None] = [content for content, outcome in outcomes.items() if outcome]
            if len(landed) > 1:
                return f"of {_AT_ONCE} replacements at once {len(landed)} landed, and all but one are lost"
            before, found = found, objects.read(name)
            unknown = [content for content, outcome in outcomes.items() if outcome is None]
            allowed = landed or [before.content if before else None, *unknown]
            if (found.content if found else None) not in allowed:
                return f"of {_AT_ONCE} replacements at once, one that was refused has landed"
    return ""


def _outcome(objects: ConditionalObjects, name: str, expected: Tag | None, content: bytes) -> bool | None:
    """Return whether a replacement has landed; None: unknown. Raises StorageError where no repetition helps."""
    try:
        return objects.swap(name, expected, content) is not None
    except StorageError as error:
        if not error.retriable:
            raise
        return None
