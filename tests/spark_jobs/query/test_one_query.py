"""A step's SQL is one query: commands, code and files are refused before Spark runs anything of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from connectors.spec import Spec, SqlStep
from eos.errors import SpecError
from spark_jobs.query.one_query import FILES, check_query
from spark_jobs.query.steps import apply_steps
from spark_jobs.session.settings import DEFAULTS, LOOPBACK

SECRET: Final = "what the query must not see"
HIT: Final = "eos.step.has.run.java"
JAVA: Final = f"'java.lang.System', 'setProperty', '{HIT}', 'x'"
DTD: Final = """'<!DOCTYPE a SYSTEM "file://{folder}/secret"><a/>', 'a'"""
XSD: Final = "map('rowValidationXSDPath', '{folder}/secret')"

ATTACKS: Final = {
    # Java by name
    "reflect": f"SELECT reflect({JAVA}) FROM s",
    "java_method": f"SELECT java_method({JAVA}) FROM s",
    "try_reflect": f"SELECT try_reflect({JAVA}) FROM s",
    "a qualified name": f"SELECT system.builtin.`reflect`({JAVA}) FROM s",
    "a computed name": f"SELECT IDENTIFIER('java_' || 'method')({JAVA}) FROM s",
    "a name that depends on the time": f"SELECT IDENTIFIER(if(now() > '2020-01-01', 'reflect', 'uuid'))({JAVA}) FROM s",
    "a name as text": f"SELECT IDENTIFIER('builtin.reflect')({JAVA}) FROM s",
    "in WITH": f"WITH a AS (SELECT java_method({JAVA}) AS x) SELECT s.* FROM s, a",
    "in a WITH that nothing reads": f"WITH a AS (SELECT java_method({JAVA}) AS x) SELECT * FROM s",
    "in a subquery": f"SELECT * FROM s WHERE user = (SELECT max(java_method({JAVA})) FROM t)",
    "in EXISTS": f"SELECT * FROM s WHERE EXISTS (SELECT 1 FROM t WHERE java_method({JAVA}) = 'y')",
    "in a lateral join": f"SELECT l.x FROM s, LATERAL (SELECT java_method({JAVA}) AS x) l",
    "in a lambda": f"SELECT transform(array(1), x -> java_method({JAVA})) FROM s",
    "in a generator": f"SELECT x FROM s LATERAL VIEW explode(array(java_method({JAVA}))) e AS x",
    "in a table function": f"SELECT * FROM explode(array(java_method({JAVA})))",
    "in a table function by IDENTIFIER": f"SELECT * FROM IDENTIFIER('explode')(array(java_method({JAVA})))",
    "a name with blanks": f"SELECT IDENTIFIER(' java_method ')({JAVA}) FROM s",
    "no name": f"SELECT IDENTIFIER(NULL)({JAVA}) FROM s",
    "a number as a name": f"SELECT IDENTIFIER(1)({JAVA}) FROM s",
    "in a window": f"SELECT count(*) OVER w FROM s WINDOW w AS (PARTITION BY java_method({JAVA}))",
    "in a window that nothing uses": f"SELECT * FROM s WINDOW w AS (PARTITION BY java_method({JAVA}))",
    "in constants": f"SELECT * FROM VALUES (java_method({JAVA})) AS v(x)",
    "in LIMIT": f"SELECT * FROM s LIMIT length(java_method({JAVA}))",
    "in a filter of an aggregate": f"SELECT count(*) FILTER (WHERE java_method({JAVA}) = 'y') FROM s",
    "in HAVING": f"SELECT user FROM s GROUP BY user HAVING max(java_method({JAVA})) = 'y'",
    "in QUALIFY": f"SELECT id FROM s QUALIFY row_number() OVER (ORDER BY java_method({JAVA})) = 1",
    "in a pipe": f"FROM s |> SELECT java_method({JAVA})",
    "in a join's condition": f"SELECT s.id FROM s JOIN t ON java_method({JAVA}) = t.user",
    "in PIVOT": f"SELECT * FROM s PIVOT (max(java_method({JAVA})) FOR user IN ('a'))",
    "in a union": f"SELECT user FROM s UNION ALL (SELECT java_method({JAVA}))",
    "in a recursion": f"WITH RECURSIVE r(n) AS (SELECT java_method({JAVA}) UNION ALL SELECT n FROM r LIMIT 2) TABLE r",
    "behind a hint and a comment": f"SELECT /*+ BROADCAST(s) */ /* x */ java_method /**/ ({JAVA}) FROM s -- y",
    # programs
    "TRANSFORM": "SELECT TRANSFORM(id) USING 'touch {folder}/touched' AS (x) FROM s",
    "MAP": "FROM s MAP id USING 'touch {folder}/touched' AS (x)",
    "TRANSFORM in WITH": "WITH a AS (SELECT TRANSFORM(id) USING 'touch {folder}/touched' AS (x) FROM s) TABLE a",
    # commands
    "ADD JAR": "ADD JAR '{folder}/x.jar'",
    "ADD FILE": "ADD FILE '{folder}/secret'",
    "CREATE TEMPORARY VIEW … USING": "CREATE TEMPORARY VIEW made USING text OPTIONS (path '{folder}/secret')",
    "CREATE VIEW": "CREATE OR REPLACE TEMPORARY VIEW s AS SELECT 1",
    "CREATE VIEW by IDENTIFIER": "CREATE OR REPLACE TEMPORARY VIEW IDENTIFIER('ma' || 'de') AS SELECT 1",
    "CREATE TABLE": "CREATE TABLE made USING csv LOCATION '{folder}/written' AS SELECT * FROM s",
    "CREATE FUNCTION": "CREATE TEMPORARY FUNCTION made AS 'java.lang.Runtime' USING JAR '{folder}/x.jar'",
    "CREATE SQL FUNCTION": "CREATE TEMPORARY FUNCTION made() RETURNS INT RETURN 1",
    "INSERT OVERWRITE DIRECTORY": "INSERT OVERWRITE DIRECTORY '{folder}/written' USING csv SELECT * FROM s",
    "INSERT OVERWRITE LOCAL DIRECTORY": "INSERT OVERWRITE LOCAL DIRECTORY '{folder}/written' SELECT * FROM s",
    "INSERT behind WITH": "WITH a AS (SELECT 1) INSERT OVERWRITE DIRECTORY '{folder}/written' USING csv TABLE a",
    "INSERT behind FROM": "FROM s INSERT OVERWRITE DIRECTORY '{folder}/written' SELECT id",
    "INSERT INTO": "INSERT INTO IDENTIFIER('t') SELECT * FROM s",
    "LOAD DATA": "LOAD DATA LOCAL INPATH '{folder}/secret' INTO TABLE t",
    "SET": "SET spark.sql.runSQLOnFiles=true",
    "RESET": "RESET",
    "a script": f"BEGIN SELECT java_method({JAVA}); END",
    "a script that declares": "BEGIN DECLARE x INT DEFAULT 1; SELECT x; END",
    "EXECUTE IMMEDIATE": f"EXECUTE IMMEDIATE 'SELECT java_' || 'method({JAVA.replace(chr(39), chr(39) * 2)})'",
    "DECLARE": "DECLARE VARIABLE made INT DEFAULT 1",
    "SET VAR": "SET VAR made = 1",
    "CALL": "CALL a.b()",
    "USE": "USE a",
    "SHOW": "SHOW TABLES",
    "DESCRIBE": "DESCRIBE s",
    "EXPLAIN": "EXPLAIN SELECT * FROM s",
    "CACHE TABLE": "CACHE TABLE made AS SELECT * FROM s",
    "ANALYZE": "ANALYZE TABLE s COMPUTE STATISTICS",
    "REFRESH": "REFRESH '{folder}/secret'",
    "DROP": "DROP VIEW s",
    "MERGE": "MERGE INTO t USING s ON s.id = t.id WHEN MATCHED THEN DELETE",
    # files
    "a file as a table": "SELECT * FROM text.`{folder}/secret`",
    "a file as a table by IDENTIFIER": "SELECT * FROM IDENTIFIER('text.`{folder}/secret`')",
    "a file by a computed name": "SELECT * FROM IDENTIFIER('te' || 'xt.`{folder}/secret`')",
    "a file in a subquery": "SELECT (SELECT max(value) FROM text.`{folder}/secret`) AS x FROM s",
    "read_files": "SELECT * FROM read_files('{folder}/secret')",
    "an XML schema": "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '{folder}/secret')) FROM s",
    "an XML schema in constants": "VALUES (from_xml('<a/>', 'a INT', map('ROWVALIDATIONXSDPATH', '{folder}/secret')))",
    "an XML schema by a computed option": "SELECT from_xml('<a/>', 'a INT', map('rowValidation' || 'XSDPath', 'x'))",
    "an XML schema in schema_of_xml": "SELECT schema_of_xml('<a/>', map('rowValidationXSDPath', '{folder}/secret'))",
    "an Avro schema": "SELECT from_avro(user, '\"int\"', map('avroSchemaUrl', '{folder}/secret')) FROM s",
    "a descriptor": "SELECT from_protobuf(user, 'M', '{folder}/secret') FROM s",
    "a DTD": f"SELECT xpath_string({DTD}) FROM s",
    "a DTD by a name with blanks": f"SELECT IDENTIFIER(' xpath_string ')({DTD}) FROM s",
    "a DTD by a name with a comment": f"SELECT IDENTIFIER('/**/xpath_string')({DTD}) FROM s",
    "a DTD by a name in backticks": f"SELECT IDENTIFIER('`xpath_string` ')({DTD}) FROM s",
    "a DTD by a qualified name": f"SELECT IDENTIFIER('system . builtin . xpath_string')({DTD}) FROM s",
    "a DTD in a name": f"SELECT IDENTIFIER(IDENTIFIER(' xpath_string ')({DTD})) FROM s",
    "a DTD in constants": f"SELECT * FROM VALUES (IDENTIFIER(' xpath_string ')({DTD})) AS v(x)",
    "a DTD in PIVOT": f"SELECT * FROM s PIVOT (count(*) FOR user IN (IDENTIFIER(' xpath_string ')({DTD})))",
    "a DTD in a table function": f"SELECT * FROM IDENTIFIER('range')(length(xpath_string({DTD})))",
    "a DTD in a window": f"SELECT sum(id) OVER w FROM s WINDOW w AS (ORDER BY (SELECT xpath_string({DTD})))",
    "a DTD in a window that nothing uses": f"SELECT * FROM s WINDOW w AS (ORDER BY (SELECT xpath_string({DTD})))",
    "a DTD in SET": f"FROM s |> SET user = (SELECT xpath_string({DTD}))",
    "a DTD in EXTEND": f"FROM s |> EXTEND (SELECT xpath_string({DTD})) AS x",
    "a DTD in AGGREGATE": f"FROM s |> AGGREGATE max((SELECT xpath_string({DTD}))) GROUP BY id",
    "a DTD in an order": f"SELECT IDENTIFIER('listagg')(user) WITHIN GROUP (ORDER BY xpath_string({DTD})) FROM s",
    "an XML schema by a name with blanks": f"SELECT IDENTIFIER(' from_xml ')('<a/>', 'a INT', {XSD}) FROM s",
    "an XML schema in a schema": f"SELECT from_xml('<a/>', IDENTIFIER(' schema_of_xml ')('<a/>', {XSD})) FROM s",
    "an XML schema in SET": f"FROM s |> SET user = (SELECT schema_of_xml('<a/>', {XSD}))",
    "an Avro schema by a name with blanks": "SELECT IDENTIFIER(' from_avro ')(user, '', map('avroSchemaUrl', 'x'))",
    "a descriptor by a name with blanks": "SELECT IDENTIFIER(' from_protobuf ')(user, 'M', '{folder}/secret') FROM s",
    "read_files by a name with blanks": "SELECT * FROM IDENTIFIER(' read_files ')('{folder}/secret')",
    "a DTD in any function of XPath": "SELECT xpath(user, 'a'), xpath_number(user, 'a') FROM s",
    # two of them
    "two statements": f"SELECT * FROM s; SELECT java_method({JAVA})",
}

OF_SPARK: Final = {
    *("a file as a table", "a file as a table by IDENTIFIER", "a file in a subquery", "read_files", "two statements"),
    *("read_files by a name with blanks", "no name", "a number as a name"),
}
"""Attacks that Spark itself refuses."""

QUERIES: Final = {
    "a filter": "SELECT id, upper(user) AS u FROM s WHERE id > 1 ORDER BY id LIMIT 3",
    "a join": "SELECT s.id, t.user FROM s JOIN t USING (id)",
    "a hint": "SELECT /*+ BROADCAST(t), COALESCE(1) */ s.id FROM s LEFT JOIN t ON s.id = t.id",
    "a window": "SELECT id, row_number() OVER (PARTITION BY user ORDER BY id) AS n FROM s QUALIFY n = 1",
    "a named window": "SELECT sum(id) OVER w AS n FROM s WINDOW w AS (PARTITION BY user)",
    "an aggregate": "SELECT user, count(*) AS n FROM s GROUP BY ROLLUP (user) HAVING count(*) > 0",
    "time windows": "SELECT window(now(), '1 minute').start AS w, count(*) AS n FROM s GROUP BY 1",
    "subqueries": "SELECT * FROM s WHERE id IN (SELECT id FROM t) AND id = (SELECT max(id) FROM t WHERE t.id = s.id)",
    "a lateral join": "SELECT s.id, l.y FROM s, LATERAL (SELECT s.id + 1 AS y) l",
    "a lateral view": "SELECT s.id, x FROM s LATERAL VIEW OUTER explode(array(1, 2)) e AS x",
    "WITH": "WITH a AS (SELECT * FROM s), b AS (SELECT * FROM a) SELECT * FROM b UNION ALL SELECT * FROM a",
    "a recursion": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r",
    "sets": "SELECT DISTINCT id FROM s EXCEPT SELECT 5 INTERSECT SELECT id FROM t",
    "constants": "SELECT * FROM VALUES (1, upper('x')), (2, 'b') AS v(a, b) JOIN s ON a = id",
    "table functions": "SELECT * FROM range(3) CROSS JOIN explode(array(1))",
    "PIVOT": "SELECT * FROM s PIVOT (count(*) FOR user IN ('a', 'b'))",
    "UNPIVOT": "SELECT * FROM s UNPIVOT (v FOR n IN (id))",
    "a sample": "SELECT * FROM s TABLESAMPLE (10 PERCENT)",
    "pipes": "FROM s |> WHERE id > 1 |> EXTEND id + 1 AS n |> AGGREGATE count(*) AS c GROUP BY user",
    "a lambda": "SELECT transform(array(1), x -> x + 1) AS a, aggregate(array(1), 0, (a, b) -> a + b) AS b FROM s",
    "a whole table": "TABLE s",
    "a subquery in a named window": "SELECT sum(id) OVER w FROM s WINDOW w AS (ORDER BY (SELECT max(id) FROM t))",
    "a pipe that sets a column": "FROM s |> SET user = (SELECT max(user) FROM t)",
    "a name in IDENTIFIER": "SELECT IDENTIFIER('upper')(user) AS u FROM IDENTIFIER('s')",
    "names in IDENTIFIER": "SELECT IDENTIFIER(' system.`builtin`.upper ')(user) FROM s, IDENTIFIER('range')(3)",
    "JSON and XML": "SELECT from_json(user, 'a INT', map('mode', 'PERMISSIVE')) AS a, from_csv(user, 'a INT') AS b,"
    " from_xml(user, 'a INT', map('rowTag', 'r')) AS c, schema_of_xml('<a>1</a>') AS d FROM s",
    "harmless functions": "SELECT input_file_name() AS a, version() AS b, current_user() AS c, uuid() AS d,"
    " assert_true(id > 0) AS e, typeof(id) AS f FROM s",
    "an error of the query's own": "SELECT CASE WHEN id < 0 THEN raise_error('x') ELSE 'y' END AS x FROM s",
    "a name of a function as a column": "SELECT user AS reflect, 'java_method(' AS b FROM s -- reflect(1)",
    "a function that Python has registered": "SELECT shout(user) AS u FROM s",
    "a view that Python has made": "SELECT * FROM of_python",
    "a semicolon": "SELECT * FROM s;",
}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    own = {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "1"}
    builder = SparkSession.builder.master("local[1]").config(map={**DEFAULTS, **LOOPBACK, **own})
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.udf.register("shout", lambda text: f"{text}!", "string")
    yield session
    session.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(SECRET)
    os.utime(tmp_path / "secret", (0, 1))  # a first read changes the first number
    return tmp_path


def apply(spark: SparkSession, sql: str) -> DataFrame:
    """A step with this SQL, which no check of the spec's text has seen."""
    step = SqlStep.model_construct(name="r", sql=sql, watermark=None, output_mode="append")
    rows = spark.range(1, 3).selectExpr("id", "cast(id AS string) AS user")
    rows.createOrReplaceTempView("of_python")
    spec = cast(Spec, SimpleNamespace(transforms=[step], folder=Path()))
    return apply_steps(spark, spec, [step], {"s": rows, "t": rows})["r"]


