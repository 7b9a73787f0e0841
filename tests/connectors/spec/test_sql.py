"""The SQL of steps without Spark: each mistake with its place and the nearest name, and no right query refused."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from connectors.spec import Mistake, SpecMistakesError, load_spec
from connectors.spec.sql_columns import check_columns
from connectors.spec.sql_syntax import Columns, Problem, parse
from spark_jobs.session.settings import DEFAULTS, LOOPBACK
from tests.spark_jobs.query.test_one_query import QUERIES

GOLDEN: Final = Path(__file__).resolve().parents[2] / "golden" / "table_names.json"
VIEWS: Final[dict[str, Columns]] = {"s": ["id", "user", "at", "tags"], "t": ["id", "user"], "of_python": None}

WRONG: Final = [
    # (query, column of the first mistake, what is said of it, the nearest name)
    ("SELECT id FORM s", 11, "'FORM' is not a keyword here", "FROM"),
    ("SELECT id FROM s WEHRE id > 1", 18, "'WEHRE' is not a keyword here", "WHERE"),
    ("SELECT id FROM s GROUP YB id", 24, "'YB' is not a keyword here", "BY"),
    ("SELECT id FROM s ODER BY id", 18, "'ODER' is not a keyword here", "ORDER"),
    ("SELECT id tags at FROM s", 16, "'at' cannot follow 'tags': a comma or a keyword is missing", ""),
    ("SELECT count(id FROM s", 13, "this ( is not closed", ""),
    ("SELECT id) FROM s", 10, "this ) closes no parenthesis", ""),
    ("SELECT id FROM s WHERE user = 'x", 31, "a text in ' begins and does not end", ""),
    ("SELECT usr FROM s", 8, "unknown column 'usr'", "user"),
    ("SELECT s.usr FROM s", 10, "'s' has no column 'usr'", "user"),
    ("SELECT x.usr FROM s", 8, "unknown column or view 'x'", ""),
    ("SELECT id, count(*) AS n FROM s GROUP BY window(att, '1 minute'), id", 49, "unknown column 'att'", "at"),
    ("SELECT a.x FROM (SELECT id FROM s) a", 10, "'a' has no column 'x'", ""),
    ("WITH a AS (SELECT id AS k FROM s) SELECT id FROM a", 42, "unknown column 'id'", ""),
    ("SELECT id FROM s WHERE id IN (SELECT id FROM t WHERE usr = 'a')", 54, "unknown column 'usr'", "user"),
    ("SELECT user FROM s UNION ALL SELECT id FROM t ORDER BY id", 56, "unknown column 'id'", ""),
    ("SELECT * EXCEPT (id) FROM s ORDER BY nope", 38, "unknown column 'nope'", ""),
]

RIGHT: Final = [
    "SELECT TRIM(BOTH 'x' FROM user), substring(user FROM 1 FOR 2), overlay(user PLACING 'a' FROM 2) FROM s",
    "SELECT INTERVAL '1' DAY, timestampdiff(MONTH, at, now()), datediff(day, at, at), EXTRACT(DOW FROM at) FROM s",
    "SELECT transform_values(map(1, 2), (k, v) -> v + k), aggregate(tags, '', (a, x) -> a || x, r -> r) FROM s",
    "SELECT user, count(*) FILTER (WHERE id > 1) AS n FROM s GROUP BY GROUPING SETS ((user), ()) ORDER BY n, user",
    "SELECT STRUCT(id AS a, user), named_struct('a', id).a, id::int FROM s WHERE user LIKE ANY ('a', 'b')",
    "SELECT id, tag FROM s LATERAL VIEW explode(tags) e AS tag WHERE e.tag > 'a'",
    "SELECT * FROM s LATERAL VIEW explode(tags) x WHERE col > 'a' AND x.col <> 'b'",
    "SELECT window.start, window.end, user, count(*) AS n FROM s GROUP BY window(at, '1 minute'), user",
    "SELECT session_window.start, count(*) AS n FROM s GROUP BY session_window(at, '5 minutes')",
    "SELECT id + 1 AS n, n + 1 AS m FROM s WHERE id > 1 ORDER BY m",
    "SELECT id AS n FROM s GROUP BY ALL HAVING n > 1 ORDER BY n",
    "SELECT USER AS U, ID FROM S WHERE Id > 1",
    "SELECT s.id, t.* FROM s FULL OUTER JOIN t ON s.id = t.id AND s.user BETWEEN t.user AND 'z'",
    "SELECT s.id FROM s LEFT ANTI JOIN t USING (id)",
    "SELECT (SELECT max(id) FROM t WHERE t.user = s.user) AS most FROM s",
    "SELECT current_timestamp, CURRENT_DATE, current_user, user FROM s",
    "SELECT 1 AS `a b`, `a b` + 1 AS c FROM s",
    "SELECT from_json(user, 'a INT').a AS a, to_json(struct(*)) AS b FROM s",
    "SELECT /*+ BROADCAST(t) */ s.id FROM s JOIN t ON s.id = t.id -- a comment (",
    "SELECT any_of_its_columns, s.id FROM s JOIN of_python",
]


def problems(sql: str) -> list[Problem]:
    tree, found = parse(sql)
    return found if tree is None else [*found, *check_columns(tree, VIEWS)[0]]


@pytest.mark.parametrize(("sql", "column", "said", "near"), WRONG, ids=[each[0] for each in WRONG])
def test_a_mistake_has_its_place_and_the_nearest_name(sql: str, column: int, said: str, near: str) -> None:
    first = problems(sql)[0]
    assert first.located(sql) == f"line 1, column {column} of the SQL: {said}"
    assert first.suggestion == near


@pytest.mark.parametrize("sql", [*RIGHT, *QUERIES.values()])
def test_a_right_query_has_no_mistake(sql: str) -> None:
    assert problems(sql) == []


def test_no_text_that_spark_parses_is_refused() -> None:
    texts = json.loads(GOLDEN.read_text())
    assert {sql: found for sql in texts if (found := parse(sql)[1])} == {}


COUNT: Final = 4_000


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + ", ".join(f"c{n} AS d{n}" for n in range(COUNT)) + " FROM wide",
        "SELECT " + ", ".join(f"wide.c{n}" for n in range(COUNT)) + " FROM wide",
        "SELECT " + ", ".join(f"c{n} AS d{n}, d{n}" for n in range(COUNT // 2)) + " FROM wide",
        "SELECT " + "r'" * 40_000,
    ],
    ids=["aliases", "qualified", "names of results", "quotes"],
)
def test_the_time_of_a_check_is_about_linear(sql: str) -> None:
    began_s = time.process_time()
    tree, _ = parse(sql)
    if tree is not None:
        found, columns = check_columns(tree, {"wide": [f"c{n}" for n in range(COUNT)]})
        assert (found, len(columns or ())) == ([], COUNT)
    assert time.process_time() - began_s < 10


def test_all_mistakes_of_a_query_are_found_with_their_lines() -> None:
    sql = "SELECT usr,\n       s.nme\nFROM s\nWHERE att > '2026-01-01'"
    assert [each.located(sql).partition(" of")[0] for each in problems(sql)] == [
        "line 1, column 8",
        "line 2, column 10",
        "line 4, column 7",
    ]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    own = {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "1"}
    session = SparkSession.builder.master("local[1]").config(map={**DEFAULTS, **LOOPBACK, **own}).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.sql("SELECT 1L AS id, 'a' AS user, now() AS at, array('b') AS tags").createOrReplaceTempView("s")
    session.sql("SELECT 1L AS id, 'a' AS user").createOrReplaceTempView("t")
    session.sql("SELECT 1 AS any_of_its_columns").createOrReplaceTempView("of_python")
    yield session
    session.stop()


def test_spark_refuses_each_of_these_mistakes_too(spark: SparkSession) -> None:
    for sql, *_ in WRONG:
        with pytest.raises((AnalysisException, ParseException)):
            spark.sql(sql)


@pytest.mark.parametrize("sql", RIGHT)
def test_spark_takes_these_queries_too(sql: str, spark: SparkSession) -> None:
    spark.sql(sql)


SPEC: Final = """\
pipeline: p
checkpoint: {location: state}
sources:
  - name: orders
    connector: kafka
    bootstrap_servers: k:1
    topics: [orders]
    format: {type: json, schema: "id BIGINT, user STRING, at TIMESTAMP"}
