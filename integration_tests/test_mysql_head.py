"""Head in a MySQL or MariaDB database: the suite that every head register passes, and what is particular to servers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from connectors.sql.head import SqlHead, check_head
from connectors.sql.mysql import requirements
from connectors.sql.mysql.engine import Session
from tests.head_store_suite import HeadStoreSuite
from twophase.head import HeadStore


@pytest.fixture
def again(database: str) -> Callable[[], HeadStore]:
    return lambda: SqlHead(database, "orders 中")


class TestSqlHead(HeadStoreSuite):
    """See `HeadStoreSuite`."""

    def test_another_pipeline_has_a_head_of_its_own(self, database: str, store: HeadStore) -> None:
        other = SqlHead(database, "orders")
        assert store.swap(None, b"one")
        store.put_record("r-1.json", b"content")
        assert other.read() is None
        assert other.list_records() == []
        other.close()

    def test_a_large_record(self, store: HeadStore) -> None:
        content = bytes(range(256)) * 8192  # 2 MiB
        store.put_record("r-1.json", content)
        store.put_record("r-1.json", content)
        assert store.get_record("r-1.json") == content


def test_of_many_swaps_of_one_version_exactly_one_lands(database: str) -> None:
    drivers, rounds = 4, 25
    heads = [SqlHead(database, "orders") for _ in range(drivers)]
    seen = heads[0].read()
    for version in range(rounds):
        with ThreadPoolExecutor(drivers) as pool:
            landed = list(pool.map(lambda n, at=seen: heads[n].swap(at, b"driver %d" % n), range(drivers)))
        assert sum(landed) == 1
        seen = heads[0].read()
        assert seen is not None
        assert (seen.version, seen.value) == (version + 1, b"driver %d" % landed.index(True))


def test_doctor_asks_the_server_of_head_what_it_asks_that_of_a_sink(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {each.check: each for each in check_head("head", database)}
    assert {"head: reachable", "head: innodb_flush_log_at_trx_commit"} <= found.keys()
    assert [each for each in found.values() if not each.ok] == []

    def lax(_session: Session, *_names: str) -> dict[str, str]:
        return {"innodb_flush_log_at_trx_commit": "2", "log_bin": "ON", "sync_binlog": "0"}

    monkeypatch.setattr(requirements, "read_variables", lax)
    wrong = {each.check: each for each in check_head("head", database) if not each.ok and each.fatal}
    assert wrong.keys() == {"head: innodb_flush_log_at_trx_commit", "head: sync_binlog"}
    assert "SET GLOBAL sync_binlog = 1" in wrong["head: sync_binlog"].remedy