def state(spark: SparkSession, folder: Path) -> object:
    """All that an attack may have changed."""
    jvm: Any = spark.sparkContext._jvm
    return (
        jvm.java.lang.System.getProperty(HIT),
        sorted(each.name for each in folder.iterdir()),
        (folder / "secret").stat().st_atime,
        [spark.catalog.tableExists(name) for name in ("s", "t", "made")],
        spark.catalog.functionExists("made"),
        spark.conf.get(FILES),
        len(spark.sparkContext.listFiles),
        spark.table("s").columns,
    )


@pytest.mark.parametrize(("name", "sql"), ATTACKS.items(), ids=ATTACKS)
def test_more_than_a_query_is_refused_and_has_done_nothing(
    spark: SparkSession, folder: Path, name: str, sql: str
) -> None:
    apply(spark, "TABLE s")  # the views are there
    before = state(spark, folder)
    with pytest.raises(SpecError) as failure:
        apply(spark, sql.replace("{folder}", str(folder)))
    assert state(spark, folder) == before
    assert failure.value.message.startswith("transforms[0] (r): ")
    own = "the sql is not one query" in failure.value.message
    assert own != (name in OF_SPARK), failure.value
    assert SECRET not in str(failure.value)


@pytest.mark.parametrize("sql", QUERIES.values(), ids=QUERIES)
def test_a_query_goes_on(spark: SparkSession, sql: str) -> None:
    assert apply(spark, sql).columns


