"""What a connection to MySQL costs before it is open: each task opens one."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from connectors.sql.mysql.address import connect_arguments
from connectors.sql.mysql.connection import LoadingConnection
from eos.errors import SpecError


def tls_context(url: str) -> ssl.SSLContext:
    """Of a connection as `engine` makes it, but for the first packet."""
    arguments: dict[str, Any] = dict(connect_arguments(url)[1])
    connection: Any = LoadingConnection(defer_connect=True, **arguments)  # PyMySQL's stubs leave `ctx` out
    assert isinstance(connection.ctx, ssl.SSLContext)
    return connection.ctx


def test_on_this_machine_no_authorities_are_loaded_since_nothing_is_verified() -> None:
    one, other = (tls_context("mysql+pymysql://u@127.0.0.1/d") for _ in range(2))
    assert one is other
    assert (one.verify_mode, one.check_hostname) == (ssl.CERT_NONE, False)
    assert one.cert_store_stats()["x509"] == 0


def test_towards_another_machine_the_server_is_verified() -> None:
    context = tls_context("mysql+pymysql://u@db.example.com/d")
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    encrypted = tls_context("mysql+pymysql://u@127.0.0.1/d?ssl=true")
    assert encrypted.verify_mode == ssl.CERT_REQUIRED


def test_an_option_that_the_driver_does_not_know_is_named() -> None:
    with pytest.raises(SpecError, match="what PyMySQL knows no option for: readtimeout"):
        connect_arguments("mysql+pymysql://u:secret@127.0.0.1/?read_timeout=5&readtimeout=6")
    for known in (
        "charset=latin1",
        "ssl_ca=/dev/null&ssl_disabled=true",
        "init_command=SELECT 1",
        "ssl_key_password=x",
    ):
        connect_arguments(f"mysql+pymysql://u@127.0.0.1/?{known}")
