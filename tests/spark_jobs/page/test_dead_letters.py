"""Dead letters of the page: bounded, without contents in the list, for the token that steers, and resent each once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.dead_letters import DeadLetter, newest
from connectors.spec import SinkEntry, Spec, load_spec
from spark_jobs.observe.history.store import History
from spark_jobs.operations import dead_letters as operations
from spark_jobs.page.letter_box import MOST
from spark_jobs.page.opening import PageOptions, opened
from tests.page_history import INCARNATION, SECRET, no_sinks, put_letters, spec_of
from tests.page_http import TOKEN, Client
from twophase.codec import encode_head
from twophase.head_value import HeadValue
from twophase.local_head import LocalHead

READ_TOKEN = "a-token-that-reads-only"
OF = "/api/v1/pipelines/orders/dead-letters"
HOSTILE = "<script>alert(1)</script> \x1b[31m \u202egnp.exe"
LETTER = DeadLetter(
    "orders", None, "orders", 0, 17, "2026-11-26T10:00:00+00:00", b"k", b"{bad", [("trace", b"abc")], "no JSON", 5
)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    found = spec_of(tmp_path)
    put_letters(
        found,
        [
            LETTER,
            replace(LETTER, offset=18, key=None, value=b"\xff\x00" * 4_000, headers=[], checkpoint_id=6),
            replace(LETTER, sink="warehouse", offset=19, value=HOSTILE.encode(), error=f"too long: {HOSTILE}"),
            replace(LETTER, sink="warehouse", offset=19, value=HOSTILE.encode(), error="another row of the record"),
            replace(LETTER, source=None, sink="archive", offset=None, value=f"pw {SECRET}".encode(), checkpoint_id=9),
        ],
    )
    return found


@pytest.fixture
def client(spec: Spec) -> Iterator[Client]:
    with opened([spec], PageOptions(port=0, token=TOKEN, read_token=READ_TOKEN), no_sinks) as page:
        yield Client(page.url)


def ids(client: Client, query: str = "") -> list[str]:
    return [each["id"] for each in client.get(f"{OF}{query}").json["letters"]]


def test_the_list_is_newest_first_and_has_no_contents(client: Client) -> None:
    reply = client.get(OF)
    found = reply.json
    assert [each["checkpoint_id"] for each in found["letters"]] == [9, 6, 5, 5, 5]
    assert (found["read"], found["most"]) == (5, MOST)
    assert found["where"].startswith("sqlite: ")
    assert [each["can_replay"] for each in found["letters"]] == [False, True, True, True, True]
    assert [each["value_bytes"] for each in found["letters"]][1] == 8_000
    assert found["letters"][1]["key_bytes"] is None
    assert b"{bad" not in reply.body
    assert b"pw " not in reply.body


def test_filters(client: Client) -> None:
    assert len(ids(client, "?sink=warehouse")) == 2
    assert len(ids(client, "?source=orders")) == 4
    assert len(ids(client, "?text=ORDERS/0/18")) == 1
    assert len(ids(client, "?text=No%20json")) == 3
    assert ids(client, "?sink=nobody") == []


def test_contents_are_text_or_digits_with_escapes_and_without_secrets(client: Client) -> None:
    unknown, binary, hostile, other, plain = ids(client)
    found = client.get(f"{OF}/{plain}").json
    assert found["value"] == {"bytes": 4, "text": "{bad", "hex": None, "is_cut": False}
    assert found["headers"] == [{"name": "trace", "value": {"bytes": 3, "text": "abc", "hex": None, "is_cut": False}}]
    found = client.get(f"{OF}/{binary}").json
    assert (found["key"], found["headers"], found["value"]["text"], found["value"]["is_cut"]) == (None, [], None, True)
    assert found["value"]["hex"].startswith("ff00ff00 ff00ff00")
    for letter in (hostile, other):
        shown = client.get(f"{OF}/{letter}").json["value"]["text"]
        assert shown == "<script>alert(1)</script> \\x1b[31m \\u202egnp.exe"
    assert "\x1b" not in str(client.get(OF).json)
    assert "\u202e" not in str(client.get(OF).json)
    assert client.get(f"{OF}/{unknown}").json["value"]["text"] == "pw ***"
    assert client.get(f"{OF}/{'0' * 20}").status == 404
    assert client.get(f"{OF}/x").status == 422


def test_a_long_text_is_cut_between_characters(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    put_letters(spec, [replace(LETTER, value=b"a" + "€".encode() * 50_000)])
    with opened([spec], PageOptions(port=0, token=TOKEN), no_sinks) as page:
        client = Client(page.url)
        found = client.get(f"{OF}/{ids(client)[0]}").json["value"]
    assert (found["bytes"], found["hex"], found["is_cut"]) == (150_001, None, True)
    assert set(found["text"][1:]) == {"€"}
    assert 21_000 < len(found["text"]) < 23_000


def test_a_token_that_only_reads_sees_no_record(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is for Prometheus: who has it may not know what the records hold, nor the reasons, which quote them."""
    monkeypatch.setattr(operations, "resend", lambda *_all: pytest.fail("something was sent"))
    (first, *_) = ids(client)
    reader, stranger = Client(client.url, READ_TOKEN), Client(client.url, None)
    for path in (OF, f"{OF}?sink=warehouse", f"{OF}/{first}", f"{OF}/x"):
        assert (reader.get(path).status, stranger.get(path).status) == (403, 401), path
        assert "no JSON" not in reader.get(path).body.decode()
    for other in (reader, stranger):
        assert other.post(f"{OF}/replay", {"ids": [first]}).status in {401, 403}
    assert reader.get("/api/v1/pipelines/orders/sinks").status == 200