def test_files_are_read_where_the_spec_allows_it_and_nothing_else(spark: SparkSession, folder: Path) -> None:
    spark.conf.set(FILES, "true")
    try:
        (row,) = apply(spark, f"SELECT * FROM text.`{folder}/secret`").collect()
        assert row.value == SECRET
        for sql in ("reflect", "a name with blanks", "INSERT OVERWRITE DIRECTORY", "a computed name", "TRANSFORM"):
            with pytest.raises(SpecError, match="not one query"):
                apply(spark, ATTACKS[sql].replace("{folder}", str(folder)))
    finally:
        spark.conf.set(FILES, "false")
    with pytest.raises(SpecError):
        apply(spark, f"SELECT * FROM text.`{folder}/secret`")


def test_spark_reads_a_file_before_it_runs_a_query(spark: SparkSession, folder: Path) -> None:
    """So the check must come before Spark resolves names. Also shows that `state` has the read of a file."""
    secret = folder / "secret"
    secret.write_text(f"<!ENTITY e '{SECRET}'>")
    os.utime(secret, (0, 1))
    text = f"""xpath_string('<!DOCTYPE a SYSTEM "file://{secret}"><a>&e;</a>', 'a')"""
    apply(spark, "TABLE s")
    before = state(spark, folder)
    spark.conf.set(FILES, "true")
    try:
        assert SECRET in apply(spark, f"SELECT * FROM s PIVOT (count(*) FOR user IN ({text}))").columns
    finally:
        spark.conf.set(FILES, "false")
    after = state(spark, folder)
    secret.read_text()
    if secret.stat().st_atime == 0:
        pytest.skip("this file system does not record reads")
    assert after != before


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("xpath_string(x, 'a')", "xpath_string reads the DTD"),
        ("CAST(xpath(x, 'a') AS STRING)", "xpath reads the DTD"),
        ("CAST(xpath_number(x, 'a') AS STRING)", "xpath_number reads the DTD"),
        ("from_xml(x, 'a STRING', map('ROWVALIDATIONXSDPATH', '/x')).a", "from_xml reads a file"),
        ("schema_of_xml('<a/>', map('rowValidationXSDPath', '/x'))", "schema_of_xml reads a file"),
        (f"java_method({JAVA})", "calls Java by name"),
    ],
)
def test_a_function_of_sql_that_reads_files_or_calls_java_is_refused(
    spark: SparkSession, folder: Path, body: str, reason: str
) -> None:
    apply(spark, "TABLE s")
    before = state(spark, folder)
    spark.sql(f"CREATE TEMPORARY FUNCTION of_sql(x STRING) RETURNS STRING RETURN {body}")
    try:
        with pytest.raises(SpecError, match=reason):
            apply(spark, "SELECT of_sql(user) AS a FROM s")
    finally:
        spark.sql("DROP TEMPORARY FUNCTION of_sql")
    assert state(spark, folder) == before


