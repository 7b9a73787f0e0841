"""Head in a database that goes back in time while drivers live (H29): a fail-over that lagged, or a restored dump."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy

from connectors.sql.head import SqlHead
from eos.errors import FencedError, IdentityError
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.services import Services
from twophase.codec import decode_head, encode_head
from twophase.driver import Driver
from twophase.head import Versioned
from twophase.head_value import HeadValue
from twophase.values import SparkState, StartingPoint

pytestmark = pytest.mark.any_server

_RECORDS = 4 * CHECKPOINT_RECORDS
_FIRST = StartingPoint({"t/0": 7}, {"t": "id of t"})


@pytest.fixture(params=["mariadb", "postgresql"])
def head_url(request: pytest.FixtureRequest) -> str:
    """A database of this test's own, on either server."""
    url: str = request.getfixturevalue("database" if request.param == "mariadb" else "postgres_database")
    return url


def put_back(url: str, pipeline: str, copy: Versioned) -> None:
    """Restore the row of head as it was when `copy` was read."""
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    statement = sqlalchemy.text("UPDATE eos_head SET version = :version, value = :value WHERE pipeline = :pipeline")
    with engine.begin() as connection:
        row = {"version": copy.version, "value": copy.value, "pipeline": pipeline}
        assert connection.execute(statement, row).rowcount == 1


def read(head: SqlHead) -> Versioned:
    found = head.read()
    assert found is not None
    return found


class _NoSpark:
    def await_state(self, _checkpoint_id: int) -> None:
        """Nothing to wait for."""

    def state(self, _incarnation: str) -> SparkState:
        return SparkState()


class Drivers:
    """Drivers of a pipeline without sinks: what they do is to swap head."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.pipeline = f"set-back-{secrets.token_hex(4)}"
        self.head = SqlHead(url, self.pipeline)

    def start(self) -> Driver:
        driver = Driver(self.pipeline, self.head, {}, _NoSpark(), secrets.token_hex(8), "i" * 20)
        driver.start()
        return driver

    def put_back(self, copy: Versioned) -> None:
        put_back(self.url, self.pipeline, copy)


@pytest.fixture
def drivers(head_url: str) -> Iterator[Drivers]:
    """Drivers of one pipeline."""
    made = Drivers(head_url)
    with closing(made.head):
        yield made


def test_h29_a_swap_of_a_frozen_driver_does_not_land_on_another_history(drivers: Drivers) -> None:
    """The register has reached the version that it holds again, by a successor's claim."""
    frozen = drivers.start()
    copy = read(drivers.head)
    frozen.store_positions("orders", _FIRST)
    drivers.put_back(copy)
    successor = drivers.start()
    claimed = read(drivers.head)
    assert claimed.version == frozen.held.version
    with pytest.raises(FencedError, match="is at epoch 2, this driver is epoch 1"):
        frozen.set_query("query of the frozen driver")
    assert read(drivers.head) == claimed
    successor.set_query("query of the successor")
    assert decode_head(read(drivers.head).value) == successor.owned


def test_h29_a_driver_does_not_go_on_upon_an_older_head(drivers: Drivers) -> None:
    """Where its topics begin was stored, and is gone: the next start would ask for that once more (H3)."""
    driver = drivers.start()
    copy = read(drivers.head)
    driver.store_positions("orders", _FIRST)
    drivers.put_back(copy)
    with pytest.raises(IdentityError, match="was set back: it lacks what this driver has written") as caught:
        driver.set_query("query")
    assert "restore the newest head" in caught.value.remedy
    assert read(drivers.head) == copy
    with pytest.raises(IdentityError, match="was set back"):
        driver.check_owned()


def test_h29_a_driver_of_the_same_epoch_is_not_taken_for_ones_own(drivers: Drivers) -> None:
    """Head went back over the claim: a second driver claims the same epoch, and swaps more than nonces are kept."""
    first = drivers.start()
    copy = read(drivers.head)
    frozen = drivers.start()
    drivers.put_back(copy)
    twin = drivers.start()
    assert first.owned.epoch + 1 == frozen.owned.epoch == twin.owned.epoch
    for number in range(10):
        twin.store_positions("orders", StartingPoint({f"t/{number}": number}, {}))
        before = read(drivers.head)
        with pytest.raises(IdentityError, match="was set back"):
            frozen.set_query("query of the frozen driver")
        assert read(drivers.head) == before
    assert len(twin.owned.initial["orders"]) == 10


