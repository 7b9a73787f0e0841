"""The checkpoint location in an object store, as `eos doctor` tries it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from connectors.api.contracts import Finding
from connectors.buckets.lifecycle import check_rules
from connectors.buckets.promises import failure, run, try_objects, try_swaps, unused_name
from wal.address import ObjectAddress
from wal.conditional_objects import ConditionalObjects
from wal.errors import StorageError
from wal.stores import open_objects

_CHECK: Final = "location store"
_REPLACE: Final = "location store: conditional replace"


@dataclass(frozen=True, slots=True)
class _HeadObjects:
    """The requests of head as promises.Objects. Names are `folder/name`."""

    objects: ConditionalObjects

    def create(self, name: str, content: bytes) -> bool:
        return self.objects.create(name, content)

    def read(self, name: str) -> bytes | None:
        found = self.objects.read(name)
        return found.content if found is not None else None

    def is_listed(self, name: str) -> bool:
        folder, _, entry = name.rpartition("/")
        return entry in self.objects.names(f"{folder}/")

    def delete(self, name: str) -> None:
        self.objects.delete(name)


def check_location(at: ObjectAddress) -> Iterator[Finding]:
    """Try the requests of head below a random name, and read the bucket's rules for old objects.

    Never touches head or its records.
    """
    try:
        objects = open_objects(at)
    except StorageError as error:
        yield failure(_CHECK, error, at.endpoint)
        return
    folder = unused_name()
    tried, replaced = f"{folder}/created", f"{folder}/replaced"
    head = _HeadObjects(objects)
    attempts = [(_CHECK, try_objects(head, tried, _CHECK, str(at))), (_REPLACE, try_swaps(objects, replaced, _REPLACE))]
    names = [tried, replaced, *([folder] if at.scheme == "hdfs" else [])]
    found = run(head, names, attempts, _CHECK, at.endpoint)
    yield from found
    if any(each.check == _CHECK and each.ok for each in found):
        yield from check_rules(at, _CHECK)
