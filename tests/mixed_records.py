"""Records of which some are bad, in every way that there is, from a seed: always the same ones."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Mapping
from typing import Final

DDL: Final = (
    "id BIGINT NOT NULL, t TINYINT, s STRING, ok BOOLEAN, f FLOAT, x DOUBLE, m DECIMAL(10,2), w DECIMAL(38,20), "
    "ts TIMESTAMP, n TIMESTAMP_NTZ, d DATE, b BINARY, l ARRAY<INT>, ld ARRAY<DATE>, "
    "o STRUCT<i: INT NOT NULL, b: BINARY, deep: STRUCT<x: DOUBLE>>"
)

_TEXTS: Final = (
    "", "word", "ünïcode 中", "1", "-1.50", "1e3", "+2", "1.005", "99999999999", "NaN", "860", "true", "yesterday",
    "2024-02-29", "2024-02-30", "2024-2-3", "0000-01-01", "2024-01-01T10:00:00Z", "2024-01-01 10:00",
    "2024-01-01T24:00",
    "2024-01-01T10:00:00.1234567", "2024-01-01T10:00:00.5+05:30", "2024-01-01T10:00:00+99:00", "10000-01-01", "YQ==",
    "YQ", "Y=Q=", "YWJj$$$$", "a\nb", "Column(id) changed", "x" * 300, "quo'te", "couldn't parse:", " in row 7",
)  # fmt: skip
_NUMBERS: Final = (
    "0", "-0", "7", "-128", "128", "300", "2147483648", "9223372036854775807", "9223372036854775808", "1.0", "1.5",
    "-2.25", "1.005", "1e2", "1E-2", "1e39", "1e40", "1e308", "1e309", "-1e999", "123456789012345678.5", "1" * 40,
    "NaN",
    "-Infinity", "Inf", "100000000", "99999999.99", "1e-400", "1" * 400,
)  # fmt: skip
_BROKEN: Final = (
    b"", b"  ", b"\n", b"null", b"[]", b"[1]", b"text", b'"text"', b"{", b"}", b"{]}", b"\xff\xfe", b'{"id": "\xff"}',
    b'{"id": 1} {"id": 2}', b'{"id": 1}{"id": 2', b'{"id": 1}}', b'{"id": 1,}', b"{'id': 1}", b'{"id": 01}',
    b'{"id": +1}',
    b'{"id": .5}', b'{"id": 1.}', b'{"id": tru}', b'{"id": 1}\0}', b'{"id": 1 "s": ""}', b'{"s": "a\nb"}',
    b'{"s": "\\x"}',
    b'{"zz": "\\ud800"}', b'{"zz": "\\ud83d\\ude00", "id": 1}', b'{"zz": 1e999, "id": 1}', b'{"zz": Inf, "id": 1}',
    b'{"zz": NaN, "id": 1}', b'{"id": "x", oops}', b'{"s": 1, "id": 1}}', b'{"zz": {"id": 1}, "id": 2}',
    b'{"id": 1}/**/}',
    b'{"id":1,"id":1}', b'{"id":1,"s":"a","s":null}', b'{"id":1,"zz":1,"zz":2}', b'{"id":"a","id":1}',
    b' {"id":1}\r\n',
    b'{"\\u0069d": 5}', b"\xef\xbb\xbf{}", b'{"id":1,"o":{"i":1,"i":2}}', b'{"id":1}\n{"id":2}',
    b'{"zz":[[[[{}]]]],"id":3}',
    b'{"zz": "\\udc00", "id": 1}', b'{"id": 1, "s": "\\"}', b'{"id": 1, "s": "\x7f"}',
)  # fmt: skip


def _text(rng: random.Random) -> str:
    return json.dumps(rng.choice(_TEXTS), ensure_ascii=rng.random() < 0.5)


def _number(rng: random.Random) -> str:
    return rng.choice(_NUMBERS)


def _any(rng: random.Random, depth: int = 0) -> str:
    kind = rng.randrange(8 if depth < 2 else 5)
    if kind < 2:
        return _text(rng)
    if kind < 4:
        return _number(rng)
    if kind == 4:
        return rng.choice(("null", "true", "false"))
    if kind == 5:
        return f"[{', '.join(_any(rng, depth + 1) for _ in range(rng.randrange(3)))}]"
    names = rng.choices(("i", "b", "deep", "x", "zz"), k=rng.randrange(3))
    return "{" + ", ".join(f'"{name}": {_any(rng, depth + 1)}' for name in names) + "}"


_FITTING: Final[Mapping[str, Callable[[random.Random], str]]] = {
    "t": lambda rng: str(rng.randint(-128, 127)),
    "s": _text,
    "ok": lambda rng: rng.choice(("true", "false")),
    "f": lambda rng: repr(rng.uniform(-1e3, 1e3)),
    "x": lambda rng: repr(rng.uniform(-1e300, 1e300)),
    "m": lambda rng: f"{rng.randint(-(10**9), 10**9) / 100:.2f}",
    "w": lambda rng: f'"{rng.randint(0, 10**17)}.{rng.randint(0, 10**19)}"',
    "ts": lambda rng: f'"20{rng.randint(10, 99)}-01-31T12:00:{rng.randint(10, 59)}Z"',
    "n": lambda rng: f'"20{rng.randint(10, 99)}-01-31T12:00:{rng.randint(10, 59)}.125"',
    "d": lambda rng: f'"20{rng.randint(10, 99)}-02-28"',
    "b": lambda rng: json.dumps(base64.b64encode(rng.randbytes(rng.randrange(6))).decode()),
    "l": lambda rng: str([rng.randint(-9, 9) for _ in range(rng.randrange(4))]),
    "ld": lambda rng: '["2024-01-01", null]',
    "o": lambda rng: f'{{"i": {rng.randint(0, 9)}, "deep": {{"x": 1.5}}}}',
}


def good(rng: random.Random) -> bytes:
    """A record that decodes."""
    names = rng.sample(list(_FITTING), rng.randrange(len(_FITTING)))
    fields = [f'"id": {rng.randint(0, 10**12)}', *(f'"{name}": {_FITTING[name](rng)}' for name in names)]
    rng.shuffle(fields)
    return ("{" + ", ".join(fields) + "}").encode()


def odd(rng: random.Random) -> bytes | None:
    """A record that is most likely bad: broken, or with a value in a field that does not fit it."""
    kind = rng.random()
    if kind < 0.25:
        return rng.choice(_BROKEN)
    if kind < 0.28:
        return None
    names = rng.choices([*_FITTING, "id", "zz"], k=rng.randrange(1, 4))
    fields = [f'"{name}": {_any(rng)}' for name in names]
    if rng.random() < 0.8 and "id" not in names:
        fields.insert(0, '"id": 1')
    return ("{" + ", ".join(fields) + "}").encode()


def mixed(seed: int, size: int, share: float) -> list[bytes | None]:
    """So many records, of which this share is `odd`."""
    rng = random.Random(seed)
    return [odd(rng) if rng.random() < share else good(rng) for _ in range(size)]


MIXTURES: Final = ((1, 400, 0.02), (2, 400, 0.2), (3, 300, 0.5), (4, 300, 1.0), (5, 3000, 0.01), (6, 120, 1.0))
"""Seed, size and share of those whose outcome is kept in golden/mixed_records.json."""
