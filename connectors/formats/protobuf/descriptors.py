"""Messages in a FileDescriptorSet, by their name or by their place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from eos.errors import SpecError

_KEPT: Final = 1_000
"""Sets of descriptors that a process keeps."""
_MOST_SHOWN: Final = 10


def message_named(descriptors: bytes, name: str) -> Descriptor:
    """Return a message by its name with the package. Raises SpecError."""
    pool, _ = _loaded(descriptors)
    try:
        return pool.FindMessageTypeByName(name.removeprefix("."))
    except KeyError:
        remedy = f"give its name with the package: {', '.join(message_names(descriptors)[:_MOST_SHOWN]) or 'none'}"
        raise SpecError(f"the Protobuf schema has no message {name!r}", remedy=remedy) from None


def message_names(descriptors: bytes) -> list[str]:
    """Return the names of the messages of the last file that are not inside of another message. Raises SpecError."""
    _, last = _loaded(descriptors)
    return [f"{last.package}.{each.name}".removeprefix(".") for each in last.message_type]


def name_at(descriptors: bytes, path: Sequence[int]) -> str | None:
    """Return the name of the message at a path of indexes in the last file; None without one. Raises SpecError."""
    _, last = _loaded(descriptors)
    names, messages = [last.package] if last.package else [], last.message_type
    for index in path:
        if index >= len(messages):
            return None
        found: DescriptorProto = messages[index]
        names.append(found.name)
        messages = found.nested_type
    return ".".join(names)


def needed(descriptors: bytes, name: str) -> bytes:
    """Return the files that define a message and all that it refers to; its own is the last. Raises SpecError."""
    file = message_named(descriptors, name).file.name
    files = {each.name: each for each in _parsed(descriptors).file}
    return FileDescriptorSet(file=_ordered(files, [file])).SerializeToString(deterministic=True)


@lru_cache(_KEPT)
def _loaded(descriptors: bytes) -> tuple[DescriptorPool, FileDescriptorProto]:
    """Return a pool with all files, and the last file."""
    files = {each.name: each for each in _parsed(descriptors).file}
    if not files:
        raise SpecError("the Protobuf schema has no file", remedy="write it with protoc --descriptor_set_out")
    pool = DescriptorPool()
    try:
        for file in _ordered(files, list(files)):
            pool.Add(file)
    except (TypeError, KeyError) as error:
        raise SpecError(f"the Protobuf schema is not valid: {error}") from None
    return pool, list(files.values())[-1]


def _parsed(descriptors: bytes) -> FileDescriptorSet:
    try:
        return FileDescriptorSet.FromString(descriptors)
    except DecodeError:
        raise SpecError("not a FileDescriptorSet", remedy="write it with protoc --descriptor_set_out") from None


def _ordered(files: dict[str, FileDescriptorProto], wanted: Sequence[str]) -> list[FileDescriptorProto]:
    """Return the wanted files, each behind the files that it imports."""
    found: dict[str, FileDescriptorProto] = {}
    left, entered = [(name, name) for name in reversed(wanted)], set()
    while left:
        name, by = left.pop()
        if name in found:
            continue
        if name not in files:
            message = f"the Protobuf schema lacks {name}, which {by} imports"
            raise SpecError(message, remedy="write it with protoc --include_imports --descriptor_set_out")
        if name in entered:
            found[name] = files[name]
            continue
        entered.add(name)
        left.append((name, by))
        left += [(each, name) for each in files[name].dependency if each not in entered]
    return list(found.values())
