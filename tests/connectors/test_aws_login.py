"""Credentials of AWS and the tokens that they sign, without a service."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from connectors.aws import AwsIdentity, AwsLoginError, forget_sessions, msk_token
from connectors.kafka.handles import AwsTokens, ClientErrors, as_kafka_error
from connectors.kafka.refusals import is_refusal, remedy_of
from eos.errors import SpecError
from integration_tests.services.aws_identities import REGION, Identity, Program, remove_credentials

_HERE = AwsIdentity(REGION)


@pytest.fixture(autouse=True)
def _nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove_credentials(monkeypatch, tmp_path)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(tmp_path / "program", Identity("orders"), 1800).install(monkeypatch)


def set_life(program: Program, life_s: int) -> None:
    (program.config.parent / "life").write_text(f"{life_s} {life_s}")
    forget_sessions()


def test_a_token_ends_after_15_minutes_or_with_its_credentials(program: Program) -> None:
    now = time.time()
    assert msk_token(_HERE)[1] == pytest.approx(now + 900, abs=10)
    set_life(program, 120)
    assert msk_token(_HERE)[1] == pytest.approx(time.time() + 120, abs=10)
    assert msk_token(AwsIdentity(REGION, None, "AKIA1", "s"))[1] == pytest.approx(time.time() + 900, abs=10)


def test_temporary_credentials_are_kept_and_renewed_before_they_end(program: Program) -> None:
    first = {msk_token(_HERE)[0] for _ in range(3)}
    assert program.calls == 1
    assert first
    set_life(program, 60)  # botocore renews what ends within ten minutes
    msk_token(_HERE)
    before = program.calls
    msk_token(_HERE)
    assert program.calls == before + 1


def test_keys_that_were_replaced_in_a_file_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    tokens = set()
    for key in ("AKIA1", "AKIA2"):
        path.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = s\n")
        tokens.add(msk_token(_HERE)[0])
    assert len(tokens) == 2


def _sign(results: multiprocessing.Queue[object]) -> None:
    results.put(msk_token(_HERE)[1] > time.time())


def test_a_fork_signs_with_credentials_of_its_own(program: Program) -> None:
    """Spark forks its workers."""
    msk_token(_HERE)
    context = multiprocessing.get_context("fork")
    results: multiprocessing.Queue[object] = context.Queue()
    process = context.Process(target=_sign, args=(results,))
    process.start()
    assert results.get(timeout=30) is True
    process.join(30)
    assert program.calls == 2


def test_why_there_is_no_token_is_told_by_the_client(program: Program) -> None:
    """confluent_kafka itself says of a callback only that it raised something."""
    complaints = ClientErrors()
    tokens = AwsTokens(_HERE, complaints)
    tokens.sign_first()
    assert program.calls == 1
    token, end, *nothing = tokens.sign("")
    assert program.calls == 1, "the one that was signed first"
    assert len(token) > 100
    assert end > time.time()
    assert nothing == ["", {}]
    (program.config.parent / "identity").unlink()
    forget_sessions()
    with pytest.raises(AwsLoginError):
        tokens.sign("")
    (told,) = complaints.since(60)
    assert "no credentials of AWS" in told.str()
    assert not is_refusal(told), "the program failed, and may give some the next time"
    missing = as_kafka_error(AwsLoginError("nothing gives credentials"))
    assert is_refusal(missing)
    assert "name a profile" in remedy_of(missing, _HERE)


_OF_BROKERS = {
    "Access denied": True,
    "Too many connects": False,
    "Cannot change principals during re-authentication from User.a: User.b": False,
}


@pytest.mark.parametrize("text", _OF_BROKERS)
def test_which_refusals_of_brokers_are_for_good(text: str) -> None:
    error = KafkaError(KafkaError._AUTHENTICATION, f"SASL authentication error: [4cc0]: {text}")
    assert is_refusal(error) is _OF_BROKERS[text]
    assert "kafka-cluster:Connect" in remedy_of(error, _HERE)
    rights = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed")
    assert "identity of AWS" in remedy_of(rights, _HERE)
    assert "identity of AWS" not in remedy_of(rights)


def test_a_machine_without_credentials_or_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AwsLoginError, match="give no credentials of AWS") as failure:
        msk_token(_HERE)
    assert not failure.value.is_outage
    monkeypatch.setattr("connectors.extras.find_spec", lambda _name: None)
    with pytest.raises(SpecError, match="needs Python packages") as error:
        msk_token(_HERE)
    assert "eos-spark[aws]" in error.value.remedy
