"""`eos.yaml`: settings that all specs of a folder share, and all specs below it."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Final

from connectors.api.mistakes import Mistake, nearest
from connectors.spec import yaml_reader
from connectors.spec.yaml_reader import Mapping, Node, Scalar, Sequence, Unreadable
from eos.errors import SpecError

NAME: Final = "eos.yaml"
KEYS: Final = ("checkpoint", "state", "restart", "spark")
_PIPELINE: Final = "${pipeline}"


def find(spec: Path) -> Path | None:
    """Return the nearest file of defaults, beside a spec or in a folder above it, if there is one.

    The search ends at a folder in which other users may create files, such as /tmp: one of them could set where the
    pipeline keeps its decisions. Links and `..` in the path of the spec are followed first.

    Raises OSError, and SpecError for a file that another user may write.
    """
    spec = spec.parent.resolve() / spec.name
    for folder in spec.parents:
        if _is_of_others(folder.stat()) and not os.statvfs(folder).f_flag & os.ST_RDONLY:
            return None
        file = folder / NAME
        if not file.exists():
            continue
        if file.samefile(spec):
            return None
        if _is_of_others(file.stat()):
            message = f"{file} belongs to another user, or every user may write it: it could have Spark run code"
            raise SpecError(message, remedy="change its owner and its mode, or delete it")
        return file
    return None


def _is_of_others(found: os.stat_result) -> bool:
    """Whether another user than root and this one may write it. A volume of Kubernetes has mode 0777, read-only."""
    return found.st_uid not in (0, os.geteuid()) or bool(found.st_mode & stat.S_IWOTH)


def checked(node: Node, pipeline: Node | None) -> Mapping:
    """Return the content of a file of defaults, in which `${pipeline}` is the name of the pipeline.

    Raises Unreadable for another key than KEYS.
    """
    if not isinstance(node, Mapping):
        raise Unreadable(Mistake("", node.line, f"{NAME} is a mapping with defaults for specs", KEYS))
    for key, (line, _) in node.entries.items():
        if key not in KEYS:
            found = (
                f"{NAME} has defaults for all specs below it, and '{key}' is of one spec; rename the file, if it is one"
            )
            raise Unreadable(Mistake(key, line, found, KEYS, nearest(key, KEYS)))
    name = pipeline.text if isinstance(pipeline, Scalar) else ""
    filled = _filled(node, name)
    assert isinstance(filled, Mapping)
    return filled


def _filled(node: Node, pipeline: str) -> Node:
    if isinstance(node, Mapping):
        entries = {key: (line, _filled(value, pipeline)) for key, (line, value) in node.entries.items()}
        return replace(node, entries=entries)
    if isinstance(node, Sequence):
        return replace(node, items=tuple(_filled(item, pipeline) for item in node.items))
    if isinstance(node.value, str) and _PIPELINE in node.value:
        text = node.value.replace(_PIPELINE, pipeline)
        return yaml_reader.Scalar(text, text, node.line)
    return node
