"""What stands in a stored file of ours, or in our topic, and is none of ours: an error with a remedy, never a crash."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from connectors.kafka.settings import Connection
from connectors.kafka.sink.markers import Markers
from connectors.kafka.witness import check_witnesses
from eos.errors import ConnectorError, HeadFormatError, IdentityError
from spark_jobs.adapters.kafka_format import _decoded
from spark_jobs.query.spark_log import planned
from spark_jobs.savepoints.manifest import decode
from spark_jobs.savepoints.plan import kept
from twophase.codec import decode_committable, decode_head, decode_record
from twophase.documents import LocalDocuments
from twophase.local_head import LocalHead
from twophase.requests import Channel

DEEP = b"[" * 200_000
REQUEST: Mapping[str, object] = {
    "format": 1,
    "id": "1700000000000-00000000",
    "kind": "stop",
    "arguments": {},
    "asked_at": 1.0,
    "expires_at": 9e12,
    "asked_by": "somebody",
}


def markers_with(value: bytes) -> Markers:
    """A topic that holds this value, read already."""

    class Read(Markers):
        def _find(self, partition: int, keys: Any) -> dict[str, Mapping[str, Any]]:
            return {key: self._parsed(key, value) for key in keys}

    return Read(Connection("nowhere:1", "nobody"), "eos-markers")


READERS: dict[str, Callable[[bytes], object]] = {
    "head": decode_head,
    "record": decode_record,
    "committable": decode_committable,
    "first offsets": lambda content: _decoded(content, "/location"),
    "savepoint": lambda content: decode(content, Path("/savepoint")),
    "offsets": lambda content: planned(f"v1\n{{}}\n{content.decode()}", ["s"]),
    "marker": lambda content: markers_with(content).markers(["key"]),
    "claim": lambda content: markers_with(content).claim("key"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("content", [DEEP, b"[]", b"7", b'"x"', b"null", b"{}"])
def test_what_is_none_of_ours_is_refused_with_a_remedy(reader: str, content: bytes) -> None:
    with pytest.raises(ConnectorError) as caught:
        READERS[reader](content)
    assert caught.value.remedy


@pytest.mark.parametrize("source", ["1", '["s"]', "null"])
def test_a_source_of_another_type_is_refused(source: str) -> None:
    with pytest.raises(IdentityError):
        planned(f'v1\n{{}}\n{{"source": {source}, "ends": {{}}}}', ["s"])


@pytest.mark.parametrize("value", [{"applied": 1, "more": 1}, {"of": "x"}, {"incarnation": "a", "epoch": "x"}])
def test_a_record_of_the_topic_with_other_fields_is_refused(value: dict[str, object]) -> None:
    found = markers_with(json.dumps(value).encode())
    for read in (lambda: found.markers(["key"]), lambda: found.claim("key")):
        with pytest.raises(IdentityError, match="not one of ours"):
            cast("Callable[[], object]", read)()


@pytest.mark.parametrize(
    "content",
    [
        DEEP,
        *(
            json.dumps({**REQUEST, key: odd}).encode()
            for key, odd in (("expires_at", "9"), ("kind", ["stop"]), ("arguments", 7), ("format", True))
        ),
    ],
)
def test_a_damaged_request_is_answered_and_others_are_heard(tmp_path: Path, content: bytes) -> None:
    channel = Channel(LocalHead(tmp_path).blobs("requests"))
    channel.blobs.put(f"{REQUEST['id']}.request.json", content)
    other = channel.ask("stop", {}, asked_by="somebody else", patience_s=60)
    assert channel.pending() == (other,)
    answer = channel.blobs.get(f"{REQUEST['id']}.answer.json")
    assert answer is not None
    assert not json.loads(answer)["ok"]


@pytest.mark.parametrize(
    "witness",
    [
        *("", "5", "x:1:0123456789abcdef", "5:1:0123456789ABCDEF", "-1:1:0123456789abcdef", 7, None),
        f"{2**63 - 1}:1:0123456789abcdef",
    ],
)
def test_a_damaged_witness_is_refused_before_anything_is_asked(witness: Any) -> None:
    with pytest.raises(HeadFormatError, match="the witness of t/0 in Spark's plan is damaged"):
        check_witnesses(Connection("nowhere:1", "nobody"), {"t/0": witness})


@pytest.mark.parametrize("split", ["t", "t/", "t/x", "t/0/0", "t/-1", "/0"])
def test_a_witness_of_no_split_is_damaged(split: str) -> None:
    with pytest.raises(HeadFormatError, match="is damaged"):
        check_witnesses(Connection("nowhere:1", "nobody"), {split: "5:1:0123456789abcdef"})


def test_a_damaged_plan_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "plans" / "life.json"
    path.parent.mkdir()
    path.write_bytes(DEEP)
    assert kept(LocalDocuments(tmp_path), "life") is None
    path.write_text('{"format": 2}')
    with pytest.raises(HeadFormatError, match="has format 2"):
        kept(LocalDocuments(tmp_path), "life")
