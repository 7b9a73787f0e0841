"""The behaviours of every format, of both encodings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from connectors.api.decoding import Format
from connectors.formats.avro.avro_format import SINGLE_OBJECT, AvroFormat
from connectors.formats.avro.nodes import parse_schema
from connectors.testing.formats import FormatCompliance
from tests.connectors.formats.avro.written import encode, record

_SCHEMA: Final = record(("n", "long"), ("word", ["null", "string"]))
_TEXT: Final = json.dumps(_SCHEMA)
_OLDER: Final = record(("unread", "string"), ("n", "int"))


class TestPlainAvro(FormatCompliance):
    """Records without a header."""

    def make_format(self) -> Format:
        return AvroFormat(_TEXT, (_TEXT,))

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        begin = encode("long", 0)
        assert begin == b"\0"
        return [encode("long", n) + encode(["null", "string"], None if n % 3 else f"w{n}") for n in numbers]

    def bad_values(self) -> Sequence[bytes]:
        return [b"", b"\x80", b"\0\x04", b"\0\x02\x02\xff", b"\0\0\0"]


class TestSingleObjectAvro(FormatCompliance):
    """Two writers by turns."""

    def make_format(self) -> Format:
        return AvroFormat(_TEXT_WITH_DEFAULT, (_TEXT_WITH_DEFAULT, json.dumps(_OLDER)), SINGLE_OBJECT)

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        newer, older = (
            b"\xc3\x01" + parse_schema(text).fingerprint for text in (_TEXT_WITH_DEFAULT, json.dumps(_OLDER))
        )
        return [newer + encode("long", n) + b"\0" if n % 2 else older + b"\x02x" + encode("int", n) for n in numbers]

    def bad_values(self) -> Sequence[bytes]:
        known = b"\xc3\x01" + parse_schema(_TEXT_WITH_DEFAULT).fingerprint
        return [b"", b"\xc3\x01", b"\xc3\x01unknown!\0\0", b"\xc3\x02" + known[2:] + b"\0\0", known, known + b"\0\0\0"]


_TEXT_WITH_DEFAULT: Final = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [{"name": "n", "type": "long"}, {"name": "word", "type": ["null", "string"], "default": None}],
    }
)
