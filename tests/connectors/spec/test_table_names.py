"""The tables that a step's SQL reads: the lexer of the spec gives the answers of Spark's parser.

`tests/golden/table_names.json` holds texts, and for each the tables that the parser of Spark finds. To add a text, give
it an empty list and run `python -m tests.connectors.spec.test_table_names`, which writes the answers of Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from connectors.spec import load_spec
from connectors.spec.table_names import names_in
from integration_tests.harness.rotation import seed_of_run
from spark_jobs.session.settings import DEFAULTS, LOOPBACK

FILE: Final = Path(__file__).resolve().parents[2] / "golden" / "table_names.json"
ANSWERS: Final[dict[str, list[str]]] = json.loads(FILE.read_text())
_TABLES: Final = re.compile(
    r"UnresolvedRelation \[(?P<parts>[^]]*)\]|PlanWithUnresolvedIdentifier (?P<identifier>[^,]*),"
)
KNOWN: Final = ["orders", "users", "clicks", "joined", "odd name", "ünï"]


def test_the_tables_of_a_query_are_those_that_sparks_parser_finds() -> None:
    assert len(ANSWERS) > 1000
    assert {sql: names_in(sql, KNOWN) for sql in ANSWERS} == ANSWERS


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT ünï FROM orders JOIN ünï", ["orders", "ünï"]),  # Spark wants backticks, and says so at the start
        ('SELECT * FROM "orders" JOIN users', ["orders", "users"]),  # with spark.sql.ansi.doubleQuotedIdentifiers
    ],
)
def test_names_that_spark_may_refuse_are_found(sql: str, names: list[str]) -> None:
    assert names_in(sql, KNOWN) == names


@pytest.mark.parametrize(
    "sql", ["", ")", "((", "SELECT", "FROM", "FROM,", "WITH", "WITH a", "WITH,", "|>", ".", "JOIN"]
)
def test_a_text_that_is_no_query_names_nothing(sql: str) -> None:
    assert names_in(sql, KNOWN) == []


_SPEC: Final = """\
pipeline: p
checkpoint: {location: ./checkpoints}
sources:
  - {name: orders, connector: kafka, bootstrap_servers: "k:1", topics: [orders], format: {type: string}}
  - {name: clicks, connector: kafka, bootstrap_servers: "k:1", topics: [clicks], format: {type: string}}
transforms:
  - {name: joined, sql: "SELECT value, 1 AS clicks FROM orders"}
  - {name: small, sql: "SQL"}
sinks:
  - {name: all, from: joined, connector: sqlite, path: ./rows.db, table: orders, commit: write-ahead-log}
  - {name: some, from: small, connector: sqlite, path: ./rows.db, table: small, commit: write-ahead-log}
"""


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT value, 1 AS clicks FROM joined",
        "SELECT value, 1 clicks FROM joined",
        "SELECT value, clicks FROM joined",
        "SELECT value FROM joined ORDER BY value, clicks",
    ],
)
def test_a_column_may_be_called_as_a_source(sql: str, tmp_path: Path) -> None:
    """Were `clicks` taken for the source, the sinks would have no step in common, and the spec were refused."""
    path = tmp_path / "spec.yaml"
    path.write_text(_SPEC.replace("SQL", sql))
    spec = load_spec(path, {})
    assert spec.inputs["small"] == ["joined"]
    assert spec.trunk == "joined"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[1]").config(
        map={**DEFAULTS, **LOOPBACK, "spark.driver.memory": "512m"}
    )
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def test_the_answers_are_those_of_this_spark(spark: SparkSession) -> None:
    seed = seed_of_run()
    some = dict(
        list(ANSWERS.items())[slice(None) if seed is None else slice(seed % 20, None, 20)]
    )  # other texts each run
    assert {sql: tables_of(spark, sql) for sql in some} == some


def tables_of(spark: SparkSession, sql: str) -> list[str]:
    """Return the known names that Spark's parser finds as tables in a query. WITH is resolved by Spark as well."""
    jvm: Any = spark.sparkContext._jvm
    resolve_with = getattr(jvm, "org.apache.spark.sql.catalyst.analysis.CTESubstitution")
    plan = resolve_with.apply(spark._jsparkSession.sessionState().sqlParser().parsePlan(sql)).toString()
    found = {(match["parts"] or match["identifier"]).strip("`").casefold() for match in _TABLES.finditer(plan)}
    return [name for name in KNOWN if name in found]


def _write_answers() -> None:
    session = SparkSession.builder.master("local[1]").config(map={**DEFAULTS, **LOOPBACK}).getOrCreate()
    answers = {sql: tables_of(session, sql) for sql in ANSWERS}
    session.stop()
    lines = ",\n".join(f"{json.dumps(sql, ensure_ascii=False)}: {json.dumps(names)}" for sql, names in answers.items())
    FILE.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    _write_answers()
