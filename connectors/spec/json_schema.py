"""The JSON Schema of the spec, for editors: completion and marks while typing. `load_spec` alone has the last word."""

from __future__ import annotations

from typing import Any, Final

from connectors.api.fields import is_duration
from connectors.spec.spec import Spec

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema of a spec as users write it: keys by their aliases, durations as text. Pure."""
    schema = _readable(Spec.model_json_schema(by_alias=True))
    return {"$schema": _DIALECT, **schema, "title": "eos pipeline"}


def _readable(node: Any) -> Any:
    """Without titles, which only repeat the keys; with defaults in the form in which they would be written."""
    if isinstance(node, list):
        return [_readable(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {key: _readable(value) for key, value in node.items() if key != "title" or not isinstance(value, str)}
    if "default" in found and is_duration(found):
        found["default"] = f"{found['default']:g}s"
    elif found.get("default") is None or isinstance(found["default"], dict):
        found.pop("default", None)  # null says nothing; a section's default is the sum of its keys'
    return found
