"""A look at a broker after a failure: what it says of a server that explains nothing."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from connectors.kafka.handshake import look
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
    assert look(Connection(f"127.0.0.1:{resetting}", "group")) is None
