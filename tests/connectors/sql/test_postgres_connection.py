"""How a connection to PostgreSQL is protected where its URL says nothing of that."""

from __future__ import annotations

import pytest

from connectors.sql.postgres.address import connect_arguments

_TLS = ("sslmode", "sslrootcert")


def tls(host: str, options: str = "") -> dict[str, object]:
    """What libpq is told, by the URL or beside it, of TLS."""
    url, arguments = connect_arguments(f"postgresql+psycopg://u@{host}/d{options}")
    return {name: value for name, value in {**url.query, **arguments}.items() if name in _TLS}


def test_towards_another_machine_the_server_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGSSLROOTCERT", raising=False)
    monkeypatch.setenv("PGSSLMODE", "disable")  # of the environment only what the URL and the rule leave open
    for host, options in (("db.example.com", ""), ("10.0.0.7:5432", ""), ("", "?host=db.example.com")):
        told = tls(host, options)
        assert told["sslmode"] == "verify-full", host
        assert told["sslrootcert"], host  # libpq by itself would look for ~/.postgresql/root.crt alone
    assert tls("db.example.com", "?sslrootcert=/ca.pem") == {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}
    assert tls("127.0.0.1", "?sslrootcert=/ca.pem") == {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}


def test_a_server_that_only_the_environment_names_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, url in (("PGHOST", ""), ("PGHOSTADDR", "localhost"), ("PGSERVICE", "")):
        with monkeypatch.context() as environment:
            environment.setenv(variable, "192.0.2.7")
            assert tls(url)["sslmode"] == "verify-full", variable
    monkeypatch.setenv("PGHOST", "db.example.com")
    assert tls("localhost") == {}, "the URL names the server"


def test_what_the_url_says_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLROOTCERT", "/authorities.pem")
    assert tls("db.example.com")["sslrootcert"] == "/authorities.pem"
    for mode in ("disable", "require", "verify-ca"):
        assert tls("db.example.com", f"?sslmode={mode}") == {"sslmode": mode}


def test_on_this_machine_nothing_is_asked_for() -> None:
    assert [tls(host) for host in ("localhost", "127.0.0.1", "[::1]", "")] == [{}] * 4