def test_a_variable_of_spark_is_the_text_that_it_is(spark: SparkSession) -> None:
    """Spark would put the environment, a property or a setting there: a secret that nobody knows to be one."""
    texts = ("${env:PATH}", "${system:user.home}", "${spark.app.id}", "${spark:spark.app.id}")
    columns = ", ".join(f"'{each}' AS c{at}" for at, each in enumerate(texts))
    assert {tuple(row) for row in apply(spark, f"SELECT {columns} FROM s").collect()} == {texts}


def test_a_streaming_query_goes_on(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate").load()
    rows.createOrReplaceTempView("rates")
    windows = "SELECT window(timestamp, '1 minute').start AS w, count(*) AS n FROM rates GROUP BY 1"
    for sql in (windows, "SELECT * FROM rates JOIN s ON id = value", "SELECT * FROM STREAM rates"):
        assert apply(spark, sql).isStreaming, sql


def test_a_text_that_has_passed_is_not_looked_at_again(spark: SparkSession) -> None:
    sql = "SELECT id AS once FROM s"
    apply(spark, sql)
    check_query(cast(SparkSession, SimpleNamespace(conf=spark.conf)), sql)


def test_the_functions_of_spark_have_been_looked_at(spark: SparkSession) -> None:
    """Another Spark may bring functions that call code or read files: look at them, then change the list."""
    listed = spark._jsparkSession.sessionState().functionRegistry().listFunction().mkString("\n").split("\n")
    names = sorted(name.rpartition(".")[2] for name in listed if "shout" not in name)
    known = (Path(__file__).parents[2] / "golden" / "spark_functions.txt").read_text().split("\n")
    assert names == known[:-1]
