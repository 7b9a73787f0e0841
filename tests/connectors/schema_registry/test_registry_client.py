"""Answers that are not of a registry: each is an outage, and none says that an id is unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connectors.formats.registered import unusable
from connectors.schema_registry import bounded
from connectors.schema_registry.client import Connection, RegisteredSchema, schemas_of, subjects
from eos.errors import SourceError
from tests.connectors.schema_registry.served import serving

_UNKNOWN = (404, json.dumps({"error_code": 40403, "message": "Schema not found"}))
_FIXED = '{"type": "fixed", "name": "F", "size": 1}'
_KNOWN = (200, json.dumps({"schema": _FIXED}))
_KNOWN_VERSION = (200, json.dumps({"schema": _FIXED, "subject": "s", "version": 1, "id": 1}))


@pytest.mark.parametrize(
    "answer",
    [
        (404, "<html>not here</html>"),
        (404, json.dumps({"error_code": 404, "message": "HTTP 404 Not Found"})),
        (404, json.dumps({"error_code": 40401, "message": "Subject not found"})),
        (302, ""),
        (401, "{}"),
        (403, "{}"),
        (500, "{}"),
        (200, "<html>a proxy's page</html>"),
        (200, ""),
        (200, "[]"),
        (200, "{}"),
        (200, '{"schema": null}'),
        (200, '{"schema": ""}'),
        (200, '{"schema": 5}'),
        (200, '{"schema": {"type": "long"}}'),
        (200, "[" * 100_000),
        (204, ""),
    ],
)
def test_an_answer_that_is_not_a_registrys_is_an_outage(answer: tuple[int, str]) -> None:
    with serving(answer) as (_, connection), pytest.raises(SourceError):
        schemas_of(connection, [7])


def test_an_answer_is_read_up_to_a_bound() -> None:
    """An answer could otherwise fill the memory of a task."""
    fits = json.dumps({"schema": _FIXED, "more": "x" * (bounded.MOST_BYTES - 200)})
    with serving((200, fits), (200, " " * 20_000_000)) as (_, connection):
        assert schemas_of(connection, [7]) == {7: RegisteredSchema("AVRO", _FIXED)}
        with pytest.raises(SourceError, match="does not give schema 8: its answer has more than 16,777,216 bytes"):
            schemas_of(connection, [8])


def test_no_answer_is_decompressed() -> None:
    """20 kB of gzip are 20 MB."""
    with serving(_KNOWN) as (server, connection):
        server.zips = True
        with pytest.raises(SourceError, match="its answer is compressed"):
            schemas_of(connection, [7])


def test_a_wrong_answer_is_not_kept() -> None:
    with serving((200, "{}"), _KNOWN) as (_, connection):
        with pytest.raises(SourceError, match="an answer without a schema"):
            schemas_of(connection, [7])
        assert schemas_of(connection, [7]) == {7: RegisteredSchema("AVRO", _FIXED)}


def test_an_answer_has_a_time_in_which_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "LONGEST_S", 0.0)
    with serving(_KNOWN) as (server, connection):
        with pytest.raises(SourceError, match="takes more than 0 seconds"):
            schemas_of(connection, [7])
        assert len(server.requests) == 1


def test_no_more_schemas_are_kept_than_a_process_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also not by the client."""
    monkeypatch.setattr("connectors.schema_registry.client._KEPT", 1)
    with serving(_KNOWN) as (server, connection):
        for each in (7, 8, 7):
            schemas_of(connection, [each])
        assert len(server.requests) == 3


def test_an_unknown_id_is_requested_twice_and_then_not_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("connectors.schema_registry.client.sleep", slept.append)
    with serving(_UNKNOWN) as (server, connection):
        for _ in range(3):
            assert schemas_of(connection, [7, 8]) == {7: None, 8: None}
        assert sorted(path.partition("?")[0] for path, _ in server.requests) == [
            *["/schemas/ids/7"] * 2,
            *["/schemas/ids/8"] * 2,
        ]
    assert len(slept) == 1  # for both


def test_more_schemas_than_a_process_keeps_are_known_in_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.schema_registry.client._KEPT", 3)
    with serving(_KNOWN) as (_, connection):
        assert None not in schemas_of(connection, range(1, 11)).values()


def test_an_id_beyond_a_registrys_numbers_is_unknown_without_a_request() -> None:
    with serving((404, json.dumps({"error_code": 404}))) as (server, connection):
        assert schemas_of(connection, [2**31, 2**32 - 1]) == {2**31: None, 2**32 - 1: None}
        assert server.requests == []


