"""Which logins a database may ask for: a server that has not proved who it is never gets the password."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from connectors.sql.dead_letters import read_dead_letters
from connectors.sql.head import SqlHead
from connectors.sql.kind import kind_of
from connectors.sql.mysql.engine import Session as MySqlSession
from connectors.sql.postgres.address import connect_arguments
from connectors.sql.postgres.engine import Session as PostgresSession
from connectors.sql.statements import translate_errors
from eos.errors import HeadAccessError, SpecError, TargetError
from integration_tests.services.certificates import Authority
from tests.played.impostor import PASSWORD, Heard, impostor, public_key

SCHEME: Final = {"mysql": "mysql+pymysql", "postgresql": "postgresql+psycopg"}
REMEDY: Final = {"mysql": "ssl_ca in the url", "postgresql": "sslrootcert in the url"}
CLEAR: Final = ("mysql_clear_password", "dialog", "mysql_old_password")
RSA: Final = (
    "caching_sha2_password",
    "greeted-caching_sha2_password",
    "sha256_password",
    "greeted-sha256_password",
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def tls(authority: Authority) -> ssl.SSLContext:
    pair = authority.sign("server", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    return context


def session(url: str) -> None:
    opened = MySqlSession if url.startswith("mysql") else PostgresSession
    with translate_errors("connecting"):
        opened(url).close()


WAYS: Final[dict[str, Callable[[str], object]]] = {
    "session": session,
    "head": lambda url: SqlHead(url, "orders").read(),
    "dead letters": lambda url: read_dead_letters(url, "letters", {}),
}


def ask(kind: str, asks: str, options: str = "", offered: ssl.SSLContext | None = None, way: str = "session") -> Heard:
    """Connect to a server on this machine that asks for this login, and expect that it comes to nothing."""
    with impostor(kind, asks, offered) as (port, heard):
        with pytest.raises((TargetError, HeadAccessError)) as failure:
            WAYS[way](f"{SCHEME[kind]}://u:{PASSWORD}@127.0.0.1:{port}/d{options}")
        assert heard.connections > 0
        assert PASSWORD not in str(failure.value)
        heard.refused = REMEDY[kind] in failure.value.remedy
        assert heard.refused or "password in the url" in failure.value.remedy, failure.value
    return heard


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("options", ["", "?ssl_disabled=true"])
@pytest.mark.parametrize("asks", [*CLEAR, *RSA])
def test_mysql_without_tls_gets_no_password(asks: str, options: str, way: str) -> None:
    heard = ask("mysql", asks, options, way=way)
    assert (heard.refused, heard.password) == (True, False)


@pytest.mark.parametrize("options", ["", "?ssl_verify_cert=false&ssl=true"])
@pytest.mark.parametrize("asks", CLEAR)
def test_mysql_gets_no_password_in_clear_text_through_tls_that_anyone_may_speak(
    asks: str, options: str, tls: ssl.SSLContext
) -> None:
    heard = ask("mysql", asks, options, tls)
    assert (heard.refused, heard.password) == (True, False)


@pytest.mark.parametrize("asks", ["mysql_clear_password", "dialog", *RSA])
@pytest.mark.parametrize("identity", ["true", "false"])
def test_mysql_that_is_verified_may_ask_for_the_password(
    asks: str, identity: str, tls: ssl.SSLContext, authority: Authority
) -> None:
    """As PAM and LDAP do."""
    assert ask("mysql", asks, f"?ssl_ca={authority.ca}&ssl_verify_identity={identity}", tls).password


@pytest.mark.parametrize("asks", RSA)
def test_mysql_without_tls_gets_a_password_that_is_encrypted_for_its_known_key_alone(asks: str, tmp_path: Path) -> None:
    known, other = tmp_path / "known.pem", tmp_path / "other.pem"
    known.write_bytes(public_key())
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    of_another = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    other.write_bytes(of_another.public_bytes(serialization.Encoding.PEM, form))
    assert ask("mysql", asks, f"?server_public_key={known}").password
    assert not ask("mysql", asks, f"?server_public_key={other}").password


@pytest.mark.parametrize("content", [None, b"", b"not a key"])
def test_a_file_that_holds_no_key_is_told(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SpecError, match=r"server_public_key|cannot be read"):
        session(f"mysql+pymysql://u:p@127.0.0.1/d?server_public_key={path}")


@pytest.mark.parametrize("asks", ["mysql_native_password", "greeted-mysql_native_password"])
def test_mysql_may_ask_for_a_scramble(asks: str) -> None:
    heard = ask("mysql", asks)
    assert (heard.refused, heard.password) == (False, False)


@pytest.mark.parametrize("asks", RSA)
def test_mysql_gets_the_password_of_its_default_login_through_tls_that_the_url_does_not_have_verified(
    asks: str, tls: ssl.SSLContext
) -> None:
    """See docs/how-to/security.md: without it no user of this machine logs in to MySQL with its own settings."""
    assert ask("mysql", asks, "", tls).password


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("options", ["", "?sslmode=disable", "?sslmode=prefer", "?require_auth=!password,!md5"])
def test_postgresql_without_tls_gets_no_password(options: str, way: str) -> None:
    heard = ask("postgresql", "cleartext", options, way=way)
    assert (heard.refused, heard.password) == (True, False)


@pytest.mark.parametrize("options", ["", "?sslmode=prefer", "?sslmode=require"])
def test_postgresql_gets_no_password_through_tls_that_anyone_may_speak(options: str, tls: ssl.SSLContext) -> None:
    heard = ask("postgresql", "cleartext", options, tls)
    assert (heard.refused, heard.password) == (True, False)


@pytest.mark.parametrize("mode", ["", "&sslmode=verify-ca", "&sslmode=verify-full"])
def test_postgresql_that_is_verified_may_ask_for_the_password(
    mode: str, tls: ssl.SSLContext, authority: Authority
) -> None:
    assert ask("postgresql", "cleartext", f"?sslrootcert={authority.ca}{mode}", tls).password


def test_postgresql_may_ask_for_a_digest_unless_the_url_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not ask("postgresql", "md5").refused
    assert ask("postgresql", "md5", "?require_auth=scram-sha-256").refused
    monkeypatch.setenv("PGREQUIREAUTH", "scram-sha-256")
    assert ask("postgresql", "md5").refused


@pytest.mark.parametrize("methods", ["password", "scram-sha-256,password", "!md5", "!md5,!scram-sha-256"])
def test_a_url_of_postgresql_cannot_allow_clear_text_without_a_verified_server(methods: str) -> None:
    url = f"postgresql+psycopg://u:{PASSWORD}@127.0.0.1/d?require_auth={methods}"
    for options in ("", "&sslmode=disable", "&sslmode=require"):
        with pytest.raises(SpecError, match="lets the server at") as failure:
            kind_of(url).open_engine(url + options, 0)
        assert PASSWORD not in str(failure.value)
    assert "require_auth" not in connect_arguments(f"{url}&sslmode=verify-full")[1]
