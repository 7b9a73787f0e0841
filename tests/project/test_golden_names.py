"""Stored names, keys and tables have the form of format 1, and a document of another format is refused by its number.

Other processes, and later versions, find by these what was stored: transactions, slots, claims, markers, segments, and
dead letters that were sent again. Head's format number covers all of them, since nothing touches a sink before it has
read head (docs/explanation/protocol.md, "Formats"). A change here is a new format: then the old form stays readable
beside it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from sqlalchemy import Dialect
from sqlalchemy.dialects import mysql, postgresql, sqlite

from connectors.dead_letters import DeadLetter
from connectors.kafka.dead_letters import Replay
from connectors.kafka.settings import Connection
from connectors.kafka.sink.ledger import _digest
from connectors.kafka.sink.markers import Claim, Marker, Markers, encode, partition_of_marker
from connectors.kafka.sink.place import Names
from connectors.kafka.witness import _witness
from connectors.log.segments import segment_name
from connectors.owner import Owner
from connectors.sql import head, slots, tables
from connectors.sql.mysql import xa
from connectors.sql.postgres import server
from connectors.sql.two_phase import permits
from eos.errors import HeadFormatError, IdentityError
from spark_jobs.query.source_offset import SourceOffset
from spark_jobs.savepoints import plan as plans
from tests.twophase.test_codec import GOLDEN
from tests.twophase_values import INCARNATION, scope
from twophase.documents import LocalDocuments
from twophase.ids import TransactionId, sink_key
from twophase.values import Committable, StartingPoint

_ID = TransactionId(scope(7, epoch=2), sink_key("warehouse"), 3, 42)
_LETTER = DeadLetter(
    "orders", None, "t", 1, 23, "2026-01-02T03:04:05.678000+00:00", b"k", b"v", [("h", b"x")], "not JSON", 7
)
_RECORD = Message(offset=5, key=b"k", value=b"v", headers=[("h", b"v")], timestamp=(1, 1_700_000_000_000))
_DIALECTS: dict[str, Dialect] = {
    "mysql": mysql.dialect(),
    "postgresql": postgresql.dialect(),  # type: ignore[no-untyped-call]
    "sqlite": sqlite.dialect(),
}
_TABLES = [*slots.LOG_TABLES, permits.PERMIT, *head.TABLES]


def test_names_and_keys() -> None:
    names = Names("daily", sink_key("warehouse"))
    replay = Replay("daily", "b:9092", {}, "again")
    key = replay._key(_LETTER)
    found = {
        "sink": sink_key("warehouse"),
        "transaction": str(_ID),
        "MySQL": xa.literal(_ID),
        "PostgreSQL": server._literal(_ID),
        "segment": segment_name(_ID),
        "Kafka claim": names.claim,
        "Kafka slot": names.slot(2),
        "Kafka marker": names.marker(INCARNATION, 2),
        "Kafka marker's partition": partition_of_marker(names.marker(INCARNATION, 2)),
        "Kafka share": _digest([Committable(_ID, 1)]),
        "dead letter": _LETTER.digest,
        "dead letter sent again": key,
        "dead letter sent again, partition": partition_of_marker(key),
        "dead letter sent again, before": replay._key_before(_LETTER),
        "witness of a record": _witness(_RECORD),
    }
    assert found == json.loads((GOLDEN / "names.json").read_text())


def test_a_witness_tells_records_apart() -> None:
    """Also where their bytes are divided between key and value in another way, or are missing."""
    others: list[dict[str, Any]] = [
        {"key": b"", "value": b"kv"},
        {"key": b"kv", "value": b""},
        {"key": None, "value": b"kv"},
        {"key": b"kv", "value": None},
        {"key": b"k", "value": b"v"},
        {"key": None, "value": None},
        {"key": b"-", "value": None},
        {"key": b"k", "value": b"v", "timestamp": (1, 1)},
        {"key": b"k", "value": b"v", "offset": 6},
    ]
    usual: dict[str, Any] = {"offset": 5, "timestamp": (1, 0)}
    found = [_witness(Message(**(usual | each))) for each in others]
    assert len(set(found)) == len(others)


def test_documents_carry_no_number_in_format_1_so_that_the_version_before_can_read_them() -> None:
    offset = SourceOffset("orders", {"t/0": 5}, StartingPoint({"t/0": 1}, {"t": "id"}))
    found = {
        "claim": encode(Claim(Owner(INCARNATION, 2), 4).record()),
        "marker": encode(Marker(7, "56915d98", "a1", 12).record()),
        "dead letter sent again": encode({"checkpoint_id": 7}),
        "offset of a source": json.dumps(offset.to_json()).encode(),
    }
    assert {name: each.decode() for name, each in found.items()} == json.loads(
        (GOLDEN / "documents-2.json").read_text()
    )
    assert Marker(**json.loads(found["marker"])) == Marker(7, "56915d98", "a1", 12)  # as the version before reads it


@pytest.mark.parametrize("golden", ["documents.json", "documents-2.json"])
def test_documents_are_read_with_and_without_their_number(golden: str) -> None:
    stored = json.loads((GOLDEN / golden).read_text())
    markers = Markers(Connection("127.0.0.1:1", "eos"), "_eos")
    records = {
        name: markers._parsed(name, stored[name].encode()) for name in ("claim", "marker", "dead letter sent again")
    }
    assert records["claim"] == Claim(Owner(INCARNATION, 2), 4).record()
    assert Marker(**records["marker"]) == Marker(7, "56915d98", "a1", 12)
    assert records["dead letter sent again"] == {"checkpoint_id": 7}
    offset = SourceOffset("orders", {"t/0": 5}, StartingPoint({"t/0": 1}, {"t": "id"}))
    assert SourceOffset.from_json(json.loads(stored["offset of a source"])) == offset


@pytest.mark.parametrize("server", _DIALECTS)
def test_tables(server: str) -> None:
    assert tables.ddl(_TABLES, _DIALECTS[server]) == (GOLDEN / "tables" / f"{server}.sql").read_text().rstrip("\n")


def test_an_offset_of_another_format_is_refused() -> None:
    offset = SourceOffset("orders", {"t/0": 5}, StartingPoint({"t/0": 1}, {"t": "id"}))
    document = offset.to_json()
    assert SourceOffset.from_json({**document, "format": 1}) == SourceOffset.from_json(document) == offset
    with pytest.raises(HeadFormatError, match=r"the offset of source orders in Spark's plan has format 3; .* reads"):
        SourceOffset.from_json({**document, "format": 3})


def test_an_offset_with_witnesses_is_of_format_2() -> None:
    began = StartingPoint({"t/0": 1}, {"t": "id"})
    offset = SourceOffset("orders", {"t/0": 5}, began, {"t/0": "4:1700000000000:7ab7afa7af331519"})
    stored = (GOLDEN / "offset-format-2.json").read_text().rstrip("\n")
    assert json.dumps(offset.to_json()) == stored
    assert SourceOffset.from_json(json.loads(stored)) == offset


def test_a_plan_of_a_query_of_another_format_is_refused(tmp_path: Path) -> None:
    plan = plans.Plan(("orders",), (plans.Operator("count", "Aggregate", "int"),), {}, "spec")
    plans.keep(LocalDocuments(tmp_path), INCARNATION, plan)
    (path,) = (tmp_path / "plans").iterdir()
    assert plans.kept(LocalDocuments(tmp_path), INCARNATION) == plan
    document = json.loads(path.read_text())
    path.write_text(json.dumps(plan.to_json()))  # of a version that wrote no number
    assert plans.kept(LocalDocuments(tmp_path), INCARNATION) == plan
    path.write_text("[]")  # damaged
    assert plans.kept(LocalDocuments(tmp_path), INCARNATION) is None
    path.write_text(json.dumps({**document, "format": 2}))
    with pytest.raises(HeadFormatError, match=r"plans/.*\.json has format 2; this version reads format 1"):
        plans.kept(LocalDocuments(tmp_path), INCARNATION)


def test_a_marker_of_another_format_is_refused() -> None:
    markers = Markers(Connection("127.0.0.1:1", "eos"), "_eos")
    assert markers._parsed("k", b'{"applied":3}') == markers._parsed("k", b'{"applied":3,"format":1}') == {"applied": 3}
    with pytest.raises(HeadFormatError, match="the record 'k' of topic _eos has format 2; this version reads format 1"):
        markers._parsed("k", b'{"applied":3,"format":2}')
    with pytest.raises(IdentityError, match="not one of ours"):
        markers._parsed("k", b"[]")
