"""Every kind of mistake, with its line and path; and all of them at once."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from connectors.spec import Mistake, PythonStep, SpecMistakesError, load_spec
from connectors.sql.mysql.entry import MySqlEntry

GOOD = """\
pipeline: orders
checkpoint:
  location: ./checkpoints
  interval: 2s
sources:
  - name: orders
    connector: kafka
    bootstrap_servers: localhost:9092
    topics: [orders]
    format: {type: string}
transforms:
  - name: big
    sql: SELECT value FROM orders
  - name: small
    python: steps:small
    from: big
sinks:
  - name: warehouse
    from: small
    connector: mysql
    url: mysql+pymysql://user@host/shop
    table: orders
    commit: two-phase
"""


def mistakes_of(folder: Path, text: str) -> list[Mistake]:
    path = folder / "spec.yaml"
    path.write_text(text)
    with pytest.raises(SpecMistakesError) as caught:
        load_spec(path, {})
    return list(caught.value.mistakes)


def change(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, f"{old!r} must stand once in the good spec"
    return GOOD.replace(old, new)


def test_the_unchanged_spec_is_right(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(GOOD)
    spec = load_spec(path, {})
    assert (spec.pipeline, spec.checkpoint.interval_s, spec.folder) == ("orders", 2.0, tmp_path)
    assert spec.checkpoint.folder == tmp_path / "checkpoints"
    assert spec.transforms[1].from_ == ["small"] or spec.transforms[1].from_ == ("big",)  # type: ignore[union-attr]


# (what is changed, into what, line, path, part of what is said)
SINGLE = [
    (
        "    format: {",
        "    formt: {",
        10,
        "sources[0].formt",
        "unknown key 'formt'; did you mean 'format'? allowed: name",
    ),
    ("pipeline: orders", "pipelin: orders", 1, "pipelin", "unknown key 'pipelin'; did you mean 'pipeline'?"),
    ("pipeline: orders", "pipeline: 12", 1, "pipeline", "wrong type: 12 (a number); write it in quotes; allowed: text"),
    ("pipeline: orders", "pipeline: ''", 1, "pipeline", "too short"),
    ("pipeline: orders", f"pipeline: {'x' * 201}", 1, "pipeline", "too long: 201 characters; allowed: at most 200"),
    ("pipeline: orders", 'pipeline: "a\\nb"', 1, "pipeline", "cannot be printed"),
    ("pipeline: orders\n", "version: 1\n", 1, "pipeline", "missing key 'pipeline'"),
    ("  location: ./checkpoints\n", "", 2, "checkpoint.location", "missing key 'location'"),
    ("location: ./checkpoints", "location: viewfs://b/x", 3, "checkpoint.location", "'viewfs://' is not possible here"),
    ("location: ./checkpoints", "location: [x]", 3, "checkpoint.location", "a list is not a path"),
    ("interval: 2s", "interval: 2", 4, "checkpoint.interval", "2 has no unit; did you mean '2s'?"),
    ("interval: 2s", "interval: 2m", 4, "checkpoint.interval", "unknown unit 'm' in '2m'; did you mean '2min'?"),
    ("interval: 2s", "interval: soon", 4, "checkpoint.interval", "'soon' is not a duration; allowed: a number and"),
    ("interval: 2s", "interval: -2s", 4, "checkpoint.interval", "'-2s' is not a duration"),
    ("interval: 2s", "timeout: 0s", 4, "checkpoint.timeout", "0 is too short"),
    ("interval: 2s", "retained: 0", 4, "checkpoint.retained", "too small: 0; allowed: at least 1"),
    ("interval: 2s", "retained: true", 4, "checkpoint.retained", "wrong type: true (true or false)"),
    ("interval: 2s", "retained: 1.5", 4, "checkpoint.retained", "wrong type: 1.5 (a number)"),
    ("interval: 2s", "mode: exactly-onc", 4, "checkpoint.mode", "did you mean 'exactly-once'?"),
    ("interval: 2s", "min_pause: 1", 4, "checkpoint.min_pause", "1 has no unit; did you mean '1s'?"),
    (
        "interval: 2s",
        "max_concurrent: 2",
        4,
        "checkpoint.max_concurrent",
        "the key 'max_concurrent' was removed: write `max_backlog: {checkpoints: N}` at each sink, with N = max_con",
    ),
    (
        "interval: 2s",
        "tolerable_failures: 0",
        4,
        "checkpoint.tolerable_failures",
        "the key 'tolerable_failures' was removed: a failed checkpoint is run again as `restart` says",
    ),
    (
        "interval: 2s",
        "max_records_per_checkpoint: automatic",
        4,
        "checkpoint.max_records_per_checkpoint",
        "wrong value: 'automatic'; allowed: a number from 1 to 2,147,483,647, auto",
    ),
    (
        "interval: 2s",
        "max_records_per_checkpoint: true",
        4,
        "checkpoint.max_records_per_checkpoint",
        "wrong value: true",
    ),
    ("interval: 2s", "max_records_per_checkpoint: 0", 4, "checkpoint.max_records_per_checkpoint", "too small: 0"),
    ("interval: 2s", "head: nowhere", 4, "checkpoint.head", "'nowhere' is not a database URL"),
    ("connector: kafka", "connector: kafca", 7, "sources[0].connector", "did you mean 'kafka'? allowed: kafka"),
    ("topics: [orders]", "topics: orders", 9, "sources[0].topics", "wrong type: 'orders'; allowed: a list"),
    ("topics: [orders]", "topics: []", 9, "sources[0].topics", "at least 1 entry"),
    ("topics: [orders]", "topics: [a, a]", 9, "sources[0].topics", "the topic 'a' stands twice"),
    ("topics: [orders]", "topics: ['^a.*']", 9, "sources[0].topics[0]", "no patterns"),
    ("topics: [orders]", "topics:\n    - a\n    - 3", 11, "sources[0].topics[1]", "wrong type: 3 (a number)"),
    (
        "{type: string}",
        "{type: jsn}",
        10,
        "sources[0].format.type",
        "did you mean 'json'? allowed: avro, canal, csv, debezium, json, maxwell, protobuf, raw, string, upsert",
    ),
    (
        "{type: string}",
        '{type: json, schema: "id BIGINT, tags MAP<DATE, STRING>"}',
        10,
        "sources[0].format.schema",
        "column tags: the names of a JSON object are text, and the keys of the MAP are not",
    ),
    (
        "{type: string}",
        "{type: parquet}",
        10,
        "sources[0].format.type",
        "there is no format 'parquet'; use raw, and a step",
    ),
    ("{type: string}", "{type: XML}", 10, "sources[0].format.type", "no format 'XML'; use string, and from_xml(value"),
    ("{type: string}", "{type: CSV}", 10, "sources[0].format.type", "did you mean 'csv'?"),
    ("{type: string}", "{type: upsert}", 10, "sources[0].format.schema", "missing key 'schema'"),
    ("{type: string}", "{type: json}", 10, "sources[0].format.schema", "missing key 'schema'"),
    ("{type: string}", "{schema: a INT}", 10, "sources[0].format.type", "missing key 'type'"),
    ("{type: string}", "{type: json, schema: a BIGNT}", 10, "sources[0].format.schema", "BIGINT"),
    ("{type: string}", "string", 10, "sources[0].format", "allowed: a mapping"),
    ("{type: string}", "{type: raw, schema: a}", 10, "sources[0].format.schema", "unknown key 'schema'; allowed: type"),
    ("name: big", "name: big-one", 12, "transforms[0].name", "'big-one' is not a name of letters"),
    ("name: big", "name: orders", 12, "transforms[0].name", "taken by the source 'orders' in line 6"),
    ("name: big", "name: ORDERS", 12, "transforms[0].name", "which differs only in case"),
    ("    sql: SELECT value FROM orders\n", "", 12, "transforms[0]", "neither 'sql' nor 'python'"),
    ("python: steps:small", "python: steps.small", 15, "transforms[1].python", "is not 'module:function'"),
    ("python: steps:small", "python: a:b\n    sql: SELECT 1", 14, "transforms[1]", "both 'sql' and 'python'"),
    ("    from: big\n", "    from: bog\n", 16, "transforms[1].from", "unknown step 'bog'; did you mean 'big'?"),
    ("    from: big\n", "    from: small\n", 16, "transforms[1].from", "a cycle: 'small' reads from itself"),
    (
        "    from: big\n",
        "    from: warehouse\n",
        16,
        "transforms[1].from",
        "'warehouse' is a sink, which nothing can read",
    ),
    ("    from: big\n", "    from: [big, big]\n", 16, "transforms[1].from", "the step 'big' stands twice"),
    ("    from: big\n", "    from: []\n", 16, "transforms[1].from", "at least 1 entry"),
    (
        "    from: big\n",
        "    from: big\n    options: {a b: 1}\n",
        17,
        "transforms[1].options['a b']",
        "cannot be the name",
    ),
    (
        "    from: big\n",
        "    from: big\n    options: {state_ttl_ms: 1}\n    state_ttl: 1h\n",
        18,
        "transforms[1].state_ttl",
        "state_ttl is the argument 'state_ttl_ms', which options also sets",
    ),
    ("    from: big\n", "    from: big\n    state_ttl: 0s\n", 17, "transforms[1].state_ttl", "0 is too short"),
    (
        "    sql: SELECT value FROM orders\n",
        "    sql: SELECT value FROM orders\n    state_ttl: 30d\n",
        14,
        "transforms[0].state_ttl",
        "Spark has no TTL for aggregations, deduplications and joins",
    ),
    ("    from: big\n", "    from: big\n    output_mode: complete\n", 17, "transforms[1].output_mode", "whole result"),
    (
        "    from: big\n",
        "    from: big\n    watermark: {column: t}\n",
        17,
        "transforms[1].watermark.delay",
        "missing key",
    ),
    ("name: warehouse", "name: big", 18, "sinks[0].name", "the name 'big' is taken by the step 'big' in line 12"),
    ("from: small", "from: smal", 19, "sinks[0].from", "unknown step 'smal'; did you mean 'small'?"),
    (
        "connector: mysql",
        "connector: mariadbs",
        20,
        "sinks[0].connector",
        "did you mean 'mariadb'? allowed: kafka, mariadb, mysql, postgresql, print, sqlite",
    ),
    ("url: mysql+pymysql", "url: mysql", 21, "sinks[0].url", "'mysql' is not a driver for this"),
    ("user@host", "us@er@host", 21, "sinks[0].url", "the user name or the password of the URL contains"),
    ("commit: two-phase", "commit: two-phas", 23, "sinks[0].commit", "did you mean 'two-phase'? allowed: two-phase"),
    ("commit: two-phase", "commit: upsert", 23, "sinks[0].commit", "without a key no row can be told from another"),
    ("commit: two-phase", "commit: two-phase\n    create: always", 24, "sinks[0].create", "allowed: never, if-missing"),
    ("commit: two-phase", "commit: two-phase\n    create: true", 24, "sinks[0].create", "allowed: never, if-missing"),
    (
        "commit: two-phase",
        "commit: two-phase\n    evolve: all",
        24,
        "sinks[0].evolve",
        "allowed: none, add-columns, add-and-widen",
    ),
    ("commit: two-phase", "commit: two-phase\n    columns: {}", 24, "sinks[0].columns", "too short"),
    ("commit: two-phase", "commit: two-phase\n    columns: {a: 1}", 24, "sinks[0].columns.a", "write it in quotes"),
    ("commit: two-phase", "commit: two-phase\n    columns: [a]", 24, "sinks[0].columns", "allowed: a mapping"),
    (
        "commit: two-phase",
        "commit: two-phase\n    columns: {a: value, b: value}",
        24,
        "sinks[0].columns",
        "'value' of the rows goes to 2 columns of the table",
    ),
    ("commit: two-phase", "commit: two-phase\n    key: [id]", 24, "sinks[0].key", "'key' is for rows that are merged"),
    ("commit: two-phase", "commit: upsert\n    key: []", 24, "sinks[0].key", ""),
    (
        "commit: two-phase",
        "commit: two-phase\n    order_by: n",
        24,
        "sinks[0].order_by",
        "'order_by' is for rows that are merged",
    ),
    (
        "commit: two-phase",
        "commit: two-phase\n    on_existing: keep",
        24,
        "sinks[0].on_existing",
        "'on_existing' is for rows that are merged",
    ),
    (
        "commit: two-phase",
        "commit: upsert\n    key: [id]\n    deleted: gone\n    order_by: n",
        25,
        "sinks[0].deleted",
        "an older row that arrives later would be put back",
    ),
    (
        "commit: two-phase",
        "commit: upsert\n    key: [id]\n    deleted: gone\n    deleted_at: d",
        26,
        "sinks[0].deleted_at",
        "'deleted' deletes a row, and 'deleted_at' keeps it",
    ),
    (
        "commit: two-phase",
        "commit: upsert\n    key: [id]\n    deleted: gone\n    on_existing: keep",
        25,
        "sinks[0].deleted",
        "with 'on_existing: keep' no row changes",
    ),
    ("commit: two-phase", "commit: two-phase\n    slots: 2", 24, "sinks[0].slots", "only a log has them"),
    ("    commit: two-phase\n", "", 18, "sinks[0].commit", "missing key 'commit'"),
    ("sinks:\n", "dead_letter: {topic: x}\nsinks:\n", 17, "dead_letter.connector", "missing key 'connector'"),
    (
        "sinks:\n",
        "restart: {strategy: failure-rate}\nsinks:\n",
        17,
        "restart.max_failures_per_interval",
        "missing key 'max_failures_per_interval'",
    ),
    ("sinks:\n", "restart: {attempts: 3}\nsinks:\n", 17, "restart.strategy", "missing key 'strategy'"),
    (
        "sinks:\n",
        "restart: {strategy: fixed-delay, delay: 1s}\nsinks:\n",
        17,
        "restart.attempts",
        "missing key 'attempts'",
    ),
    (
        "sinks:\n",
        "restart: {strategy: exponential-delay, max_delay: 1ms}\nsinks:\n",
        17,
        "restart.max_delay",
        "is below initial_delay",
    ),
    (
        "sinks:\n",
        "spark: {conf: {spark.speculation: true}}\nsinks:\n",
        17,
        "spark.conf['spark.speculation']",
        "speculation",
    ),
    ("sinks:\n", "spark: {conf: {spark.master: x}}\nsinks:\n", 17, "spark.conf['spark.master']", "cannot be set here"),
    ("pipeline: orders", "version: 2\npipeline: orders", 1, "version", "wrong value: 2 (a number); allowed: 1"),
    ("pipeline: orders", "pipeline: orders\npipeline: more", 2, "pipeline", "stands twice, first in line 1"),
    ("pipeline: orders", "pipeline: !!int 3", 1, "pipeline", "the tag tag:yaml.org,2002:int is not allowed"),
    ("pipeline: orders", "pipeline: ${env:NOPE}", 1, "pipeline", "the environment variable NOPE is not set"),
    ("pipeline: orders", "pipeline: ${strongbox:x}", 1, "pipeline", "neither a variable nor a file; allowed: ${aws:…}"),
    ("pipeline: orders", "pipeline: ${env:X", 1, "pipeline", "is not closed with '}'"),
    ("pipeline: orders", "pipeline: ${file:/no/such}", 1, "pipeline", "the file /no/such cannot be read: No such file"),
]


@pytest.mark.parametrize(
    ("old", "new", "line", "path", "said"), SINGLE, ids=[f"{c[3]}-{i}" for i, c in enumerate(SINGLE)]
)
def test_a_mistake_names_line_and_path(tmp_path: Path, old: str, new: str, line: int, path: str, said: str) -> None:
    mistakes = mistakes_of(tmp_path, change(old, new))
    shown = "\n".join(m.describe("spec.yaml") for m in mistakes)
    assert [(m.line, m.path) for m in mistakes if m.path == path] == [(line, path)], shown
    assert said in next(m.describe("spec.yaml") for m in mistakes if m.path == path)


def test_a_missing_choice_is_reported_with_the_meaning_of_each_value(tmp_path: Path) -> None:
    (mistake,) = mistakes_of(tmp_path, change("    commit: two-phase\n", ""))
    assert [value for value, _ in mistake.choices] == ["two-phase", "write-ahead-log", "upsert"]
    first, *others = mistake.describe("spec.yaml").splitlines()
    assert first == "spec.yaml:18: sinks[0].commit: missing key 'commit'; choose one:"
    assert others[0] == f"    two-phase        {MySqlEntry.promises['two-phase']}"
    assert len(others) == 3


def test_a_missing_connector_or_format_is_reported_with_what_is_installed(tmp_path: Path) -> None:
    text = GOOD.replace("    connector: kafka\n", "").replace("{type: string}", "{schema: a INT}")
    (connector,) = mistakes_of(tmp_path, text)
    assert (connector.found, connector.allowed) == ("missing key 'connector'", ("kafka",))
    (form,) = mistakes_of(tmp_path, change("{type: string}", "{schema: a INT}"))
    assert form.allowed == (
        "avro",
        "canal",
        "csv",
        "debezium",
        "json",
        "maxwell",
        "protobuf",
        "raw",
        "string",
        "upsert",
    )


def test_one_mistake_is_said_once(tmp_path: Path) -> None:
    """A mistyped key is not reported as missing as well, nor an unresolved value as malformed."""
    assert len(mistakes_of(tmp_path, change("    format: {", "    formt: {"))) == 1
    assert len(mistakes_of(tmp_path, change("mysql+pymysql://user@host/shop", "${env:NOPE}"))) == 1


def test_all_mistakes_of_a_file_are_reported_at_once_in_its_order(tmp_path: Path) -> None:
    text = GOOD
    for old, new in [
        ("pipeline: orders", "pipelin: orders"),
        ("interval: 2s", "interval: 2"),
        ("{type: string}", "{type: xml}"),
        ("    from: big\n", "    from: bog\n"),
        ("url: mysql+pymysql", "url: mysql"),
        ("commit: two-phase", "commit: upsrt"),
    ]:
        text = text.replace(old, new)
    found = [(m.line, m.path) for m in mistakes_of(tmp_path, text)]
    assert found == [
        (1, "pipelin"),
        (4, "checkpoint.interval"),
        (10, "sources[0].format.type"),
        (16, "transforms[1].from"),
        (21, "sinks[0].url"),
        (23, "sinks[0].commit"),
    ]


def test_a_line_reads_as_editors_expect_it() -> None:
    mistake = Mistake("sources[0].formt", 12, "unknown key 'formt'", ("name", "format"), "format")
    expected = "spec.yaml:12: sources[0].formt: unknown key 'formt'; did you mean 'format'? allowed: name, format"
    assert mistake.describe("spec.yaml") == expected


_AGAIN = GOOD[GOOD.index("  - name: warehouse") :].replace("name: warehouse", "name: more")
_MORE = _AGAIN.replace("table: orders", "table: more")


def test_two_sinks_of_one_table_are_refused(tmp_path: Path) -> None:
    (mistake,) = mistakes_of(tmp_path, GOOD + _AGAIN)
    assert (mistake.path, mistake.found) == ("sinks[1].table", "the sink 'warehouse' writes to this table, too")


def test_columns_are_known_at_once_where_rows_come_from_a_source(tmp_path: Path) -> None:
    text = change("    from: small\n    connector", "    from: orders\n    connector")
    text = text.replace(
        "commit: two-phase", "commit: upsert\n    columns: {text: valeu, offset: _offset}\n    key: [id]"
    )
    columns, key = mistakes_of(tmp_path, text)
    assert (columns.path, columns.line) == ("sinks[0].columns.text", 24)
    assert (columns.found, columns.suggestion) == ("the rows of 'orders' have no column 'valeu'", "value")
    assert (key.path, key.line) == ("sinks[0].key[0]", 25)


def test_sinks_may_take_rows_of_different_steps(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(GOOD + _MORE.replace("from: small", "from: big"))
    spec = load_spec(tmp_path / "spec.yaml", {})
    assert (spec.trunk, [step.name for step in spec.branches]) == ("big", ["small"])


_USERS = "  - {name: users, connector: kafka, bootstrap_servers: k, topics: [u], format: {type: string}}\n"
_WITH_USERS = GOOD.replace("transforms:\n", _USERS + "transforms:\n")


def test_sinks_of_different_sources_need_no_step_in_common(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(_WITH_USERS + _MORE.replace("from: small", "from: users"))
    spec = load_spec(tmp_path / "spec.yaml", {})
    assert (spec.roots, spec.trunk, spec.branches) == (["small", "users"], None, [])
    first, second = spec.sinks
    assert ([each.name for each in spec.sources_of(first)], spec.context_of(first).several_topics) == (
        ["orders"],
        False,
    )
    assert ([each.name for each in spec.sources_of(second)], spec.context.several_topics) == (["users"], True)


def test_sinks_that_read_a_source_together_without_a_step_in_common_are_refused(tmp_path: Path) -> None:
    """The first sink reads a join of both sources, the second one of them: a query would read it twice."""
    joined = _WITH_USERS.replace("FROM orders", "FROM orders JOIN users USING (value)")
    assert joined != _WITH_USERS
    (mistake,) = mistakes_of(tmp_path, joined + _MORE.replace("from: small", "from: users"))
    assert mistake.path == "sinks[1].from"
    assert mistake.found == (
        "'small' and 'users' read sources together ('orders' and 'users'), and have no source or step in common: "
        "a pipeline reads each source once"
    )


def test_state_behind_the_trunk_is_refused(tmp_path: Path) -> None:
    text = GOOD.replace("    from: big\n", "    from: big\n    watermark: {column: ts, delay: 1min}\n", 1)
    (mistake,) = mistakes_of(tmp_path, text + _MORE.replace("from: small", "from: big"))
    assert mistake.path == "transforms[1].watermark"
    assert "'small' stands behind 'big', where the flow divides" in mistake.found


def test_rules_of_a_step_that_no_sink_reads_are_refused(tmp_path: Path) -> None:
    """Nothing computes the step."""
    rules = "    expect: [{name: known, condition: id IS NOT NULL}]\n"
    text = GOOD.replace("transforms:\n", f"transforms:\n  - name: unread\n    sql: SELECT * FROM orders\n{rules}", 1)
    (mistake,) = mistakes_of(tmp_path, text)
    assert (mistake.path, mistake.found[:31]) == ("transforms[0].expect", "no sink reads the step 'unread'")


def test_a_state_ttl_behind_the_trunk_is_refused(tmp_path: Path) -> None:
    text = GOOD.replace("    from: big\n", "    from: big\n    state_ttl: 1min\n", 1)
    (mistake,) = mistakes_of(tmp_path, text + _MORE.replace("from: small", "from: big"))
    assert mistake.path == "transforms[1].state_ttl"


def test_a_function_gets_the_state_ttl_in_milliseconds() -> None:
    step = {"name": "a", "python": "m:f", "from": "s", "options": {"x": 1}}
    assert PythonStep.model_validate(step).arguments == {"x": 1}
    assert PythonStep.model_validate({**step, "state_ttl": "1.5d"}).arguments == {"x": 1, "state_ttl_ms": 129_600_000}


def test_steps_in_a_circle_are_named_all(tmp_path: Path) -> None:
    text = change(
        "    sql: SELECT value FROM orders\n",
        "    python: a:b\n    from: small\n",
    )
    (mistake,) = mistakes_of(tmp_path, text)
    assert (mistake.line, mistake.path) == (14, "transforms[0].from")
    assert mistake.found == "a cycle: 'big' → 'small' → 'big'"


def test_a_later_step_cannot_be_read(tmp_path: Path) -> None:
    text = change("    sql: SELECT value FROM orders\n", "    python: a:b\n    from: small\n")
    text = text.replace("    from: big\n", "    from: orders\n")
    (mistake,) = mistakes_of(tmp_path, text)
    assert "the step 'small' comes later" in mistake.found


def test_sqlite_cannot_do_two_phase_and_the_message_says_what_can(tmp_path: Path) -> None:
    text = change("connector: mysql", "connector: sqlite").replace(
        "    url: mysql+pymysql://user@host/shop\n", "    path: x.db\n"
    )
    (mistake,) = mistakes_of(tmp_path, text)
    assert mistake.path == "sinks[0].commit"
    assert "no prepared transactions" in mistake.found
    assert "use 'write-ahead-log'" in mistake.found


KAFKA = """\
    connector: kafka
    bootstrap_servers: localhost:9092
    topic: orders.big
