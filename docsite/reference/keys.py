"""The page of all keys: the table of docs/reference/keys.md, with types, defaults and meanings of the models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from connectors.spec import json_schema
from docsite.pages import ROOT
from docsite.reference.tables import cell

SOURCE: Final = ROOT / "docs" / "reference" / "keys.md"

_ROW: Final = re.compile(r"^\| `([^`]*)` \| (.*) \|$", re.MULTILINE)
_HEAD: Final = "| key | needed by |\n| --- | --- |\n"
_NEW_HEAD: Final = "| key | type | default | meaning | needed by |\n| --- | --- | --- | --- | --- |\n"
_VARIABLE: Final = r"\$\{"
_REMOVED: Final = "\n## Removed keys\n"

Node = Mapping[str, Any]


class Key(NamedTuple):
    """A key as one model has it."""

    path: str
    owner: str
    """The value that selects the model: a connector, a strategy, a type or a mechanism; else empty."""
    kind: str
    default: str
    meaning: str


def page() -> str:
    """Return the page with all columns. Raises KeyError for a key that no model has."""
    found: dict[str, list[Key]] = {}
    for key in keys(json_schema()):
        found.setdefault(key.path, []).append(key)
    text, mark, removed = SOURCE.read_text().partition(_REMOVED)
    text = _ROW.sub(lambda row: _row(row[1], row[2], found[row[1]]), text.replace(_HEAD, _NEW_HEAD))
    return text + mark + removed


def keys(schema: Node) -> Iterator[Key]:
    """Yield each key of each model of the schema of a spec."""
    yield from _keys(schema, schema["$defs"], "", "")


def as_written(path: str) -> str:
    """Return the path as the page writes it.

    A dead letter has the keys of a sink, `key_format` has the keys of `format`, and security has a table.
    """
    path = re.sub(r"^dead_letter\.", "sinks[].", path)
    path = re.sub(r"^(sources|sinks)\[\]\.key_format\.", r"\1[].format.", path)
    return re.sub(r"^(sources|sinks)\[\]\.security\.", "security.", path)


def _row(path: str, needed: str, found: list[Key]) -> str:
    kinds = _merged([(key.owner, key.kind) for key in found])
    defaults = _merged([(key.owner, f"`{key.default}`") for key in found if key.default])
    meanings = _merged([(key.owner, key.meaning) for key in found if key.meaning])
    name = f'<span id="{path.replace("[]", "")}">`{path}`</span>'
    return f"| {name} | {kinds} | {defaults} | {meanings} | {needed} |"


def _merged(values: list[tuple[str, str]]) -> str:
    """Return the one value that all owners have, or each value with its owners."""
    owners: dict[str, list[str]] = {}
    for owner, value in values:
        if owner not in owners.setdefault(value, []):
            owners[value].append(owner)
    if len(owners) <= 1:
        return cell(next(iter(owners), ""))
    parts = [f"{', '.join(f'`{name}`' for name in names if name)}: {value}" for value, names in owners.items()]
    return cell("<br>".join(part.removeprefix(": ") for part in parts))


def _keys(node: Node, types: Mapping[str, Node], path: str, owner: str) -> Iterator[Key]:
    if (ref := node.get("$ref")) is not None:
        model = types[ref.rpartition("/")[2]]
        yield from _keys(model, types, path, _owner(model) or owner)
    for kind in ("anyOf", "oneOf", "allOf"):
        for each in node.get(kind, ()):
            yield from _keys(each, types, path, owner)
    if "items" in node:
        yield from _keys(node["items"], types, f"{path}[]", owner)
    for name, value in node.get("properties", {}).items():
        inner = f"{path}.{name}" if path else name
        default = json.dumps(value["default"]).strip('"') if value.get("default") not in (None, {}, []) else ""
        yield Key(as_written(inner), owner, _kind(value, types), default, value.get("description", ""))
        yield from _keys(value, types, inner, owner)


def _owner(model: Node) -> str:
    """Return the constant that selects a model, if it has one."""
    for name in ("connector", "strategy", "type", "mechanism"):
        value = model.get("properties", {}).get(name, {})
        if "const" in value:
            return str(value["const"])
    return ""


def _kind(node: Node, types: Mapping[str, Node]) -> str:
    """Return the type of a value in words."""
    if "$ref" in node:
        return _kind(types[node["$ref"].rpartition("/")[2]], types)
    if "const" in node:
        return f"`{node['const']}`"
    if "enum" in node:
        return " or ".join(f"`{each}`" for each in node["enum"])
    for union in ("anyOf", "oneOf"):
        if union in node:
            kinds = [_kind(each, types) for each in node[union] if each.get("pattern") != _VARIABLE]
            return " or ".join(dict.fromkeys(kind for kind in kinds if kind != "null"))
    kind = str(node.get("type", "any value"))
    if kind == "string" and "(ms|s|min|h|d)" in node.get("pattern", ""):
        return "duration"
    if kind == "string" and "%" in node.get("pattern", ""):
        return "percentage"
    if kind == "array":
        return f"list of {_kind(node.get('items', {}), types)}"
    return {"object": "mapping"}.get(kind, kind)
