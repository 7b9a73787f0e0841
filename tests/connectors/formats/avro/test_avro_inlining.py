"""A schema that refers to others, as one text."""

from __future__ import annotations

import json

import pytest

from connectors.formats.avro.inlining import inlined
from connectors.formats.avro.nodes import Schema, parse_schema
from eos.errors import SpecError

_HASH = '{"type": "fixed", "name": "t.Hash", "size": 2}'
_PART = '{"type": "record", "name": "Part", "namespace": "t", "fields": [{"name": "hash", "type": "Hash"}]}'
_PLAIN = '{"type": "enum", "name": "Plain", "symbols": ["a"]}'
_WHOLE = json.dumps(
    {
        "type": "record",
        "name": "u.Whole",
        "fields": [
            {"name": "parts", "type": {"type": "array", "items": ["null", "t.Part"]}},
            {"name": "part", "type": "t.Part"},
            {"name": "hashes", "type": {"type": "map", "values": "t.Hash"}},
        ],
    }
)


def _meaning(schema: Schema) -> object:
    """Types by name, and the type that the schema is of."""
    return schema.follow(schema.root), schema.named


def test_the_definition_stands_at_the_first_use() -> None:
    references = (_HASH, _PART)
    one = inlined(_WHOLE, references)
    assert _meaning(parse_schema(one)) == _meaning(parse_schema(_WHOLE, references))
    assert json.loads(one)["fields"][1] == {"name": "part", "type": "t.Part"}


def test_a_definition_without_a_namespace_does_not_get_the_one_around_it() -> None:
    text = '{"type": "record", "name": "R", "fields": [{"name": "p", "type": "Plain"}]}'
    assert _meaning(parse_schema(inlined(text, (_PLAIN,)))) == _meaning(parse_schema(text, (_PLAIN,)))


def test_a_schema_without_references_stays_as_it_is() -> None:
    for text in (_HASH, '"string"', '["null", {"type": "long", "logicalType": "timestamp-millis"}]'):
        assert json.loads(inlined(text, ())) == json.loads(text)


@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="not an Avro schema"):
        inlined(text, ())