def test_records_are_resent_each_once(client: Client, spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Sequence[DeadLetter]] = []

    def resend(_spec: Spec, chosen: Sequence[DeadLetter]) -> Iterator[Sequence[DeadLetter]]:
        calls.append(chosen)
        yield chosen[:1]

    monkeypatch.setattr(operations, "resend", resend)
    gone = "0" * 20
    reply = client.post(f"{OF}/replay", {"ids": [*ids(client), gone]})
    assert reply.json == {"chosen": 3, "sent": 1, "before": 2, "missing": 2}
    assert sorted(str(each.place) for each in calls[0]) == ["orders/0/17", "orders/0/18", "orders/0/19"]
    (event,) = History.at(spec.checkpoint.folder).events(kinds=["request"])
    assert "replay of dead letters, asked by the page at " in event.message
    assert "1 of 3 records" in event.message
    wishes: list[object] = [{"ids": []}, {"ids": ["x"]}, {"ids": [gone] * 201}, {"ids": [gone], "to": "elsewhere"}, {}]
    for wrong in wishes:
        assert client.post(f"{OF}/replay", wrong).status == 422, wrong
    assert len(calls) == 1


def test_a_source_that_cannot_resend_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(tmp_path)
    put_letters(spec, [replace(LETTER, source="another")])
    with opened([spec], PageOptions(port=0, token=TOKEN), no_sinks) as page:
        client = Client(page.url)
        reply = client.post(f"{OF}/replay", {"ids": ids(client)})
    assert (reply.status, "which the spec does not have" in reply.problem) == (409, True)


def test_a_service_that_is_away_is_named(tmp_path: Path) -> None:
    with opened([spec_of(tmp_path)], PageOptions(port=0, token=TOKEN), no_sinks) as page:
        reply = Client(page.url).get(OF)
    assert (reply.status, "the dead letters in table dead cannot be read" in reply.problem) == (503, True)


def test_a_pipeline_without_dead_letters(tmp_path: Path) -> None:
    path = spec_of(tmp_path).folder / "pipeline.yaml"
    path.write_text("".join(line for line in path.open() if not line.startswith("dead_letter")))
    with opened([load_spec(path, {"SECRET": SECRET})], PageOptions(port=0, token=TOKEN), no_sinks) as page:
        client = Client(page.url)
        assert (client.get(OF).json["where"], ids(client)) == (None, [])
        assert client.get(f"{OF}/{'0' * 20}").status == 404


def test_one_request_reads_at_a_time_and_for_some_seconds(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, begun, reads = threading.Event(), threading.Event(), []

    def slow(_spec: Spec, most: int) -> list[DeadLetter]:
        reads.append(most)
        begun.set()
        may_end.wait(20)
        return [LETTER]

    monkeypatch.setattr(operations, "read_newest", slow)
    first = threading.Thread(target=client.get, args=(OF,))
    first.start()
    assert begun.wait(20)
    assert client.get(OF).status == 429
    may_end.set()
    first.join()
    assert len(ids(client)) == len(ids(client)) == 1
    assert reads == [MOST]


def test_a_reading_is_bounded_in_number_and_bytes(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    put_letters(spec, [replace(LETTER, offset=n, checkpoint_id=n // 10) for n in range(MOST + 50)])
    found = operations.read_newest(spec, MOST)
    assert [each.offset for each in found] == list(reversed(range(50, MOST + 50)))
    many = (replace(LETTER, offset=n, value=bytes(100), key=None) for n in range(1_000))
    kept = newest(many, 50, most_bytes=1_000)
    assert [each.offset for each in kept] == list(range(999, 989, -1))
    assert len(newest([replace(LETTER, value=bytes(9_999))], 50, most_bytes=1_000)) == 1, "one that is too large"


def test_dead_letters_after_a_reset_are_the_newest(tmp_path: Path) -> None:
    """The checkpoint ids of the new incarnation begin at 0."""
    spec = spec_of(tmp_path)
    before = [replace(LETTER, checkpoint_id=n) for n in range(900, 900 + MOST)]
    put_letters(spec, [*before, replace(LETTER, checkpoint_id=2), replace(LETTER, checkpoint_id=4)])
    store = LocalHead(spec.checkpoint.folder)
    assert store.swap(None, encode_head(HeadValue(spec.pipeline, INCARNATION, 1, (), completed=3)))
    found = [each.checkpoint_id for each in operations.read_newest(spec, MOST)]
    assert (len(found), found[:3]) == (MOST, [4, 2, 899 + MOST])


def test_a_forged_dead_letter_is_refused_before_any_is_sent(tmp_path: Path) -> None:
    """Nothing listens at the address of the spec's Kafka, so an attempt to send fails in another way."""
    spec = spec_of(tmp_path)
    put_letters(spec, [LETTER, replace(LETTER, topic="payroll")])
    with opened([spec], PageOptions(port=0, token=TOKEN), no_sinks) as page:
        client = Client(page.url)
        reply = client.post(f"{OF}/replay", {"ids": ids(client)})
    assert (reply.status, "'payroll', which the source orders does not read" in reply.problem) == (409, True)


def test_rows_that_a_rule_rejected_have_its_step(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    put_letters(spec, [LETTER, replace(LETTER, sink="step:big")])
    with opened([spec], PageOptions(port=0, token=TOKEN), no_sinks) as page:
        (letter,) = Client(page.url).get(f"{OF}?sink=step:big").json["letters"]
    assert (letter["sink"], letter["can_replay"]) == ("step:big", True)


def test_the_newest_of_a_connector_that_reads_all(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    entry = spec.dead_letter
    assert entry is not None
    put_letters(spec, [replace(LETTER, checkpoint_id=n) for n in range(5)])
    found = SinkEntry.newest_dead_letters(entry, 2, reached=3)
    assert [each.checkpoint_id for each in found] == [3, 2]
