"""What a connection to MySQL costs before it is open: each task opens one."""

from __future__ import annotations

import ssl

from connectors.sql.address import connect_arguments
from connectors.sql.mysql.local_infile import LoadingConnection


def connection(url: str) -> LoadingConnection:
    """As `engine` makes it, but for the first packet."""
    return LoadingConnection(defer_connect=True, **connect_arguments(url)[1])


def test_on_this_machine_no_authorities_are_loaded_since_nothing_is_verified() -> None:
    one, other = (connection("mysql+pymysql://u@127.0.0.1/d").ctx for _ in range(2))
    assert one is other
    assert (one.verify_mode, one.check_hostname) == (ssl.CERT_NONE, False)
    assert one.cert_store_stats()["x509"] == 0


def test_towards_another_machine_the_server_is_verified() -> None:
    context = connection("mysql+pymysql://u@db.example.com/d").ctx
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    encrypted = connection("mysql+pymysql://u@127.0.0.1/d?ssl=true").ctx
    assert encrypted.verify_mode == ssl.CERT_REQUIRED
