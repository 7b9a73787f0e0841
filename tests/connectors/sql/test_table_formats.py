"""The format of the tables `eos_*`: tables of neighbouring versions are read, of others refused, and none is lowered.

In SQLite here, and as statements of each database; `integration_tests/test_table_formats.py` has the servers.
"""

from __future__ import annotations

import ast
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, Final

import pytest
from sqlalchemy import Table

from connectors import sql
from connectors.api.contracts import Finding
from connectors.log.place import LogPlace
from connectors.sql import head, table_format, tables
from connectors.sql.head import SqlHead
from connectors.sql.head_check import check_head
from connectors.sql.slots import LOG_TABLES, SLOT
from connectors.sql.sqlite.errors import SqliteError
from connectors.sql.sqlite.store import SqliteStore
from connectors.sql.table_format import COMMENT, FORMAT, check_formats, creating
from connectors.sql.two_phase import permits
from connectors.testing.rows import rows
from connectors.testing.sink_driver import SinkDriver
from eos.errors import HeadFormatError
from tests.connectors.sql.sqlite.test_compliance import _SqliteTarget
from tests.played.two_phase import SERVERS, transaction
from tests.project.test_golden_names import _DIALECTS
from tests.twophase.test_codec import GOLDEN
from twophase.head import Versioned

_NEIGHBOURS: Final = {"tables-before": None, "tables": COMMENT, "tables-next": "eos_format 2, least_reader 1"}
"""Folder of tests/golden -> the comment of its tables."""


def statements(folder: str) -> str:
    return (GOLDEN / folder / "sqlite.sql").read_text()


def put(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def texts(path: Path) -> dict[str, str]:
    """The statement that created each table."""
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))


