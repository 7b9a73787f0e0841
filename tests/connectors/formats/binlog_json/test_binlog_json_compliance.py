"""The suite for formats, and the entries of specs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from connectors.api.decoding import ROW, Format
from connectors.kafka.source import KafkaSource
from connectors.registry import build_source
from connectors.spec import load_spec
from connectors.testing.formats import FormatCompliance
from eos.errors import SpecError
from tests.connectors.formats.binlog_json.written import canal, canal_format, maxwell, maxwell_format


class TestMaxwell(FormatCompliance):
    column = "id"
    most_rows = 2

    def make_format(self) -> Format:
        return maxwell_format("id BIGINT NOT NULL, name STRING")

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        return [maxwell("insert", {"id": number}) for number in numbers]

    def encode_several(self, groups: Sequence[Sequence[int]]) -> Sequence[bytes]:
        return [self._document(group) for group in groups]

    def _document(self, group: Sequence[int]) -> bytes:
        """One row, or the two of a changed key."""
        old = {"id": group[0]} if len(group) == 2 else None
        return maxwell("update", {"id": group[-1]}, old)

    def bad_values(self) -> Sequence[bytes]:
        return [b"{", maxwell("insert"), maxwell("insert", {"id": "x"}), maxwell("nonsense", {"id": 1})]


class TestCanal(FormatCompliance):
    column = "id"

    def make_format(self) -> Format:
        return canal_format("id BIGINT NOT NULL, name STRING")

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        return [canal("INSERT", [{"id": str(number)}]) for number in numbers]

    def encode_several(self, groups: Sequence[Sequence[int]]) -> Sequence[bytes]:
        return [canal("INSERT", [{"id": str(number)} for number in group]) for group in groups]

    def bad_values(self) -> Sequence[bytes]:
        return [b"{", canal("INSERT", []), canal("INSERT", [{"id": "1"}, {"id": "x"}]), canal("nonsense", None)]


SPEC = """\
pipeline: p
checkpoint: {{location: state}}
sources:
  - {{name: a, connector: kafka, bootstrap_servers: a, topics: [t], format: {{{}}}}}
sinks: [{{name: s, from: a, connector: sqlite, path: t.db, table: t, commit: upsert, key: [id], deleted: _deleted}}]
"""
MAXWELL = "type: maxwell, table: shop.orders, schema: 'id BIGINT, name STRING', key: [id]"
CANAL = MAXWELL.replace("maxwell", "canal")


def _load(folder: Path, form: str) -> Format:
    path = folder / "spec.yaml"
    path.write_text(SPEC.format(form))
    spec = load_spec(path, {})
    assert spec.context.several_rows
    source = build_source(spec.sources[0])
    assert isinstance(source, KafkaSource)
    return source.format


@pytest.mark.parametrize("form", [MAXWELL, CANAL, f"{CANAL}, truncate: skip"])
def test_a_spec_builds_the_format(tmp_path: Path, form: str) -> None:
    names = ["id", "name", "_op", "_deleted", "_position", "_source_ts", ROW]
    assert _load(tmp_path, form).schema.names == names


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (MAXWELL.replace("shop.orders", "orders"), "'orders' is not database.table"),
        (MAXWELL.replace("[id]", "[no]"), "column 'no' is not in the schema"),
        (MAXWELL.replace("key: [id]", "key: []"), "key"),
        (MAXWELL.replace(", key: [id]", ""), "key"),
        (MAXWELL.replace("name STRING", "_row INT"), "column _row is one that each change has"),
        (MAXWELL.replace("name STRING", "_op STRING"), "column _op is one that each change has"),
        (MAXWELL.replace("id BIGINT", "id ARRAY<INT>"), "column 'id' is nested"),
        (CANAL.replace("name STRING", "at TIMESTAMP"), "Canal writes times without their zone"),
        (CANAL.replace("name STRING", "v ARRAY<INT>"), "column v is ARRAY<INT>, not a text's"),
        (f"{MAXWELL}, truncate: skip", "truncate"),
    ],
)
def test_a_wrong_spec_is_refused(tmp_path: Path, form: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        _load(tmp_path, form)
    assert said in str(caught.value)
