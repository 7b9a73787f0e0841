"""JSON texts of which a server would lose a part: PostgreSQL's JSONB and MySQL's JSON store a form of their own.

Two JSON texts have the same value if they differ in white space, in the order of names, or in how a number is written.
A text that gives one object two equal names loses the value of one of them (RFC 8259, section 4, wants distinct names).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_QUOTE, _COLON, _BACKSLASH = b'":\\'
_SPACES: Final = np.zeros(256, np.bool_)
_SPACES[list(b" \t\n\r")] = True
_WIDTH: Final = 8  # bytes compared at each end of a name
_FIRST: Final = np.array([256**length - 1 for length in range(_WIDTH + 1)], np.uint64)
_LAST: Final = np.array([(256**length - 1) << 8 * (_WIDTH - length) for length in range(_WIDTH + 1)], np.uint64)
_PRIMES: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)
_LONG_NUMBER: Final = r"[0-9][0-9.]{15,}|[0-9][eE][+-]?[0-9]{2,}"  # any other number is a double without loss
_NUL: Final = r"(^|[^\\])(\\\\)*\\u0000"


def check_names(texts: pa.Array) -> None:
    """Raise ArrowInvalid if an object in one of the texts has two equal names."""
    _check(texts, _may_repeat_names(texts), _DECODER)


def check_names_and_doubles(texts: pa.Array) -> None:
    """As check_names. Raise ArrowInvalid also for a number that is neither a double nor an integer of 64 bits."""
    long = pc.fill_null(pc.match_substring_regex(texts, _LONG_NUMBER), False).to_numpy(zero_copy_only=False)
    _check(texts, _may_repeat_names(texts) | long, _DOUBLES_DECODER)


def check_no_nul(texts: pa.Array) -> None:
    """Raise ArrowInvalid if one of the texts has the escape of U+0000."""
    if pc.any(pc.match_substring(texts, "\\u0000")).as_py() and pc.any(pc.match_substring_regex(texts, _NUL)).as_py():
        raise pa.ArrowInvalid("U+0000, which a JSONB cannot store")


def _may_repeat_names(texts: pa.Array) -> np.ndarray:
    """Return for each text whether two of its names may be equal: without a loop over rows, and wrong on one side only.

    A name ends with a quote and a colon. Two names are told apart by their length and their first and last bytes. A
    text with an escape, or with white space before a colon, may hide a name: it counts as a suspect.
    """
    start, size = texts.offset, len(texts)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[start : start + size + 1]
    suspects = np.zeros(size, np.bool_)
    if data is None or ends[0] == ends[-1]:
        return suspects
    raw = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    ends = ends - ends[0]
    colons = np.flatnonzero(raw == _COLON)
    before = raw[colons - 1]
    hidden = np.concatenate((colons[_SPACES[before]], np.flatnonzero(raw == _BACKSLASH)))
    suspects[_owners(ends, hidden)] = True
    closing = colons[(before == _QUOTE) & (colons > 1)] - 1
    if not len(closing):
        return suspects
    quotes = np.flatnonzero(raw == _QUOTE)
    at = np.searchsorted(quotes, closing)
    opening = quotes[np.maximum(at, 1) - 1]
    lengths = np.maximum(closing - opening - 1, 0)
    owners = _owners(ends, closing)
    marks = _marks(raw, opening + 1, closing, lengths, owners)
    ordered = np.sort(marks)
    equal = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(equal):
        suspects[owners[np.isin(marks, equal)]] = True
    return suspects


def _owners(ends: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return the index of the text that each byte belongs to."""
    return np.searchsorted(ends, positions, side="right") - 1


def _marks(
    raw: np.ndarray, begins: np.ndarray, closing: np.ndarray, lengths: np.ndarray, owners: np.ndarray
) -> np.ndarray:
    """Return a number for each name, equal where text and name are; it may be equal elsewhere, too."""
    around = np.zeros(_WIDTH, np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(np.concatenate((around, raw, around)), _WIDTH)
    short = np.minimum(lengths, _WIDTH)
    first = windows[begins + _WIDTH].view("<u8")[:, 0] & _FIRST[short]
    last = windows[closing].view("<u8")[:, 0] & _LAST[short]
    parts = (first, last, lengths.astype(np.uint64), owners.astype(np.uint64))
    mixed = np.zeros(len(begins), np.uint64)
    for part, prime in zip(parts, _PRIMES, strict=True):
        mixed = (mixed ^ part) * prime
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _check(texts: pa.Array, suspects: np.ndarray, decoder: json.JSONDecoder) -> None:
    if not suspects.any():
        return
    for text in texts.filter(pa.array(suspects)).cast(pa.binary()).drop_null().to_pylist():
        try:
            decoder.decode(text.decode())
        except _LossError as loss:
            raise pa.ArrowInvalid(str(loss)) from None
        except RecursionError:
            raise pa.ArrowInvalid("JSON that is nested too deeply to look for equal names") from None
        except ValueError as error:
            raise pa.ArrowInvalid(f"not JSON: {error}") from None


class _LossError(Exception):
    """A part that the server would lose."""


def _distinct(pairs: Sequence[tuple[str, object]]) -> None:
    if len({name for name, _ in pairs}) == len(pairs):
        return
    before: set[str] = set()
    for name, _ in pairs:
        if name in before:
            raise _LossError(f"an object names {name!r} twice, of which the column keeps one")
        before.add(name)


def _is_double(text: str) -> None:
    if Decimal(repr(float(text))) != Decimal(text):
        raise _LossError(f"the number {text} has more digits than a double keeps")


def _is_integer_or_double(text: str) -> None:
    if not -(2**63) <= Decimal(text) < 2**64:
        _is_double(text)


def _pass(text: str) -> None:
    """Take the number as it is: without it Python would read each number, and refuse one of 4,301 digits."""


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def _decoder(whole: Callable[[str], None], broken: Callable[[str], None]) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_distinct, parse_int=whole, parse_float=broken, parse_constant=_refuse_constant
    )


_DECODER: Final = _decoder(_pass, _pass)
_DOUBLES_DECODER: Final = _decoder(_is_integer_or_double, _is_double)
