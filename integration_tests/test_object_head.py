"""Head in servers that are stricter than moto's: MinIO, and those of Google's and Azure's protocols.

Only MinIO is killed. The server of Google's protocol keeps its objects in memory, and Azurite loses those of the last
five seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from integration_tests.harness.stores import ON_STORED
from integration_tests.services.minio_native import MinioServer
from tests.head_race import assert_each_version_is_won_once, await_version, open_head, racing
from tests.head_store_suite import HeadStoreSuite
from tests.object_head_suite import PREFIX, ObjectHeadSuite
from tests.object_store import Bucket
from twophase.head import HeadStore
from twophase.object_head import ObjectHead

pytestmark = [pytest.mark.any_server]

_SWAPS = 60
_KILLS = 3


@ON_STORED
class TestHead(HeadStoreSuite):
    """The contract of every head register."""

    @pytest.fixture
    def again(self, bucket: Bucket) -> Callable[[], HeadStore]:
        return lambda: ObjectHead(bucket.address(PREFIX))


@ON_STORED
class TestFaults(ObjectHeadSuite):
    """Faults between the client and the store."""


@ON_STORED
def test_each_version_is_won_once_by_processes_that_race(bucket: Bucket) -> None:
    place = bucket.address(PREFIX)
    store = open_head(place)
    with racing(place) as racers:
        await_version(store, _SWAPS)
    assert assert_each_version_is_won_once(store, racers) >= _SWAPS
    assert sum(bool(racer.won) for racer in racers) > 1
    assert any(racer.refused for racer in racers)


@pytest.mark.minio
@pytest.mark.timeout(600)
def test_a_store_that_is_killed_while_processes_race_loses_no_swap_that_it_answered(tmp_path: Path) -> None:
    """Swaps that it had not answered are in the head or not, and a later read shows which."""
    with MinioServer(tmp_path / "minio", tmp_path / "minio.log") as server:
        place = Bucket(server.port).address(PREFIX)
        store = open_head(place)
        version = 0
        with racing(place) as racers:
            for _ in range(_KILLS):
                await_version(store, version + _SWAPS // _KILLS)
                server.kill()
                server.start()
                seen = store.read()
                assert seen is not None
                version = seen.version
            await_version(store, version + _SWAPS // _KILLS)
        assert assert_each_version_is_won_once(store, racers) >= _SWAPS
        assert sum(len(racer.unanswered) for racer in racers) >= _KILLS
