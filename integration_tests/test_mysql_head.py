"""Head in a MySQL or MariaDB database; tests/test_sql_head.py runs the same on SQLite."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from connectors.sql.head import SqlHead
from twophase.errors import HeadFormatError


def test_the_register_and_its_records(database: str) -> None:
    head = SqlHead(database, "orders 中")
    assert head.read() is None
    assert head.swap(0, b"\x00\xff one")
    assert not head.swap(0, b"again")
    assert head.swap(1, b"two")
    assert not head.swap(1, b"stale")
    seen = head.read()
    assert seen is not None
    assert (seen.version, seen.value) == (2, b"two")
    assert SqlHead(database, "orders").read() is None

    content = bytes(range(256)) * 8192  # 2 MiB
    head.put_record("r-1.json", content)
    head.put_record("r-1.json", content)
    with pytest.raises(HeadFormatError):
        head.put_record("r-1.json", b"other")
    assert head.get_record("r-1.json") == content
    head.put_record("R-1.json", b"another name")
    assert head.list_records() == ["R-1.json", "r-1.json"]
    head.delete_record("r-1.json")
    head.delete_record("r-1.json")
    with pytest.raises(HeadFormatError):
        head.get_record("r-1.json")
    head.close()


def test_of_many_swaps_of_one_version_exactly_one_lands(database: str) -> None:
    drivers, rounds = 4, 25
    heads = [SqlHead(database, "orders") for _ in range(drivers)]
    for version in range(rounds):
        with ThreadPoolExecutor(drivers) as pool:
            landed = list(pool.map(lambda n, at=version: heads[n].swap(at, b"driver %d" % n), range(drivers)))
        assert sum(landed) == 1
        seen = heads[0].read()
        assert seen is not None
        assert (seen.version, seen.value) == (version + 1, b"driver %d" % landed.index(True))
