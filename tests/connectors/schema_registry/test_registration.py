"""The registration of a schema: an answer that a restart does not change stops the pipeline, any other is an outage."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

from connectors.api.encoding import MessagePart
from connectors.schema_registry.client import Connection
from connectors.schema_registry.registration import Registration
from eos.errors import SinkUnavailableError, TargetError
from tests.connectors.schema_registry.served import serving

_TEXT = '"long"'
_GIVEN = (200, json.dumps({"id": 7}))
_FOUND = (200, json.dumps({"subject": "t-value", "version": 1, "id": 7, "schema": _TEXT}))
_NO_SUBJECT = (404, json.dumps({"error_code": 40401, "message": "Subject 't-value' not found."}))
_NO_SCHEMA = (404, json.dumps({"error_code": 40403, "message": "Schema not found"}))
_INCOMPATIBLE = (409, json.dumps({"error_code": 409, "message": "Incompatible: reader type\n is not in union"}))
_INVALID = (422, json.dumps({"error_code": 42201, "message": "Invalid schema"}))


@pytest.mark.parametrize(
    ("strategy", "part", "subject"),
    [
        ("topic-name", "value", "orders-value"),
        ("topic-name", "key", "orders-key"),
        ("record-name", "value", "com.example.Order"),
        ("topic-record-name", "key", "orders-com.example.Order"),
    ],
)
def test_the_subject_is_that_of_confluents_serializers(strategy: str, part: str, subject: str) -> None:
    registration = Registration(Connection("http://r"), strategy)  # type: ignore[arg-type]
    assert registration.subject(MessagePart("out", "orders", part), "com.example.Order") == subject  # type: ignore[arg-type]


def test_a_schema_is_registered_by_one_request() -> None:
    with serving(_GIVEN) as (server, connection):
        assert Registration(connection).id_of("out", "t-value", "AVRO", _TEXT) == 7
        assert [path.partition("?")[0] for path, _ in server.requests] == ["/subjects/t-value/versions"]


def test_each_start_asks_the_registry() -> None:
    """It may be another one since the last start, and give the schema another id."""
    with serving(_GIVEN, (200, json.dumps({"id": 8}))) as (_, connection):
        registration = Registration(connection)
        assert [registration.id_of("out", "t-value", "AVRO", _TEXT) for _ in range(2)] == [7, 8]


def test_without_a_right_to_register_the_schema_is_looked_up() -> None:
    with serving(_FOUND) as (server, connection):
        assert Registration(connection, register=False).id_of("out", "t-value", "AVRO", _TEXT) == 7
        assert [path.partition("?")[0] for path, _ in server.requests] == ["/subjects/t-value"]


@pytest.mark.parametrize("answer", [_NO_SUBJECT, _NO_SCHEMA])
def test_a_schema_that_must_be_there_and_is_not_stops_the_pipeline(answer: tuple[int, str]) -> None:
    with (
        serving(answer) as (_, connection),
        pytest.raises(TargetError, match="no such schema under the subject") as found,
    ):
        Registration(connection, register=False).id_of("out", "t-value", "AVRO", _TEXT)
    assert _TEXT in (found.value.remedy or "")


@pytest.mark.parametrize(
    ("answer", "reason", "remedy"),
    [
        (
            _INCOMPATIBLE,
            r"not compatible with earlier versions of subject t-value: Incompatible: .*is not in union",
            "may be NULL",
        ),
        (_INVALID, "does not take the schema of subject t-value: Invalid schema", _TEXT),
        ((401, "{}"), "answers 401 for t-value", "username and password"),
        ((403, "{}"), "answers 403 for t-value", "register: false"),
    ],
)
def test_a_refusal_of_the_registry_stops_the_pipeline(answer: tuple[int, str], reason: str, remedy: str) -> None:
    with serving(answer) as (_, connection), pytest.raises(TargetError, match=reason) as found:
        Registration(connection).id_of("out", "t-value", "AVRO", _TEXT)
    assert "\n" not in found.value.message
    assert remedy in (found.value.remedy or "")


@pytest.mark.parametrize(
    "answer",
    [
        (404, "<html>not here</html>"),
        (404, json.dumps({"error_code": 404, "message": "HTTP 404 Not Found"})),
        (500, json.dumps({"error_code": 50003, "message": "no leader"})),
        (503, "{}"),
        (302, ""),
        (200, "<html>a proxy's page</html>"),
        (200, "{}"),
        (200, '{"id": null}'),
        (200, '{"id": "7"}'),
        (200, '{"id": true}'),
        (200, '{"id": -1}'),
        (200, '{"id": 4294967296}'),
        (200, "[]"),
        (204, ""),
    ],
)
@pytest.mark.parametrize("register", [True, False])
def test_any_other_answer_is_an_outage(answer: tuple[int, str], register: bool) -> None:
    with (
        serving(answer) as (_, connection),
        pytest.raises(SinkUnavailableError, match=r"^sink out: the schema registry"),
    ):
        Registration(connection, register=register).id_of("out", "t-value", "AVRO", _TEXT)


def test_a_registry_that_is_away_is_an_outage() -> None:
    for method in (Registration.id_of, Registration.dry_run):
        with pytest.raises(SinkUnavailableError, match=r"^sink out: the schema registry"):
            method(Registration(Connection("http://127.0.0.1:1")), "out", "t-value", "AVRO", _TEXT)


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([_FOUND], 7),
        ([_NO_SUBJECT, _NO_SUBJECT], None),
        ([_NO_SCHEMA, (200, '{"is_compatible": true}')], None),
    ],
)
def test_a_dry_run_registers_nothing(answers: list[tuple[int, str]], found: int | None) -> None:
    with serving(*answers) as (server, connection):
        assert Registration(connection).dry_run("out", "t-value", "AVRO", _TEXT) == found
        assert "/subjects/t-value/versions" not in {path.partition("?")[0] for path, _ in server.requests}
    with serving(*answers) as (_, connection):
        assert Registration(connection).finding("out", "t-value", "AVRO", _TEXT).ok


def test_a_dry_run_finds_the_refusals_of_a_start() -> None:
    with serving(_NO_SCHEMA, (200, '{"is_compatible": false}')) as (_, connection):
        finding = Registration(connection).finding("out", "t-value", "AVRO", _TEXT)
        assert (finding.ok, finding.check) == (False, "schema of t-value")
        assert "not compatible with earlier versions" in finding.detail
    with serving(_NO_SUBJECT) as (_, connection):
        finding = Registration(connection, register=False).finding("out", "t-value", "AVRO", _TEXT)
        assert (finding.ok, "no such schema" in finding.detail) == (False, True)


def test_a_secret_is_in_no_text() -> None:
    registration = Registration(Connection("https://r", "orders", "8fK2-secret", ca="/no.pem"))
    assert "8fK2" not in repr(registration)
    assert pickle.loads(pickle.dumps(registration)) == registration
    with pytest.raises(SinkUnavailableError) as found:
        replace(registration).id_of("out", "t-value", "AVRO", _TEXT)
    assert "8fK2" not in str(found.value)
