"""The page docs/reference/keys.md names exactly the keys of `eos schema`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from connectors.spec.spec import json_schema

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "keys.md"
_ROW = re.compile(r"^\| `([^`]*)` \|", re.MULTILINE)


def test_the_page_names_the_keys_of_the_schema_and_no_others() -> None:
    schema = json_schema()
    found = {_as_written(path) for path in _keys(schema, schema["$defs"])}
    page = _PAGE.read_text().partition("\n## Removed keys\n")[0]
    written = _ROW.findall(page)
    assert len(found) > 100
    assert sorted(written) == sorted(found)


def _as_written(path: str) -> str:
    """Keys of a dead letter are those of a sink, `key_format` has the keys of `format`, and security its own table."""
    path = re.sub(r"^dead_letter\.", "sinks[].", path)
    path = re.sub(r"^(sources|sinks)\[\]\.key_format\.", r"\1[].format.", path)
    return re.sub(r"^(sources|sinks)\[\]\.security\.", "security.", path)


def _keys(node: dict[str, Any], types: dict[str, Any], path: str = "") -> Iterator[str]:
    if (ref := node.get("$ref")) is not None:
        yield from _keys(types[ref.rpartition("/")[2]], types, path)
    for kind in ("anyOf", "oneOf", "allOf"):
        for each in node.get(kind, ()):
            yield from _keys(each, types, path)
    if "items" in node:
        yield from _keys(node["items"], types, f"{path}[]")
    for key, value in node.get("properties", {}).items():
        inner = f"{path}.{key}" if path else key
        yield inner
        yield from _keys(value, types, inner)
