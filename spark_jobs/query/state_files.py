"""Which files of Spark's checkpoint folder the state after batch N is made of, and nothing else.

`commits/N` names for each operator, partition and store the one version of state that batch N left (Spark's checkpoint
format 2): versions of losing tasks have other ids. A version is a snapshot, `<N+1>_<id>.zip`, which lists its SST
files; or, with changelog checkpoints, `<N+1>_<id>.changelog` upon an older snapshot.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from eos.errors import SavepointError

_VERSION: Final = re.compile(r"(?P<version>[0-9]+)_(?P<id>[0-9a-f-]{36})\.(?P<kind>zip|changelog)")

_SCHEMAS: Final = "/_stateSchema/"
_CHUNK: Final = 1024 * 1024
_MAX_BYTES: Final = 64 * 1024 * 1024
"""Of a snapshot's list of files, uncompressed. One file takes about 150."""

_DAMAGED: Final = "let the pipeline complete another checkpoint, and try again"

Ids = Mapping[str, Sequence[Sequence[str]]]
"""Operator -> by partition: the unique id of each of its stores."""


def needed(folder: Path, checkpoint_id: int) -> list[str]:
    """Paths in `folder`; not Hadoop's checksum files, without which Spark reads as well: a savepoint has its own.

    Raises FileNotFoundError where Spark has deleted one meanwhile, or had before; SavepointError for what this version
    does not understand.
    """
    paths = ["metadata", f"offsets/{checkpoint_id}", f"commits/{checkpoint_id}"]
    paths += [f"offsets/{checkpoint_id - 1}"] if checkpoint_id > 0 else []  # Spark asks where the batch began
    for operator, partitions in state_ids((folder / f"commits/{checkpoint_id}").read_text()).items():
        state = folder / "state" / operator
        told = [*state.glob("**/_metadata/**/*"), *state.glob("**/_stateSchema/**/*")]  # of what form the state is
        paths += [
            _in(folder, path) for path in sorted(told) if _is_content(path) and not _is_later(path, checkpoint_id)
        ]
        for partition, ids in enumerate(partitions):
            for each in ids:
                store = _store(state / str(partition), checkpoint_id + 1, each)
                paths += [_in(folder, path) for path in _of_version(store, checkpoint_id + 1, each)]
    paths = list(dict.fromkeys(paths))
    for path in paths:
        if ".." in PurePosixPath(path).parts:
            raise SavepointError(f"Spark's commits log is damaged: {path!r} is outside its folder", remedy=_DAMAGED)
        (folder / path).stat()
    return paths


def state_ids(commit: str) -> Ids:
    """What `commits/N` says; empty without state. Raises SavepointError for what Spark does not write, or not yet."""
    version, _, document = commit.partition("\n")
    if version not in ("v1", "v2", "v3"):
        message = f"Spark's commits log has version {version}, which this version does not read"
        raise SavepointError(message, remedy="use a version that is made for this Spark")
    try:
        found: dict[str, Any] = json.loads(document or "{}")
    except json.JSONDecodeError as error:
        message = f"Spark's commits log is damaged: {error}"
        raise SavepointError(message, remedy=_DAMAGED) from error
    ids: Ids = found.get("stateUniqueIds") or {}
    if wrong := [operator for operator in ids if not operator.isdecimal()]:
        raise SavepointError(f"Spark's commits log is damaged: {wrong[0]!r} is not an operator", remedy=_DAMAGED)
    return ids


def operator_at(content: str, folder: Path, number: int) -> str:
    """Return what Spark keeps of an operator (`_metadata/`), where its state is in another folder, under this number.

    For `transformWithState` it holds the full paths of the schemas.
    """
    version, _, text = content.partition("\n")
    document: dict[str, Any] = json.loads(text)
    document["operatorInfo"]["operatorId"] = number
    for store in document.get("stateStoreInfo", ()):
        if paths := store.get("stateSchemaFilePaths"):
            store["stateSchemaFilePaths"] = [f"file:{folder}{_SCHEMAS}{each.rpartition(_SCHEMAS)[2]}" for each in paths]
    return f"{version}\n{json.dumps(document, separators=(',', ':'))}"


