"""A Kafka transaction is committed and its answer is lost: the outcome is looked up, and never assumed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.sink import KafkaSink
from connectors.log.place import LogPlace
from connectors.testing.rows import Row, rows
from connectors.testing.sink_driver import ALREADY, COMMITTED, SinkDriver
from eos.errors import SinkUnavailableError
from integration_tests import topics
from integration_tests.harness.drain import drain
from integration_tests.harness.lost_answer import Linked, linked_broker

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns, pytest.mark.timeout(180)]

_TOPIC = "target"
_TIMEOUT_S = 2.0  # of a transaction, and so for the answer to its commit
_PATIENCE_S = 60.0


class _Target:
    """See Target: the sink's clients come through the link, and the test's own do not."""

    keyed = False

    def __init__(self, broker: Linked, folder: Path) -> None:
        self._broker = broker
        self._log = LogPlace(folder / "log", slots=1)

    def sink(self, name: str) -> KafkaSink:
        layout = Layout(_TOPIC, key=("n",))
        return KafkaSink(name, self._broker.linked, layout, self._log, transaction_timeout_s=_TIMEOUT_S)

    def rows(self) -> Counter[Row]:
        values = [record.json for record in drain(self._broker.direct, _TOPIC)]
        return Counter((each["n"], each["text"]) for each in values)

    def leave_foreign(self) -> None:
        """Nothing here."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Linked]:
    with linked_broker(tmp_path_factory.mktemp("kafka")) as started:
        topics.create(started.direct, _TOPIC, 1, {})
        yield started


@pytest.fixture
def driver(broker: Linked, tmp_path: Path) -> Iterator[SinkDriver]:
    """With one checkpoint that is committed, and another one that is decided."""
    made = SinkDriver(_Target(broker, tmp_path))
    made.start()
    made.checkpoint(0, rows(0, 3))
    made.decided[1] = [made.prepare(made.permit(1), *rows(3, 6)), made.prepare(made.permit(1), *rows(6, 8), task=1)]
    yield made
    broker.link.restore()
    made.close()


_Result = TypeVar("_Result")


def _once_reached(call: Callable[[], _Result]) -> _Result:
    """What the protocol's driver does while a client still has what it learned of the cut link."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return call()
        except SinkUnavailableError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.parametrize("arrives", [True, False], ids=["the answer is lost", "the commit is lost"])
@pytest.mark.parametrize("by", ["this process", "another process", "the next start"])
def test_a_commit_without_an_answer_is_looked_up(broker: Linked, driver: SinkDriver, arrives: bool, by: str) -> None:
    """The link stays cut until the producer has given up: only the marker can tell then."""
    before, lost = driver.target.rows(), broker.link.lost
    broker.link.lose(arrives=arrives)
    with pytest.raises(SinkUnavailableError):
        driver.committer.commit(1, driver.decided[1])
    assert broker.link.lost == lost + 1
    if not arrives:
        assert driver.target.rows() == before
    broker.link.restore()
    outcome = ALREADY if arrives else COMMITTED
    if by == "the next start":
        _once_reached(driver.start)
        assert driver.commit(1) == [ALREADY, ALREADY]
    else:
        committer = driver.committer if by == "this process" else _once_reached(driver.another_committer)
        assert driver.commit(1, committer) == [outcome, outcome]
    assert driver.target.rows() - before == Counter(rows(3, 8))
    driver.checkpoint(2, rows(8, 9))
    assert driver.target.rows() - before == Counter(rows(3, 9))