def test_h29_a_head_that_another_version_of_eos_has_encoded_is_swapped(drivers: Drivers) -> None:
    """The value is compared as it is stored, and not as this version would store it."""
    driver = drivers.start()
    written = read(drivers.head)
    spaced = written.value.replace(b'"epoch":1', b'"epoch": 1')
    assert (spaced != written.value, decode_head(spaced)) == (True, driver.owned)
    drivers.put_back(replace(written, value=spaced))
    successor = drivers.start()
    assert successor.owned.epoch == 2
    assert read(drivers.head).value == encode_head(successor.owned)


class DatabaseHeadPipeline(Pipeline):
    """As Pipeline, with head in a database."""

    def __init__(self, folder: Path, bootstrap: str, topic: str, database: str, head_url: str) -> None:
        super().__init__(folder, bootstrap, topic, database)
        self.head_url = head_url
        self.environment["HEAD_URL"] = head_url
        self.spec["checkpoint"]["head"] = "${env:HEAD_URL}"
        self.spec["restart"] = {"strategy": "none"}

    @property
    def row(self) -> Versioned:
        """The row of head as it is now."""
        with closing(SqlHead(self.head_url, self.spec["pipeline"])) as head:
            return read(head)

    @property
    def head(self) -> HeadValue:
        """See Pipeline."""
        return decode_head(self.row.value)

    def put_back(self, copy: Versioned) -> None:
        """Set head back."""
        put_back(self.head_url, self.spec["pipeline"], copy)


@pytest.fixture
def pipeline_of_head(
    services: Services, database: str, head_url: str, topic: object, tmp_path: Path, _first_run: None
) -> Iterator[DatabaseHeadPipeline]:
    """See conftest.pipeline."""
    name = topic(partitions=PARTITIONS)  # type: ignore[operator]
    with DatabaseHeadPipeline(tmp_path, services.kafka_bootstrap, name, database, head_url) as made:
        made.table.create()
        yield made


@pytest.mark.in_turns
@pytest.mark.timeout(900)
def test_h29_a_frozen_drivers_decision_does_not_name_rows_that_its_successor_rolled_back(
    pipeline_of_head: DatabaseHeadPipeline,
) -> None:
    """Head goes back by one swap, and the successor's claim has the version that the frozen driver holds."""
    pipeline = pipeline_of_head
    pipeline.workload.produce(_RECORDS)
    frozen = pipeline.start(arm=["after-commits@1", "before-decide@2"])
    frozen.await_point("after-commits@1")
    copy = pipeline.row
    frozen.release("after-commits@1")
    frozen.await_point("before-decide@2")
    held = pipeline.row
    assert held.version == copy.version + 1
    pipeline.put_back(copy)
    successor = pipeline.start(arm=["after-commits@1"], take_over=True)
    # It has claimed head, and what the frozen driver prepared is rolled back.
    successor.await_point("after-commits@1")
    assert (pipeline.row.version, pipeline.head.epoch) == (held.version, 2)
    frozen.release("before-decide@2")
    frozen.fail("fenced: ", "another driver of this pipeline has started since")
    assert (pipeline.row.version, pipeline.head.epoch, pipeline.head.completed) == (held.version, 2, 1)
    successor.release("after-commits@1")
    successor.succeed()
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.in_turns
@pytest.mark.timeout(900)
def test_h29_a_driver_that_meets_an_older_head_stops_and_says_so(pipeline_of_head: DatabaseHeadPipeline) -> None:
    """What head has lost is that checkpoint 1 is committed: the next start says that again, and nothing is written
    twice."""
    pipeline = pipeline_of_head
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["after-commits@1", "before-decide@2"])
    process.await_point("after-commits@1")
    copy = pipeline.row
    process.release("after-commits@1")
    process.await_point("before-decide@2")
    pipeline.put_back(copy)
    process.release("before-decide@2")
    process.fail("was set back: it lacks what this driver has written", "restore the newest head")
    assert pipeline.row == copy
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)