def hash_of(path: Path) -> tuple[int, str]:
    """Bytes and SHA-256. Raises OSError."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def inside(path: str) -> str:
    """Return a path of a manifest that stays inside its folder, and so does each end of it. Raises ValueError.

    The end of `spark//etc/x` is an absolute path. So a path has one spelling: without `//`, `.` and a slash at its end.
    """
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts or str(pure) != path or "\0" in path:
        raise ValueError(path)
    return path


def _store(partition: Path, version: int, unique_id: str) -> Path:
    """A join keeps several stores of a partition, in a folder each; most operators one, in the partition's own."""
    for folder in (partition, *sorted(path for path in partition.iterdir() if path.is_dir())):
        if any((folder / f"{version}_{unique_id}.{kind}").exists() for kind in ("zip", "changelog")):
            return folder
    raise FileNotFoundError(f"{partition}/{version}_{unique_id}")


def _of_version(store: Path, version: int, unique_id: str) -> Iterator[Path]:
    """A snapshot alone; or what changes were made since one, and that one.

    The history of a changelog is packed inside it. But each version has exactly one id in it: where there is but one
    id of a version, and a snapshot of it, the history goes through that, and nothing older is needed.
    """
    snapshot = store / f"{version}_{unique_id}.zip"
    if snapshot.exists():
        yield snapshot
        yield from _tables(store, snapshot)
        return
    by_version: dict[int, set[str]] = {}
    for path in store.iterdir():
        if (match := _VERSION.fullmatch(path.name)) and int(match["version"]) < version:
            by_version.setdefault(int(match["version"]), set()).add(match["id"])
    yield store / f"{version}_{unique_id}.changelog"
    for older in sorted(by_version, reverse=True):
        ids = by_version[older]
        snapshots = [path for each in ids if (path := store / f"{older}_{each}.zip").exists()]
        yield from (path for each in ids if (path := store / f"{older}_{each}.changelog").exists())
        for each in snapshots:
            yield each
            yield from _tables(store, each)
        if snapshots and len(ids) == 1:
            return


def _tables(store: Path, snapshot: Path) -> Iterator[Path]:
    """The immutable files that a snapshot of RocksDB refers to. Raises SavepointError for one outside their folder."""
    try:
        with zipfile.ZipFile(snapshot) as archive:
            if (size := archive.getinfo("metadata").file_size) > _MAX_BYTES:
                raise ValueError(f"its list of files has {size:,} bytes")
            version, _, document = archive.read("metadata").decode().partition("\n")
        listed: dict[str, Any] = json.loads(document) if version == "v1" else {"sstFiles": ()}
        tables = [store / "SSTs" / _plain(each["dfsSstFileName"]) for each in listed["sstFiles"]]
        tables += [store / "logs" / _plain(each["dfsLogFileName"]) for each in listed.get("logFiles") or ()]
    except (zipfile.BadZipFile, zlib.error, LookupError, ValueError, TypeError, RecursionError) as error:
        remedy = "the state there is cannot be kept: begin from an older savepoint"
        raise SavepointError(f"{snapshot} is damaged: {error!r}", remedy=remedy) from error
    if version != "v1":
        raise SavepointError(f"{snapshot} has version {version}, which this version does not read")
    yield from tables


def _plain(name: str) -> str:
    """Return the name of a file. Raises ValueError for a path: it could lead out of the folder."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(name)
    return name


def _is_content(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".") and path.suffix != ".crc"


def _is_later(path: Path, checkpoint_id: int) -> bool:
    """Of `transformWithState` each start writes anew what its operator is, under the number of its first batch."""
    return path.parent.name == "v2" and path.name.isdecimal() and int(path.name) > checkpoint_id


def _in(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()