def test_many_unknown_ids_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.schema_registry.client.sleep", lambda _seconds: pytest.fail("it waits"))
    with serving(_UNKNOWN) as (server, connection):
        assert set(schemas_of(connection, range(1, 31)).values()) == {None}
        assert len(server.requests) == 30


def _referring(subject: str) -> tuple[int, str]:
    references = [{"name": subject, "subject": subject, "version": 1}]
    return 200, json.dumps({"schema": _FIXED, "references": references, "subject": "s", "version": 1, "id": 1})


def test_h35_the_hash_that_head_keeps_is_the_same_for_ever() -> None:
    assert RegisteredSchema("AVRO", _FIXED).fingerprint == "67ad24f0a3bf99a8"
    assert RegisteredSchema("PROTOBUF", 'syntax = "proto3";', ("x",)).fingerprint == "23e434d1c87a071c"


def test_references_in_a_circle_end() -> None:
    with serving(_referring("s")) as (server, connection):
        assert schemas_of(connection, [7]) == {7: RegisteredSchema("AVRO", _FIXED, (_FIXED,))}
        assert len(server.requests) == 2
        assert "deleted=true" in server.requests[1][0]


def test_a_schema_with_too_many_references_is_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who may register schemas must not stop a pipeline. The records of such a schema are bad."""
    monkeypatch.setattr("connectors.schema_registry.client._MOST_REFERENCES", 150)
    chain = [_referring(f"s{number}") for number in range(151)]
    with serving(*chain) as (server, connection):
        (found,) = schemas_of(connection, [7]).values()
        assert found is not None
        assert unusable(found, "AVRO") == "its references are nested deeper than 100 levels"
        assert len(server.requests) == 1 + 100
        assert schemas_of(connection, [7]) == {7: found}
        assert len(server.requests) == 1 + 100
    flat = [{"name": f"s{number}", "subject": f"s{number}", "version": 1} for number in range(151)]
    with serving((200, json.dumps({"schema": _FIXED, "references": flat})), _KNOWN_VERSION) as (_, connection):
        (found,) = schemas_of(connection, [7]).values()
        assert unusable(found, "AVRO") == "it has more than 150 references"
    monkeypatch.setattr("connectors.schema_registry.client._MOST_CHARACTERS", 100)
    with serving((200, json.dumps({"schema": _FIXED, "references": flat})), _KNOWN_VERSION) as (_, connection):
        (found,) = schemas_of(connection, [7]).values()
        assert unusable(found, "AVRO") == "its references have more than 100 characters"


def test_an_authority_that_is_not_there_is_an_error_of_the_registry(tmp_path: Path) -> None:
    for ca in (tmp_path / "missing.pem", tmp_path / "empty.pem"):
        (tmp_path / "empty.pem").write_text("")
        with pytest.raises(SourceError, match="does not give"):
            subjects(Connection("https://127.0.0.1:1", ca=str(ca)))


def test_no_password_goes_to_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving((200, "[]")) as (server, connection):
        known = Connection(connection.url, "reader", "of-orders")
        monkeypatch.setenv("http_proxy", connection.url)
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(SourceError, match=r"add 127\.0\.0\.1 to NO_PROXY"):
            subjects(known)
        assert server.requests == []
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert subjects(known) == 0


def test_a_schema_is_requested_once() -> None:
    with serving(_KNOWN) as (server, connection):
        for _ in range(3):
            assert schemas_of(connection, [7]) == {7: RegisteredSchema("AVRO", _FIXED)}
        assert len(server.requests) == 1


def test_an_id_that_the_second_request_finds_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.schema_registry.client.sleep", lambda _seconds: None)
    with serving(_UNKNOWN, _KNOWN) as (_, connection):
        assert schemas_of(connection, [7]) == {7: RegisteredSchema("AVRO", _FIXED)}


def test_a_token_is_sent_and_not_shown() -> None:
    with serving((200, "[]"), (403, "{}")) as (server, connection):
        known = Connection(connection.url, token="of-orders")
        assert subjects(known) == 0
        with pytest.raises(SourceError, match="answers 403 for its subjects") as denied:
            subjects(known)
        assert [authorization for _, authorization in server.requests] == ["Bearer of-orders"] * 2
    assert "of-orders" not in str(denied.value)
