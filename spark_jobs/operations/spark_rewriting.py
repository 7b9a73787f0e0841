"""Spark's folder of a life that begins from a savepoint, with sources and operators where the new query has them.

Sources stand in `offsets/N` by their place in the query, and state lies under the number of its operator. Their names,
which the savepoint kept, tell what has moved where. What is not moved is copied as it is.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from spark_jobs.query.source_offset import SourceOffset
from spark_jobs.query.state_files import operator_at, state_ids
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.manifest import Manifest
from wal.durable import sync, sync_ancestors, sync_folders

_STATE: Final = re.compile(r"state/(?P<operator>[0-9]+)/(?P<rest>.*)")


def write(
    savepoint: Path, manifest: Manifest, target: Path, sources: Sequence[str], operators: Mapping[int, int]
) -> None:
    """Fill the folder `target`, and make it survive a power cut. Raises OSError.

    Args:
        savepoint: its folder, which is whole.
        manifest: its manifest.
        target: a folder that is there, under the path that it will keep.
        sources: of the new query, in Spark's order. Those that the savepoint does not know begin where head says.
        operators: number in the new query -> number in the savepoint.
    """
    now = {then: number for number, then in operators.items()}
    for name in manifest.files:
        if not name.startswith(f"{manifests.SPARK}/"):
            continue
        path, source = name.removeprefix(f"{manifests.SPARK}/"), savepoint / name
        if path.startswith("offsets/"):
            _put(target / path, offsets(source.read_text(), sources))
        elif path.startswith("commits/"):
            _put(target / path, commit(source.read_text(), now))
        elif match := _STATE.fullmatch(path):
            number = now.get(int(match["operator"]))
            if number is not None:
                _place(source, target, number, match["rest"])
        else:
            _copy(source, target / path)
    sync_folders(target)
    sync_ancestors(target)


def offsets(content: str, sources: Sequence[str]) -> str:
    """`offsets/N` with a line for each of these sources. One that is not in it has read nothing yet."""
    version, metadata, *lines = content.split("\n")
    known = {SourceOffset.from_json(json.loads(line)).source: line for line in lines if line != "-"}
    return "\n".join([version, metadata, *(known.get(name, "-") for name in sources)])


def commit(content: str, now: Mapping[int, int]) -> str:
    """`commits/N` with the state of these operators alone, under their new numbers."""
    ids = state_ids(content)
    if not ids:
        return content
    version, _, text = content.partition("\n")
    document: dict[str, Any] = json.loads(text)
    moved = {now[int(number)]: each for number, each in ids.items() if int(number) in now}
    document["stateUniqueIds"] = {str(number): moved[number] for number in sorted(moved)}
    return f"{version}\n{json.dumps(document, separators=(',', ':'))}"


def _place(source: Path, target: Path, number: int, rest: str) -> None:
    folder = target / "state" / str(number)
    if rest.startswith("_metadata/"):
        _put(folder / rest, operator_at(source.read_text(), folder, number))
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
