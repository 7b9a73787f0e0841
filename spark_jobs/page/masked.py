"""JSON in which no secret of any served pipeline stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fastapi.responses import JSONResponse

Mask = Callable[[str], str]


def masked(value: Any, mask: Mask) -> Any:
    """Plain data with every text masked, keys too."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {mask(str(key)): masked(each, mask) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(each, mask) for each in value]
    return value


def masking(mask: Mask) -> type[JSONResponse]:
    """The class of every JSON answer of one server."""

    class Masked(JSONResponse):
        """Masks what it is given."""

        def render(self, content: Any) -> bytes:
            return json.dumps(masked(content, mask), ensure_ascii=False, allow_nan=False).encode()

    return Masked
