"""The place in a record where it stops being JSON, found by Python's parser: messages name it.

Called for the few bad records that are explained, never for good ones.
"""

from __future__ import annotations

import json
from typing import Final

_BEFORE: Final = 12  # characters that are shown before the place
_BEHIND: Final = 20


def json_place(text: str) -> str:
    """Return "at character 9, behind …", or an empty text if Python's parser accepts the record.

    Python accepts more than Arrow does, such as NaN and halves of surrogate pairs.
    """
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return _described(text, error)
    except (ValueError, RecursionError):  # a number of thousands of digits; very deep nesting
        return ""
    return ""


def _described(text: str, error: json.JSONDecodeError) -> str:
    at = error.pos
    if not text[at:].strip():
        return f"at its end, character {len(text.rstrip()) + 1}: is it cut off?"
    where = f"line {error.lineno}, column {error.colno}" if "\n" in text[:at] else f"character {at + 1}"
    behind = text[at : at + _BEHIND]
    if at == 0:
        return f"at {where}: {behind!r}"
    return f"at {where}: {behind!r} behind {text[max(0, at - _BEFORE) : at]!r}"
