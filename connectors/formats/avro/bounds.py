"""Bounds of the schemas that a registry may give. Records of a schema beyond them are bad.

They bound the time and the memory for a schema, and the depth of each recursion over it. So the outcome of a record
does not depend on the size of a stack.
"""

from __future__ import annotations

from typing import Any, Final

from eos.errors import SpecError

DEEPEST: Final = 64
"""Levels of types in types, of the columns and of values that are skipped."""
MOST_SKIPPED: Final = 10_000
"""Parts of the values that are skipped in one record."""
_MOST_PARTS: Final = 50_000
"""Types, fields, branches and symbols of a schema."""
_DEEPEST_JSON: Final = 200
"""Levels of objects and lists in a schema's JSON. A record in a record takes three."""


def check_bounds(schema: Any) -> None:
    """Raise SpecError for the JSON of a schema that is too large, or nested too deeply. Takes any JSON."""
    left, parts = [(schema, 0)], 0
    while left:
        node, depth = left.pop()
        if depth > _DEEPEST_JSON:
            raise SpecError("the Avro schema is nested too deeply", remedy="nest its types less deeply")
        inner = list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else []
        parts += len(node) if isinstance(node, list) else 1
        if parts > _MOST_PARTS:
            raise SpecError(f"the Avro schema has more than {_MOST_PARTS:,} parts", remedy="divide its records")
        left += [(each, depth + 1) for each in inner if isinstance(each, dict | list)]