transforms:
  - {name: big, sql: "SELECT id AS number, user, at FROM orders"}
  - {name: small, sql: "SELECT number, user, _KEYS FROM big"}
sinks:
  - {name: out, from: small, connector: sqlite, path: x.db, table: t, commit: write-ahead-log}
"""
RIGHT_SPEC: Final = SPEC.replace(", _KEYS", "")


def mistakes(folder: Path, text: str, **environ: str) -> list[Mistake]:
    (folder / "spec.yaml").write_text(text)
    try:
        load_spec(folder / "spec.yaml", environ)
    except SpecMistakesError as error:
        return list(error.mistakes)
    return []


def test_columns_are_followed_from_step_to_step(tmp_path: Path) -> None:
    assert mistakes(tmp_path, RIGHT_SPEC) == []
    (mistake,) = mistakes(tmp_path, SPEC)
    assert (mistake.line, mistake.path) == (11, "transforms[1].sql")
    assert mistake.found == "line 1, column 22 of the SQL: unknown column '_KEYS'"
    assert mistake.allowed == ("number", "user", "at")


@pytest.mark.parametrize(
    ("old", "new", "said", "near"),
    [
        ("FROM orders", "FROM odrers", "unknown source or step 'odrers'", "orders"),
        ("FROM orders", "FROM small", "'small' is a later step; steps read from earlier steps and sources", ""),
        ("FROM orders", "FROM out", "unknown source or step 'out'", ""),
    ],
)
def test_a_view_that_is_not_there_is_named(old: str, new: str, said: str, near: str, tmp_path: Path) -> None:
    (mistake,) = mistakes(tmp_path, RIGHT_SPEC.replace(old, new))
    assert mistake.found == f"line 1, column 36 of the SQL: {said}"
    assert (mistake.suggestion, mistake.allowed) == (near, ("orders",))


def test_mistakes_of_all_steps_and_keys_are_reported_at_once(tmp_path: Path) -> None:
    text = SPEC.replace("FROM orders", "FORM orders").replace(", commit: write-ahead-log", "")
    text = text.replace("FROM big", "FROM bigg")
    assert [each.path for each in mistakes(tmp_path, text)] == [
        "transforms[0].sql",
        "transforms[1].sql",
        "sinks[0].commit",
    ]


def test_the_columns_that_a_sink_or_a_watermark_names_are_those_of_its_step(tmp_path: Path) -> None:
    upsert = RIGHT_SPEC.replace("commit: write-ahead-log", "commit: upsert, key: [numbr]")
    (mistake,) = mistakes(tmp_path, upsert)
    assert (mistake.found, mistake.suggestion) == ("the rows of 'small' have no column 'numbr'", "number")
    late = RIGHT_SPEC.replace('user FROM big"', 'user FROM big", watermark: {column: at, delay: 1min}')
    (mistake,) = mistakes(tmp_path, late)
    assert (mistake.path, mistake.found) == (
        "transforms[1].watermark.column",
        "the rows of 'small' have no column 'at'",
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sinks:\n", "spark: {conf: {spark.sql.catalog.lake: x.Y}}\nsinks:\n"),
        ("transforms:\n", "transforms:\n  - {name: made, python: a:b, from: orders}\n"),
    ],
)
def test_a_table_may_be_elsewhere(old: str, new: str, tmp_path: Path) -> None:
    """A catalog of Spark's, or the code of a Python step, may bring tables that no source and no step is."""
    text = RIGHT_SPEC.replace(old, new).replace("FROM big", "FROM big JOIN elsewhere")
    assert mistakes(tmp_path, text) == []
    assert len(mistakes(tmp_path, text.replace(new, old))) == 1


def test_columns_of_a_python_step_are_not_known(tmp_path: Path) -> None:
    text = SPEC.replace('sql: "SELECT id AS number, user, at FROM orders"', "python: a:b, from: orders")
    assert mistakes(tmp_path, text) == []


def test_sql_that_a_reference_brings_is_not_quoted(tmp_path: Path) -> None:
    text = RIGHT_SPEC.replace("user FROM big", "'${SECRET}', hidn FROM big")
    (mistake,) = mistakes(tmp_path, text, SECRET="horse-battery")
    assert "horse" not in repr(mistake)
    assert "${SECRET}" in mistake.found
