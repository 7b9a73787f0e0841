"""The tokens of a batch of JSON texts: quotes, brackets, colons and commas outside of strings, found by numpy.

It checks no more than the callers need: that strings end, that brackets match, and that no text reaches into the next.
Whether a text is JSON otherwise is left to the parser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from connectors.formats.spans import Bytes, Flags, Ints

QUOTE, COMMA, COLON, OPEN_LIST, CLOSE_LIST, OPEN, CLOSE = b'",:[]{}'
_BACKSLASH: Final = ord("\\")
_IS_TOKEN: Final = np.zeros(256, np.bool_)
_IS_TOKEN[list(b'",:[]{}')] = True
_STEP: Final = np.zeros(256, np.int64)
_STEP[[OPEN, OPEN_LIST]], _STEP[[CLOSE, CLOSE_LIST]] = 1, -1


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens in the order of the text. Of the two quotes of a string, the first is one."""

    text: Bytes
    at: Ints  # positions
    kind: Bytes  # the byte itself
    string_end: Ints  # position of the closing quote, of tokens that begin a string
    depth: Ints  # brackets around the token
    parent: Ints  # index of the token of the bracket around it; -1: none
    closing: Ints  # index of the closing bracket, of opening brackets

    def gap_is_blank(self, start: Ints, end: Ints) -> Flags:
        """Return whether the bytes of each of these spans are white space."""
        wide = end > start
        if not wide.any():
            return ~wide
        filled = np.zeros(len(self.text) + 1, np.int64 if len(self.text) >= 2**31 else np.int32)
        np.cumsum(~_IS_SPACE[self.text], out=filled[1:])
        blank: Flags = filled[end] == filled[start]
        return blank


_IS_SPACE: Final = np.zeros(256, np.bool_)
_IS_SPACE[list(b" \t\n\r")] = True


def tokens_of(text: Bytes, ends: Ints) -> Tokens:
    """Return the tokens of texts that are joined. `ends`: where each text ends.

    Raises ValueError if one of them has a string that does not end, or brackets that do not match.
    """
    found = np.flatnonzero(_IS_TOKEN[text])
    kind = text[found]
    is_quote = (kind == QUOTE) & ~_escaped(text, found)
    inside = np.cumsum(is_quote) & 1
    opening = is_quote & (inside == 1)
    kept = opening | ((kind != QUOTE) & (inside == 0))
    if inside[np.searchsorted(found, ends) - 1].any() or len(found) == 0:
        raise ValueError("a string that does not end")
    closing_quotes = found[is_quote & (inside == 0)]
    at, kind = found[kept], kind[kept]
    string_end = np.full(len(at), -1, np.int64)
    string_end[kind == QUOTE] = closing_quotes
    step = _STEP[kind]
    after = np.cumsum(step)
    if (after < 0).any() or after[np.searchsorted(at, ends) - 1].any():
        raise ValueError("brackets that do not match")
    depth = np.where(step == 1, after - 1, after)
    parent, closing = _nesting(kind, step, depth)
    return Tokens(text, at, kind, string_end, depth, parent, closing)


def _escaped(text: Bytes, found: Ints) -> Flags:
    """Return which of these bytes are behind an odd number of backslashes."""
    slashes = np.flatnonzero(text == _BACKSLASH)
    if len(slashes) == 0:
        return np.zeros(len(found), np.bool_)
    begins = np.concatenate(([True], np.diff(slashes) != 1))
    first = np.maximum.accumulate(np.where(begins, np.arange(len(slashes)), 0))
    is_odd = (np.arange(len(slashes)) - first) % 2 == 0
    last = np.concatenate((begins[1:], [True]))
    escaped: Flags = np.isin(found, slashes[is_odd & last] + 1)
    return escaped


def _nesting(kind: Bytes, step: Ints, depth: Ints) -> tuple[Ints, Ints]:
    """Return the index of the bracket around each token, and of the bracket that closes each opening one."""
    count = len(kind)
    index = np.arange(count)
    openers = index[step == 1]
    keys = (depth[openers] + 1) * count + openers  # ascending once sorted: by depth inside, then by place
    order = np.argsort(keys, kind="stable")
    keys, openers = keys[order], openers[order]
    parent = np.full(count, -1, np.int64)
    inner = depth > 0
    parent[inner] = openers[np.searchsorted(keys, depth[inner] * count + index[inner]) - 1]
    closers = index[step == -1]
    opened = openers[np.searchsorted(keys, (depth[closers] + 1) * count + closers) - 1]
    if ((kind[opened] == OPEN) != (kind[closers] == CLOSE)).any():
        raise ValueError("brackets that do not match")
    closing = np.full(count, -1, np.int64)
    closing[opened] = closers
    return parent, closing