"""


@pytest.mark.parametrize(
    ("old", "new", "path", "said"),
    [
        (
            "    topic: orders.big\n",
            "",
            "topic",
            "neither topic nor topic_column; allowed: topic: orders",
        ),
        ("topic: orders.big", "topic: orders.big\n    topic_column: x", "topic", "both topic and topic_column"),
        ("topic: orders.big", "topic: orders.*", "topic", "no patterns"),
        ("topic: orders.big", "topic: a\n    commit: two-phase", "commit", "use 'write-ahead-log'"),
        ("topic: orders.big", "topic: a\n    commit: upsert", "commit", "a topic keeps every message"),
        ("topic: orders.big", "topic: a\n    transaction_timeout: 1ms", "transaction_timeout", "1s or longer"),
        ("topic: orders.big", "topic: a\n    properties: {acks: 1}", "properties.acks", "transactions hold"),
        ("topic: orders.big", "topic: a\n    slots: 65", "slots", ""),
    ],
)
def test_a_mistake_of_a_kafka_sink(tmp_path: Path, old: str, new: str, path: str, said: str) -> None:
    text = GOOD[: GOOD.index("    connector: mysql")] + KAFKA
    (mistake,) = mistakes_of(tmp_path, text.replace(old, new))
    assert mistake.path == f"sinks[0].{path}"
    assert said in mistake.describe("spec.yaml")


def test_librdkafka_settings_that_the_framework_sets_are_refused(tmp_path: Path) -> None:
    text = change("    topics: [orders]\n", "    topics: [orders]\n    properties: {group.id: x}\n")
    (mistake,) = mistakes_of(tmp_path, text)
    assert (mistake.line, mistake.path) == (10, "sources[0].properties['group.id']")
    assert "write it as group_id" in mistake.found


def test_a_schema_nested_beyond_all_reason_is_a_mistake_like_others(tmp_path: Path) -> None:
    ddl = "a " + "ARRAY<" * 3000 + "INT" + ">" * 3000
    (mistake,) = mistakes_of(tmp_path, change("{type: string}", f"{{type: json, schema: '{ddl}'}}"))
    assert (mistake.line, mistake.path) == (10, "sources[0].format.schema")
    assert mistake.found == "the schema is nested too deeply"


def test_the_error_survives_a_process_border(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(change("interval: 2s", "interval: 2"))
    with pytest.raises(SpecMistakesError) as caught:
        load_spec(path, {})
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.mistakes, str(copy)) == (caught.value.mistakes, str(caught.value))