@pytest.fixture
def target(tmp_path: Path) -> _SqliteTarget:
    return _SqliteTarget(tmp_path / "t.db", LogPlace(tmp_path / "log"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    found = SqliteStore(put(tmp_path / "t.db", ""))
    yield found
    found.close()


def test_every_table_of_the_product_has_a_format() -> None:
    """Also one that a later version adds: whatever is declared in `connectors.sql`, by one of two functions."""
    for module in walk_packages(sql.__path__, "connectors.sql."):
        import_module(module.name)
    declared = [*tables._METADATA.sorted_tables, *head.METADATA.sorted_tables]
    assert set(declared) == {*LOG_TABLES, *permits.TABLES, *head.TABLES}
    assert {each.comment for each in declared} == {COMMENT}
    made: Counter[str] = Counter()
    for path in Path(sql.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "MetaData":
                made[path.name] += 1
    assert made == {"tables.py": 1, "head.py": 1}


@pytest.mark.parametrize("server", _DIALECTS)
@pytest.mark.parametrize("folder", _NEIGHBOURS)
def test_the_golden_tables_say_what_their_version_says(server: str, folder: str) -> None:
    text = (GOLDEN / folder / f"{server}.sql").read_text()
    assert text.count("CREATE TABLE") == len(set(LOG_TABLES) | set(permits.TABLES) | set(head.TABLES))
    comment = _NEIGHBOURS[folder]
    if comment is None:
        assert "eos_format" not in text
    else:
        assert text.count(comment) == text.count("eos_format") == text.count("CREATE TABLE")


@pytest.mark.parametrize("folder", _NEIGHBOURS)
def test_a_sink_works_on_tables_of_a_neighbouring_version_and_leaves_them_as_they_are(
    target: _SqliteTarget, folder: str
) -> None:
    before = texts(put(target.path, statements(folder)))
    driver = SinkDriver(target)
    driver.start()
    driver.checkpoint(0, rows(0, 10), rows(10, 20))
    driver.start()
    driver.checkpoint(1, rows(20, 30))
    driver.close()
    assert target.rows() == Counter(rows(0, 30))
    assert texts(target.path) == before


@pytest.mark.parametrize("folder", _NEIGHBOURS)
def test_head_works_on_tables_of_a_neighbouring_version_and_leaves_them_as_they_are(
    tmp_path: Path, folder: str
) -> None:
    before = texts(put(tmp_path / "head.db", statements(folder)))
    with closing(SqlHead(f"sqlite:///{tmp_path / 'head.db'}", "orders")) as store:
        assert store.read() is None
        assert store.swap(None, b"one")
        assert store.swap(store.read(), b"two")
        store.put_record("r", b"content")
        assert store.blobs("requests").put("stop", b"now")
        assert (store.read(), store.get_record("r")) == (Versioned(2, b"two"), b"content")
    assert texts(tmp_path / "head.db") == before


_NEWER: Final = {
    "eos_format 2": "has format 2; this version reads format 1",
    "eos_format 3, least_reader 2": "has format 3, which is read from format 2 on; this version reads 1",
    "made by hand; eos_format 17; keep": "has format 17; this version reads format 1",
    "eos_format": "is damaged: it begins as a format, and names none",
    "eos_format 2x": "is damaged: it begins as a format, and names none",
    "eos_format 0": "has format 0; this version reads format 1",
}
"""Comment of a table -> the words of the refusal."""


@pytest.mark.parametrize("comment", _NEWER)
def test_a_start_and_the_doctor_refuse_tables_of_another_format_and_change_nothing(
    target: _SqliteTarget, comment: str
) -> None:
    put(target.path, statements("tables-next").replace("eos_format 2, least_reader 1", comment))
    with closing(sqlite3.connect(target.path)) as connection:
        connection.execute("DROP TABLE eos_slot")
    before = texts(target.path)
    with pytest.raises(HeadFormatError, match=_NEWER[comment]) as caught:
        SinkDriver(target).start()
    assert not caught.value.retriable
    assert "eos_claim" in caught.value.message
    assert ("eos_witness" in caught.value.message) == ("damaged" not in _NEWER[comment])
    assert target.path.name in caught.value.message
    assert ("a newer one, for every pipeline" in caught.value.remedy) == ("damaged" not in _NEWER[comment])
    assert texts(target.path) == before, "nothing is created beside tables that are refused"
    (finding,) = (each for each in target.sink("s").check(None) if each.check == "own tables")
    assert (finding.ok, finding.fatal, finding.detail, finding.remedy) == (
        *(False, True),
        caught.value.message,
        caught.value.remedy,
    )


@pytest.mark.parametrize("comment", _NEWER)
def test_head_in_tables_of_another_format_is_refused_and_nothing_changes(tmp_path: Path, comment: str) -> None:
    path = put(tmp_path / "head.db", statements("tables-next").replace("eos_format 2, least_reader 1", comment))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE eos_request")
    before, url = texts(path), f"sqlite:///{path}"
    with closing(SqlHead(url, "orders")) as store, pytest.raises(HeadFormatError, match=_NEWER[comment]) as caught:
        store.read()
    assert "eos_head" in caught.value.message
    assert str(path) in caught.value.message
    assert texts(path) == before
    assert check_head("head", url) == [
        Finding("head: own tables", False, caught.value.message, caught.value.remedy),
    ]


def test_the_doctor_of_head_creates_no_file_and_names_the_tables(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'head.db'}"
    assert check_head("head", url) == []
    assert list(tmp_path.iterdir()) == []
    with closing(SqlHead(url, "orders")) as store:
        store.read()
    (finding,) = check_head("head", url)
    assert finding.ok
    assert "eos_head, eos_record, eos_request" in finding.detail


def test_words_of_an_administrator_may_stand_around_the_format_and_a_table_without_one_is_of_format_1() -> None:
    check_formats([("a", None), ("b", ""), ("c", "the pipelines' own"), ("d", f"mine. {COMMENT}. Keep it")], "here")
    with pytest.raises(HeadFormatError, match="the group of tables b, c at here has format 9"):
        check_formats([("a", COMMENT), ("b", "eos_format 9"), ("c", "eos_format 9")], "here")


def test_drivers_that_create_the_tables_at_once_all_work(tmp_path: Path) -> None:
    path, at_once = put(tmp_path / "t.db", ""), 6

    def create(_: int) -> int | None:
        with closing(SqliteStore(path)) as mine:
            tables.ensure(mine, permits.TABLES, "here")
        with closing(SqlHead(f"sqlite:///{path}", "orders")) as store:
            store.swap(None, b"one")
            seen = store.read()
            return seen.version if seen is not None else None

    for _ in range(10):
        with ThreadPoolExecutor(at_once) as pool:
            assert list(pool.map(create, range(at_once))) == [1] * at_once
        assert {name: COMMENT in text for name, text in texts(path).items()} == dict.fromkeys(
            (each.name for each in (*permits.TABLES, *head.TABLES)), True
        )
        path.unlink()
        put(path, "")


@pytest.mark.parametrize("moment", ["SELECT 1 FROM eos_claim", "CREATE TABLE"])
def test_the_format_of_a_newer_version_that_creates_the_tables_at_the_same_moment_stays(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """After this version has compared the formats, before or after it has seen which tables are missing."""
    newer, execute = statements("tables-next").replace("least_reader 1", "least_reader 2"), store.execute

    def overtaken(statement: str, *values: object) -> list[tuple[Any, ...]]:
        if statement.startswith(moment) and "eos_slot" not in texts(tmp_path / "t.db"):
            put(tmp_path / "t.db", newer)
        return execute(statement, *values)

    monkeypatch.setattr(store, "execute", overtaken)
    with pytest.raises(HeadFormatError, match="is read from format 2 on"):
        tables.ensure(store, LOG_TABLES, "here")
    assert all("eos_format 2, least_reader 2" in text for text in texts(tmp_path / "t.db").values())


def test_a_table_that_is_missing_while_others_are_created_is_missing() -> None:
    """SQLite then has another code for it; where 8 threads created tables, 1 start in 3,000 failed."""
    error = sqlite3.OperationalError("no such table: eos_slot")
    error.sqlite_errorcode = sqlite3.SQLITE_SCHEMA
    assert SqliteError(Path("t.db"), error).missing_table
    error = sqlite3.OperationalError("database schema has changed")
    error.sqlite_errorcode = sqlite3.SQLITE_SCHEMA
    assert not SqliteError(Path("t.db"), error).missing_table


@pytest.mark.parametrize("server", _DIALECTS)
@pytest.mark.parametrize("table", [SLOT, head.TABLES[0]], ids=lambda table: str(table.name))
def test_what_creates_a_table_fails_where_it_exists(server: str, table: Table) -> None:
    """Else PostgreSQL would go on to the comment, and lower the format of a newer version."""
    create, *more = creating(table, _DIALECTS[server])
    assert create.startswith(f"CREATE TABLE {table.name} (")
    assert [f"COMMENT ON TABLE {table.name} IS '{COMMENT}'"] * (server == "postgresql") == more
    assert (COMMENT in create) == (server != "postgresql")


@pytest.mark.parametrize("server", SERVERS)
def test_the_format_is_asked_for_once_a_start_and_not_by_checkpoints(server: str) -> None:
    asks = r"information_schema\.tables|pg_class"
    with SERVERS[server]() as played:
        played.owned()
        played.script.on(r"COALESCE\(MAX", [(-1,)])
        played.script.on(asks, [(each.name, COMMENT) for each in permits.TABLES])
        played.committer.inspect(transaction().scope.incarnation, ())
        assert len(played.script.statements(asks)) == 1
        played.script.forget()
        scope = transaction().scope
        played.committer.permit(scope)
        played.committer.revoke(scope)
        assert played.script.statements("INSERT INTO eos_permit")
        assert played.script.statements(asks) == []


def test_the_format_of_head_is_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def reading(comment_of: str, of: Iterable[Table]) -> str:
        asked.append(comment_of)
        return table_format.reading(comment_of, of)

    monkeypatch.setattr(head, "reading", reading)
    with closing(SqlHead(f"sqlite:///{tmp_path / 'head.db'}", "orders")) as store:
        for _ in range(5):
            store.read()
    assert len(asked) == 2, "before and after the tables are created"
    with closing(SqlHead(f"sqlite:///{tmp_path / 'head.db'}", "orders")) as store:
        for _ in range(5):
            store.read()
    assert len(asked) == 3
    assert FORMAT == 1
