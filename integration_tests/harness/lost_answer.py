"""A broker behind a link on which one request of a client gets no answer, and nothing more is carried after it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from integration_tests.cluster.standalone import free_ports
from integration_tests.harness.link import Link
from integration_tests.services.kafka_native import KafkaNative, Listener, Own
from integration_tests.services.readiness import await_kafka
from integration_tests.services.state import State

END_TRANSACTION: Final = 26
"""The key of Kafka's request that commits a transaction, or aborts it."""

_SECONDS: Final = 60


class LostAnswer(Link):
    """See Link. After `lose` the next commit of a transaction gets no answer; then the link is cut, until `restore`.

    A client sends a commit when it has an answer to everything else, so that the request comes by itself.
    """

    lost = 0
    """How many commits got no answer."""

    _correlation: bytes | None = None  # of the commit whose answer is awaited
    _armed: bool = False
    _arrives: bool = True

    def lose(self, *, arrives: bool) -> None:
        """`arrives`: the broker gets the commit, and its answer is lost; else the commit itself."""
        self._armed, self._arrives = True, arrives

    def passes(self, content: bytes) -> bool:
        """See Link."""
        if not (self._armed and _is_commit(content)):
            return True
        self._armed = False
        if self._arrives:
            self._correlation = content[8:12]
            return True
        self.lost += 1
        self.cut()
        return False

    def returns(self, content: bytes) -> bool:
        """See Link."""
        if self._correlation is None or content[4:8] != self._correlation:
            return True
        self._correlation = None
        self.lost += 1
        self.cut()
        return False


def _is_commit(content: bytes) -> bool:
    """A request begins with its length, key, version and correlation id; a commit has a flag behind the producer."""
    return len(content) > 12 and struct.unpack(">h", content[4:6])[0] == END_TRANSACTION


class Linked(NamedTuple):
    """One broker."""

    direct: str  # address for the test's own hands
    linked: str  # address of the link
    link: LostAnswer


@contextmanager
def linked_broker(folder: Path) -> Iterator[Linked]:
    """Run a broker of this test's own."""
    port, controller_port, client_port = free_ports(3)
    with LostAnswer("127.0.0.1", client_port) as link:
        own = Own({"LINKED": Listener(client_port, told=link.port)}, heap="320m")
        broker = KafkaNative(State("linked"), folder, port, controller_port, own)
        process = broker.start()
        try:
            await_kafka(broker.bootstrap, seconds=_SECONDS)
            yield Linked(broker.bootstrap, f"127.0.0.1:{link.port}", link)
        finally:
            process.kill()
