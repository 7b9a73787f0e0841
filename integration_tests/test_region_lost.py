"""A region is lost: the bucket of the location, the sink's database and the brokers are restored from copies.

The copies were taken at one moment, or at three. The disk of the driver is lost as well. Or one of the services is
restored, and the others are as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from integration_tests import topics
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.stores import move, put_location
from integration_tests.services.copied import CopiedKafka, CopiedMariadb
from integration_tests.test_set_back import execute
from tests.object_store import Bucket

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns, pytest.mark.timeout(900)]

_BEFORE: Final = 2 * CHECKPOINT_RECORDS
_BETWEEN: Final = CHECKPOINT_RECORDS


class _Mariadb(CopiedMariadb):
    """Beside that of other tests."""

    kind = "mariadb-region"


@pytest.fixture(scope="module")
def database() -> Iterator[CopiedMariadb]:
    """A server of these tests alone."""
    made = _Mariadb()
    made.up()
    yield made
    made.down()


class Region:
    """The services of a pipeline, which can be copied one by one, and restored together."""

    def __init__(self, bucket: Bucket, database: CopiedMariadb, brokers: CopiedKafka) -> None:
        self._bucket, self._objects = bucket, dict[str, bytes]()
        self._copies: Mapping[str, Callable[[], None]] = {
            "bucket": self._copy_bucket,
            "database": database.copy,
            "brokers": brokers.copy,
        }
        self._restores: Mapping[str, Callable[[], None]] = {
            "bucket": self._restore_bucket,
            "database": database.put_back,
            "brokers": brokers.put_back,
        }

    def copy(self, name: str) -> None:
        """Copy one of them."""
        self._copies[name]()

    def restore(self, *names: str) -> None:
        """Replace these by their copies; all of them if no name is given."""
        for each in names or self._restores:
            self._restores[each]()

    def _copy_bucket(self) -> None:
        self._objects = self._bucket.contents()

    def _restore_bucket(self) -> None:
        self._bucket.restore(self._objects)


@pytest.fixture
def pipeline(tmp_path: Path, database: CopiedMariadb, copied_kafka: CopiedKafka, bucket: Bucket) -> Iterator[Pipeline]:
    """Its services are in the region."""
    topics.create(copied_kafka.bootstrap, bucket.name, PARTITIONS, {})
    name = f"eos_{bucket.name[2:]}"
    execute(database.admin_url, f"CREATE DATABASE {name}")
    with Pipeline(tmp_path, copied_kafka.bootstrap, bucket.name, f"{database.url}{name}") as made:
        made.table.create()
        put_location(made, bucket)
        yield made


def _lose(region: Region, pipeline: Pipeline, copies: Sequence[Sequence[str]]) -> None:
    """Copy these parts, each group after further checkpoints. Then restore all of them."""
    pipeline.workload.produce(_BEFORE)
    for names in copies:
        move(pipeline)
        pipeline.workload.produce(_BETWEEN)
        pipeline.catch_up()
        for each in names:
            region.copy(each)
    region.restore()
    move(pipeline)


@pytest.fixture
def region(bucket: Bucket, database: CopiedMariadb, copied_kafka: CopiedKafka) -> Region:
    return Region(bucket, database, copied_kafka)


def test_copies_of_one_moment_continue(region: Region, pipeline: Pipeline) -> None:
    _lose(region, pipeline, [("brokers", "database", "bucket")])
    pipeline.workload.produce(_BETWEEN)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_BEFORE + 2 * _BETWEEN)


def _fall_back(region: Region, pipeline: Pipeline, name: str) -> None:
    """Copy one service, complete a checkpoint more, and restore this service only."""
    pipeline.workload.produce(_BEFORE)
    pipeline.catch_up()
    region.copy(name)
    move(pipeline)
    pipeline.workload.produce(_BETWEEN)
    pipeline.catch_up()
    region.restore(name)
    move(pipeline)


def test_an_older_copy_of_the_database_alone_is_repaired(region: Region, pipeline: Pipeline) -> None:
    _fall_back(region, pipeline, "database")
    assert sum(pipeline.table.rows().values()) == _BEFORE
    pipeline.start().fail("it counts checkpoints up to", "eos repair")
    assert sum(pipeline.table.rows().values()) == _BEFORE
    move(pipeline)
    pipeline.command("repair", "--yes").succeed()
    pipeline.assert_exact(at_least=_BEFORE + _BETWEEN)
    move(pipeline)
    pipeline.workload.produce(_BETWEEN)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_BEFORE + 2 * _BETWEEN)


def test_older_brokers_alone_stop_the_pipeline_until_a_reset(region: Region, pipeline: Pipeline) -> None:
    """The lost records are in the table already; the ones that took their offsets are read after the reset."""
    _fall_back(region, pipeline, "brokers")
    rows = pipeline.table.rows()
    assert sum(rows.values()) == _BEFORE + _BETWEEN
    pipeline.workload.produce(2 * _BETWEEN)  # beyond the position of before
    topic, last = pipeline.workload.topic, (_BEFORE + _BETWEEN) // PARTITIONS - 1
    pipeline.start().fail(f"{topic}/", f"the record at offset {last} is", "went back in time", "eos reset --to")
    assert pipeline.table.rows() == rows
    move(pipeline)
    end = _BEFORE // PARTITIONS
    pipeline.command(
        "reset", "--to", ",".join(f"{topic}/{each}={end}" for each in range(PARTITIONS)), "--yes"
    ).succeed()
    move(pipeline)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_BEFORE + 3 * _BETWEEN)


def test_the_bucket_is_older_than_the_database(region: Region, pipeline: Pipeline) -> None:
    """Head would write records a second time."""
    _lose(region, pipeline, [("bucket",), ("database",), ("brokers",)])
    rows = pipeline.table.rows()
    pipeline.start().fail("head was set back", "eos reset")
    assert pipeline.table.rows() == rows
    assert sum(rows.values()) == _BEFORE + 2 * _BETWEEN


def test_the_database_is_older_than_the_bucket(region: Region, pipeline: Pipeline) -> None:
    """The brokers still have what the database lacks."""
    _lose(region, pipeline, [("database",), ("bucket",), ("brokers",)])
    assert sum(pipeline.table.rows().values()) == _BEFORE + _BETWEEN
    pipeline.start().fail("it counts checkpoints up to", "eos repair")
    pipeline.command("repair", "--yes").succeed()
    move(pipeline)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_BEFORE + 3 * _BETWEEN)


def test_the_brokers_are_older_than_the_others(region: Region, pipeline: Pipeline) -> None:
    """The newest records are in the table alone."""
    _lose(region, pipeline, [("brokers",), ("database", "bucket")])
    rows = pipeline.table.rows()
    pipeline.workload.produce(3 * _BETWEEN)  # beyond the position of before
    pipeline.start().fail("went back in time", "eos reset --to")
    assert pipeline.table.rows() == rows
    assert sum(rows.values()) == _BEFORE + 2 * _BETWEEN
