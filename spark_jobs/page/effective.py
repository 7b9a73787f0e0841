"""The spec as it is in force: with every default, without secrets, as YAML for people."""

from __future__ import annotations

import io
from typing import Any, Final

from pydantic import BaseModel
from ruamel.yaml import YAML

from connectors.api.masking import MASK, is_secret_name
from connectors.spec import Spec
from spark_jobs.page.masked import Mask

_FIRST: Final = ("version", "pipeline", "name", "connector", "type", "strategy", "from")  # what an entry is


def effective(spec: Spec) -> str:
    """Made of the values and not of the file, where comments, or another way to write a text, could hide a secret."""
    out = io.StringIO()
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 110
    yaml.dump(_plain(spec, spec.mask), out)
    return out.getvalue()


def _plain(value: Any, mask: Mask) -> Any:
    """As it would be written; what is empty is left out."""
    match value:
        case BaseModel():
            fields = type(value).model_fields
            found = {field.alias or name: _field(name, getattr(value, name), mask) for name, field in fields.items()}
            found |= {key: MASK for key, each in found.items() if each is not None and is_secret_name(key)}
            ordered = sorted(found, key=lambda key: _FIRST.index(key) if key in _FIRST else len(_FIRST))
            return {key: found[key] for key in ordered if found[key] not in (None, [], {})}
        case dict():
            return {
                mask(str(key)): MASK if is_secret_name(str(key)) else _plain(each, mask) for key, each in value.items()
            }
        case list() | tuple():
            return [_plain(each, mask) for each in value]
        case bool() | None:
            return value
        case int() | float():
            return value if mask(str(value)) == str(value) else MASK
        case _:
            return mask(str(value))


def _field(name: str, value: Any, mask: Mask) -> Any:
    """Its unit stands in its name, and in the spec behind the number."""
    if isinstance(value, (int, float)) and name.endswith("_s"):
        return f"{value:g}s"
    if isinstance(value, int) and name.endswith("_bytes"):
        return f"{value}B"
    return _plain(value, mask)
