"""A schema of a registry that refers to other schemas, as one text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from connectors.formats.avro.nodes import check_bounds
from eos.errors import SpecError


def inlined(text: str, references: Sequence[str]) -> str:
    """Return the schema with the definition of each referenced type in place of its first use, as indented JSON.

    Raises SpecError if a text is not JSON, or too large.
    """
    try:
        own, *others = (json.loads(each) for each in (text, *references))
        check_bounds([own, *others])
        left = {_full_name(each, ""): each for each in others if isinstance(each, dict)}
        return json.dumps(_inlined(own, left, ""), indent=2) + "\n"
    except (ValueError, RecursionError) as error:
        raise SpecError(f"not an Avro schema: {error}") from error


def _inlined(node: Any, left: dict[str, Any], space: str) -> Any:
    if isinstance(node, str):
        name = node if "." in node or not space else f"{space}.{node}"
        definition = left.pop(name, None)
        if definition is None:
            return node
        # Where it is now, it would inherit the namespace around it.
        return _inlined({**definition, "namespace": name.rpartition(".")[0]}, left, "")
    if isinstance(node, list):
        return [_inlined(each, left, space) for each in node]
    if not isinstance(node, dict):
        return node
    inside = _full_name(node, space).rpartition(".")[0] if "name" in node else space
    found = dict(node)
    for key in ("type", "items", "values"):
        if key in found:
            found[key] = _inlined(found[key], left, inside)
    if isinstance(found.get("fields"), list):
        found["fields"] = [
            {**each, "type": _inlined(each.get("type"), left, inside)} if isinstance(each, dict) else each
            for each in found["fields"]
        ]
    return found


def _full_name(node: Mapping[str, Any], space: str) -> str:
    name = str(node.get("name", ""))
    own = str(node.get("namespace", space))
    return name if "." in name or not own else f"{own}.{name}"
