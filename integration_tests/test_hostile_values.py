"""Text that breaks naive writers, where the server or the session reads bytes otherwise: kept as it is, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
import sqlalchemy

from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from integration_tests.test_made_tables import Place
from integration_tests.test_made_tables import _server as server
from integration_tests.test_mysql_values import HOSTILE
from integration_tests.test_mysql_values import variant as variant
from integration_tests.test_values_unaltered import execute, write

SESSIONS: Final = {
    "mysql": "?init_command=SET NAMES gbk, sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
    "postgresql": "?options=-c standard_conforming_strings=off -c client_encoding=SJIS -c bytea_output=escape",
}
"""What an administrator may have set, by the database: texts end elsewhere there, and bytes are other characters."""

CHARACTER_SETS: Final = ("utf8mb4", "utf8mb3", "ucs2", "latin1", "ascii", "gbk", "big5", "sjis", "cp932", "euckr")
"""Of a column. In those of East Asia the second byte of a character may be a backslash, a quote of SQL or a bar."""

_WITH_BACKSLASH: Final = "表ソ能十予貼縗功許誠運"  # in Shift_JIS, Big5 or GBK
_LIKE_ASCII: Final = "¥‾₩〜−∥¬€＼＇＂"  # which a server may take for the sign of ASCII that is at their place
TEXTS: Final = (
    *(f"a{chr(code)}b" for code in range(0x180)),
    *(form.format(each) for each in _WITH_BACKSLASH + _LIKE_ASCII for form in ("{}", "{}'", "{}\\", "\\{}", "{}\t")),
    *(f"{each}', 1), ('" for each in _WITH_BACKSLASH + "中¿"),
    *HOSTILE,
    *("\\.", "\\x41", "\\101", "\\b\\f\\v", "\r", "a\r\nb", "\\N\t\\N\n", "E'\\''", "$$;$$", "${env:HOME}", "=1+1"),
)  # fmt: skip


def _place(kind: type[MySqlSink | PostgresSink], url: str, folder: Path) -> Iterator[Place]:
    make, _ = server(kind, url + SESSIONS[sqlalchemy.make_url(url).get_backend_name()])
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    yield Place(make, engine, folder, log=False)
    engine.dispose()


@pytest.fixture
def mysql(database: str, tmp_path: Path) -> Iterator[Place]:
    yield from _place(MySqlSink, database, tmp_path)


@pytest.fixture
def postgres_place(postgres_database: str, tmp_path: Path) -> Iterator[Place]:
    yield from _place(PostgresSink, postgres_database, tmp_path)


def _taken(place: Place) -> set[str]:
    """Write the texts to table t. Return those that are in it, each as it was."""
    reasons = write(place, pa.string(), TEXTS)
    place.checkpoints += 1
    with place.engine.connect() as connection:
        found = {int(row[0]): row[1] for row in connection.exec_driver_sql("SELECT id, v FROM t")}
    altered = {TEXTS[at]: text for at, text in found.items() if text != TEXTS[at]}
    assert altered == {}
    assert len(found) + len(reasons) == len(TEXTS)
    return {TEXTS[at] for at in found}


@pytest.mark.in_turns
@pytest.mark.timeout(600)
def test_mysql_takes_a_text_as_it_is_or_not_at_all_in_any_character_set(mysql: Place, variant: str) -> None:
    taken = {}
    for each in CHARACTER_SETS:
        declared = f"CREATE TABLE t (id BIGINT, v LONGTEXT CHARACTER SET {each}) ENGINE = InnoDB"
        execute(mysql, "DROP TABLE IF EXISTS t", declared)
        taken[each] = _taken(mysql)
    assert taken["utf8mb4"] == set(TEXTS)
    assert set(TEXTS) - taken["utf8mb3"] == {"😀"}
    assert taken["ascii"] == {each for each in TEXTS if each.isascii()}
    assert all(taken[each] > taken["ascii"] for each in CHARACTER_SETS if each != "ascii"), "in the others is more"


@pytest.mark.any_server
@pytest.mark.in_turns
@pytest.mark.timeout(600)
def test_postgresql_takes_a_text_as_it_is_or_not_at_all(postgres_place: Place) -> None:
    execute(postgres_place, "CREATE TABLE t (id BIGINT, v TEXT)")
    assert _taken(postgres_place) == {each for each in TEXTS if "\0" not in each}
