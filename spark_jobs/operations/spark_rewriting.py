"""Spark's folder of a life that begins from a savepoint, with sources and operators where the new query has them.

Sources stand in `offsets/N` by their place in the query, and state lies under the number of its operator. Their names,
which the savepoint kept, tell what has moved where. What is not moved is copied as it is. An operator that the
savepoint does not have gets the empty state that Spark wrote for a trial of the new query.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spark_jobs.query.source_offset import SourceOffset
from spark_jobs.query.state_files import Ids, needed, operator_at, state_ids
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.manifest import Manifest
from wal.durable import sync, sync_ancestors, sync_folders

_STATE: Final = re.compile(r"state/(?P<operator>[0-9]+)/(?P<rest>.*)")
_FIRST: Final = re.compile(r"(?P<store>(?:[^/]+/)+)1_(?P<id>[0-9a-f-]{36}\.zip)")
"""A snapshot of the state after batch 0."""
_METADATA: Final = "metadata"
_DESCRIPTIONS: Final = ("_metadata/", "_stateSchema/")


@dataclass(frozen=True, slots=True)
class EmptyState:
    """State of operators that have read nothing."""

    trial: Path  # Spark's folder of a query that has run batch 0, without changelogs
    operators: Sequence[int]  # Spark's numbers of the operators that begin so

    def files(self, version: int) -> Iterator[tuple[int, Path, str]]:
        """Yield number, file and path below the operator, where the state is to have this version."""
        for path in needed(self.trial, 0):
            match = _STATE.fullmatch(path)
            if match is None or int(match["operator"]) not in self.operators:
                continue
            rest = match["rest"]
            if "/_metadata/" in rest:
                continue  # columns of a store: the query that runs may need fewer of them, and Spark writes them then
            snapshot = _FIRST.fullmatch(rest)
            rest = f"{snapshot['store']}{version}_{snapshot['id']}" if snapshot else rest
            yield int(match["operator"]), self.trial / path, rest

    def ids(self) -> Ids:
        """Return the ids of the state of each of these operators."""
        found = state_ids((self.trial / "commits" / "0").read_text())
        return {str(number): found[str(number)] for number in self.operators}


def write(
    savepoint: Path,
    manifest: Manifest,
    target: Path,
    sources: Sequence[str],
    operators: Mapping[int, int],
    empty: EmptyState | None = None,
) -> None:
    """Fill the folder `target`, and make it survive a power cut. Raises OSError.

    Args:
        savepoint: its folder, which is whole.
        manifest: its manifest.
        target: a folder that is there, under the path that it will keep.
        sources: of the new query, in Spark's order. A source that the savepoint does not know begins where head says.
        operators: number in the new query -> number in the savepoint.
        empty: other operators of the new query.
    """
    now = {then: number for number, then in operators.items()}
    for name in manifest.files:
        if not name.startswith(f"{manifests.SPARK}/"):
            continue
        path, source = name.removeprefix(f"{manifests.SPARK}/"), savepoint / name
        if path.startswith("offsets/"):
            _put(target / path, offsets(source.read_text(), sources))
        elif path.startswith("commits/"):
            _put(target / path, commit(source.read_text(), now, empty.ids() if empty is not None else {}))
        elif match := _STATE.fullmatch(path):
            number = now.get(int(match["operator"]))
            if number is not None:
                _place(source, target, number, match["rest"])
        else:
            _copy(source, target / path)
    if empty is not None:
        for number, source, rest in empty.files(manifest.checkpoint_id + 1):
            _place(source, target, number, rest)
    sync_folders(target)
    sync_ancestors(target)


def copy(savepoint: Path, manifest: Manifest, target: Path, path: Path, query_id: str) -> None:
    """Fill the folder `target` with Spark's folder as it was, durably. Raises OSError.

    Called for a job of the user's own, whose sources and operators keep their places.

    Args:
        savepoint: its folder, which is whole.
        manifest: its manifest.
        target: an empty folder.
        path: where the folder will be moved to.
        query_id: of the query, which is another one than before: a start with the old folder is then refused (R2).
    """
    for name in manifest.files:
        if not name.startswith(f"{manifests.SPARK}/"):
            continue
        inside, source = name.removeprefix(f"{manifests.SPARK}/"), savepoint / name
        if inside == _METADATA:
            _put(target / inside, json.dumps({"id": query_id}))
        elif match := _STATE.fullmatch(inside):
            _place(source, target, int(match["operator"]), match["rest"], path)
        else:
            _copy(source, target / inside)
    sync_folders(target)


def offsets(content: str, sources: Sequence[str]) -> str:
    """`offsets/N` with a line for each of these sources. One that is not in it has read nothing yet."""
    version, metadata, *lines = content.split("\n")
    known = {SourceOffset.from_json(json.loads(line)).source: line for line in lines if line != "-"}
    return "\n".join([version, metadata, *(known.get(name, "-") for name in sources)])


def commit(content: str, now: Mapping[int, int], more: Ids | None = None) -> str:
    """Return `commits/N` with the state of these operators alone, under their new numbers.

    `more`: ids of the state of other operators.
    """
    ids = state_ids(content)
    if not ids:
        return content
    moved = {now[int(number)]: each for number, each in ids.items() if int(number) in now}
    return _with_ids(content, {**moved, **{int(number): each for number, each in (more or {}).items()}})


def replace_state(target: Path, checkpoint_id: int, written: Path, ids: Ids) -> None:
    """Replace the state of some operators in a folder that no query uses, and survive a power cut. Raises OSError.

    Args:
        target: Spark's folder, with `commits/N`.
        checkpoint_id: N.
        written: a folder with the state of these operators after N, and nothing else of them.
        ids: of the new state.
    """
    for number in ids:
        source = written / "state" / number
        shutil.rmtree(target / "state" / number)
        for path in (each for each in sorted(source.rglob("*")) if each.is_file() and not each.name.startswith(".")):
            _copy(path, target / "state" / number / path.relative_to(source))
    path = target / "commits" / str(checkpoint_id)
    content = path.read_text()
    replaced = {**state_ids(content), **ids}
    _put(path, _with_ids(content, {int(number): each for number, each in replaced.items()}))
    sync_folders(target)


def describe_state(source: Path, target: Path, number: int) -> None:
    """Copy Spark's descriptions of an operator and of the columns of its state. Raises OSError."""
    folder = source / "state" / str(number)
    for path in (each for each in folder.rglob("*") if each.is_file() and not each.name.startswith(".")):
        if any(part in path.relative_to(folder).as_posix() for part in _DESCRIPTIONS):
            _copy(path, target / "state" / str(number) / path.relative_to(folder))


def _with_ids(content: str, ids: Mapping[int, Sequence[Sequence[str]]]) -> str:
    version, _, text = content.partition("\n")
    document: dict[str, Any] = json.loads(text)
    document["stateUniqueIds"] = {str(number): ids[number] for number in sorted(ids)}
    return f"{version}\n{json.dumps(document, separators=(',', ':'))}"


def _place(source: Path, target: Path, number: int, rest: str, path: Path | None = None) -> None:
    """`path`: where `target` will be moved to; None: it stays."""
    folder = target / "state" / str(number)
    if rest.startswith("_metadata/"):
        _put(folder / rest, operator_at(source.read_text(), (path or target) / "state" / str(number), number))
    else:
        _copy(source, folder / rest)


def _put(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    sync(path)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    sync(target)
