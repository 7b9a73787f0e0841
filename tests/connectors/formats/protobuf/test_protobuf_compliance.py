"""The behaviours of every format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from connectors.api.decoding import Format
from connectors.testing.formats import FormatCompliance
from tests.connectors.formats.protobuf.written import class_of, reader_of

_TEXT: Final = 'syntax = "proto3"; package t; message All { optional int64 n = 1; optional string word = 2; }'


class TestPlainProtobuf(FormatCompliance):
    """Records without a header."""

    def make_format(self) -> Format:
        return reader_of(_TEXT)

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        kind: Any = class_of(_TEXT)
        return [kind(n=n, word=f"w{n}" if n % 3 else None).SerializeToString() for n in numbers]

    def bad_values(self) -> Sequence[bytes]:
        return [b"\x08", b"\x80", b"\x12\x02a", b"\x12\x01\xff", b"\x0d\0\0\0\0", b"\0", b"\x0c"]
