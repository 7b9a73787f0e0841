"""A look at a broker after a failure: what it says of a server that explains nothing."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from connectors.kafka.handshake import diagnose_tls
from connectors.kafka.settings import Connection

_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST


@pytest.fixture
def resetting() -> Iterator[int]:
    """The port of a server that resets each connection as soon as it has accepted it, as a link that is cut does."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def reset() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:  # closed
                    return
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                client.close()

        threading.Thread(target=reset, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
@pytest.mark.parametrize("servers", ["a..b:9092", f"{'x' * 64}:9092", "host:port", "[::1]"])
def test_what_is_no_address_explains_nothing(servers: str, protocol: str) -> None:
    """The client says what is wrong with it, also with one that a broker has given out."""
    properties = (("security.protocol", protocol),)
    assert diagnose_tls(Connection(servers, "group", properties=properties)) is None
    told = f"ssl://{'x' * 64}:9093/1: SSL handshake failed"
    assert diagnose_tls(Connection("localhost:1", "group", properties=properties), told) is None


def test_a_connection_that_is_reset_before_the_handshake_says_nothing_of_tls(
    resetting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = socket.create_connection

    def connect_and_be_reset(address: tuple[str, int], timeout: float | None = None) -> socket.socket:
        made = connect(address, timeout)
        with pytest.raises(ConnectionResetError):
            made.recv(1)
        return made

    monkeypatch.setattr(socket, "create_connection", connect_and_be_reset)
    assert diagnose_tls(Connection(f"127.0.0.1:{resetting}", "group")) is None
