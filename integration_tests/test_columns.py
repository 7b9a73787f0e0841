"""`columns:` of a sink, on real servers: rows whose columns the table calls otherwise, by every commit variant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from connectors.api.contracts import Sink
from connectors.log.place import LogPlace
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from connectors.testing.rows import Change, Row
from connectors.testing.sink_driver import SinkDriver
from eos.errors import TargetError
from integration_tests.test_compliance import DatabaseTarget, MySqlTarget, PostgresTarget

VARIANTS = ("two-phase", "write-ahead-log", "upsert")
_TABLE = "compliance"
_RENAMED = {"text": "n", "n": "text", "at offset": "_offset"}  # two of them change places


@dataclass
class _Renamed(DatabaseTarget):
    """See Target. The number is in column `text`, the text in column `n`, and the record's offset stays."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.execute(f"DROP TABLE {_TABLE}")
        quote = "`" if isinstance(self, MySqlTarget) else '"'
        key = "PRIMARY KEY" if self.keyed else ""
        self.execute(f"CREATE TABLE {_TABLE} (text BIGINT {key}, n {self.text}, {quote}at offset{quote} BIGINT)")

    def rows(self) -> Counter[Row]:
        return Counter((int(str(n)), str(text)) for n, text in self.execute(f"SELECT text, n FROM {_TABLE}"))


class _MySql(_Renamed, MySqlTarget):
    def sink(self, name: str) -> Sink:
        return MySqlSink(name, self.url, _TABLE, self.log, self.upsert, _RENAMED)


class _Postgres(_Renamed, PostgresTarget):
    def sink(self, name: str) -> Sink:
        return PostgresSink(name, self.url, _TABLE, self.log, self.upsert, _RENAMED)


@contextmanager
def _living(kind: type[_Renamed], url: str, folder: Path, variant: str) -> Iterator[SinkDriver]:
    log = None if variant == "two-phase" else LogPlace(folder / "log", slots=2)
    driver = SinkDriver(kind(url, log, keyed=variant == "upsert"))
    driver.start()
    yield driver
    driver.close()


def _check(driver: SinkDriver) -> None:
    driver.checkpoint(0, [(1, "one"), (2, "two")], [(3, "three")])
    assert driver.target.rows() == Counter({(1, "one"): 1, (2, "two"): 1, (3, "three"): 1})
    assert isinstance(driver.target, _Renamed)
    assert driver.target.execute(f"SELECT COUNT(DISTINCT {_quoted(driver)}) FROM {_TABLE}") == [(3,)]
    if driver.target.keyed:
        assert driver.sink.partition_by == ("n",)
        driver.checkpoint(1, [Change(1, "uno"), Change(3, gone=True)])
        assert driver.target.rows() == Counter({(1, "uno"): 1, (2, "two"): 1})


def _quoted(driver: SinkDriver) -> str:
    return "`at offset`" if isinstance(driver.target, _MySql) else '"at offset"'


@pytest.mark.parametrize("variant", VARIANTS)
def test_mysql(database: str, tmp_path: Path, variant: str) -> None:
    with _living(_MySql, database, tmp_path, variant) as driver:
        _check(driver)


@pytest.mark.any_server
@pytest.mark.parametrize("variant", VARIANTS)
def test_postgres(postgres_database: str, tmp_path: Path, variant: str) -> None:
    with _living(_Postgres, postgres_database, tmp_path, variant) as driver:
        _check(driver)


def test_a_key_by_its_name_in_the_table_is_a_mistake(database: str, tmp_path: Path) -> None:
    target = _MySql(database, LogPlace(tmp_path / "log"), keyed=True)
    target.execute(f"ALTER TABLE {_TABLE} DROP PRIMARY KEY, ADD UNIQUE (n(9))")
    with pytest.raises(TargetError, match="no unique index is on text and nothing else"):
        SinkDriver(target)
