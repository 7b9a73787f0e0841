"""What `eos doctor` finds out about an object store: it does with a probe what a pipeline does with a segment."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress

from connectors.api.contracts import Finding
from connectors.log.segments import open_log
from eos.errors import TargetError
from wal.address import ObjectAddress
from wal.errors import ObjectExistsError, ObjectMissingError, WalError
from wal.storage import Storage

_CHECK = "log store"
_CONDITION = "log store: conditional put"


def probe(at: ObjectAddress) -> list[Finding]:
    """Write, write again (which must be refused), read, list and delete an object of a name that nobody else has."""
    try:
        storage = open_log(at)
    except TargetError as error:
        return [Finding(_CHECK, ok=False, detail=error.message, remedy=error.remedy)]
    name = f"eos-doctor-{secrets.token_hex(8)}.probe"
    try:
        return list(_tried(storage, name))
    except WalError as error:
        return [Finding(_CHECK, ok=False, detail=error.message, remedy=error.remedy)]
    finally:
        with suppress(WalError):  # what it is about has been said
            storage.delete(name)


def _tried(storage: Storage, name: str) -> Iterator[Finding]:
    place = storage.describe()
    with suppress(ObjectMissingError):  # a store that remembers "not found" would hide a segment from the driver
        storage.open(name).close()
    _put(storage, name, b"first")
    yield _conditional(storage, name)
    with storage.open(name) as file:
        read = file.read()
    listed = name in storage.names()
    storage.delete(name)
    gone = name not in storage.names()
    wrong = [
        *(
            []
            if read in (b"first", b"other")
            else ["the object that was read differs from the object that was written"]
        ),
        *([] if listed else ["a new object is not in the listing at once"]),
        *([] if gone else ["a deleted object is still in the listing"]),
    ]
    detail = "; ".join(wrong) or f"{place}: an object was written, read, listed and deleted"
    yield Finding(_CHECK, not wrong, detail, "" if not wrong else "use a store that is strongly consistent")


def _conditional(storage: Storage, name: str) -> Finding:
    try:
        _put(storage, name, b"other")
    except ObjectExistsError:
        return Finding(_CONDITION, ok=True, detail="a second object of one name was refused")
    return Finding(
        _CONDITION,
        ok=False,
        detail=f"{storage.describe()} ignores If-None-Match: an object was put over another one, which is lost",
        remedy="use a store that honours it: S3, Google Cloud Storage, Azure, or a recent version of this one",
    )


def _put(storage: Storage, name: str, content: bytes) -> None:
    writer = storage.create(name)
    try:
        writer.write(content)
        writer.publish()
    finally:
        writer.discard()
