"""What a right spec becomes: durations, paths, references, defaults, restart strategies; and the design's example."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.api.fields import _duration
from connectors.registry import build_sink
from connectors.spec import Spec, SpecMistakesError, guarantees, load_spec
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.sqlite.entry import SqliteEntry
from tests.connectors.spec.entries import kafka_source, server_sink
from twophase.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart

DESIGN = """\
pipeline: orders                     # identity: names transactions, witnesses, transactional ids
checkpoint:
  location: ./checkpoints/orders     # Spark state, head, records and log segments; a path or an object-store URL
  head: null                         # or an SQLAlchemy URL, where the location has no compare-and-swap
  interval: 2s
  mode: exactly-once                 # at-least-once writes at once and skips the wait
  timeout: 10min
  min_pause: 0s
  retained: 10
restart: {strategy: exponential-delay, initial_delay: 1s, max_delay: 1min, multiplier: 2, jitter: 0.1, reset_after: 1h}
sources:
  - {name: orders, connector: kafka, bootstrap_servers: "${KAFKA}", topics: [orders], starting_offsets: earliest,
     format: {type: json, schema: "id BIGINT, user STRING, amount DOUBLE, ts TIMESTAMP"}}
transforms:
  - {name: big, sql: "SELECT id, user, amount, ts FROM orders WHERE amount > 10"}
sinks:
  - {name: warehouse, from: big, connector: mysql, url: "mysql+pymysql://${DB}", table: orders, commit: two-phase}
"""
DEAD_LETTER = 'dead_letter: {connector: kafka, bootstrap_servers: "${KAFKA}", topic: orders.bad}\n'
ENVIRON = {"KAFKA": "broker-1:9092", "DB": "writer:correct-horse@db/shop"}

MINIMAL = """\
pipeline: p
checkpoint: {location: state}
sources: [{name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}%s}]
sinks: [{name: out, from: s, connector: sqlite, path: x.db, table: t, commit: write-ahead-log}]
"""


def load(folder: Path, text: str, environ: dict[str, str] | None = None) -> Spec:
    path = folder / "spec.yaml"
    path.write_text(text)
    return load_spec(path, environ or {})


def test_the_example_of_the_design_loads(tmp_path: Path) -> None:
    spec = load(tmp_path, DESIGN, ENVIRON)
    assert spec.checkpoint.folder == tmp_path / "checkpoints/orders"
    assert kafka_source(spec).bootstrap_servers == "broker-1:9092"
    assert spec.checkpoint.timeout_s == 600
    sink = spec.sinks[0]
    assert sink.connector == "mysql"
    assert server_sink(spec).url.reveal() == "mysql+pymysql://writer:correct-horse@db/shop"


def test_mariadb_is_a_name_of_the_connector_for_mysql(tmp_path: Path) -> None:
    letter = DEAD_LETTER.replace("kafka, bootstrap_servers", "mariadb, url").replace(
        '"${KAFKA}", topic: orders.bad', "U"
    )
    letter = letter.replace("U}", '"mysql+pymysql://${DB}", table: bad, commit: two-phase}')
    found = load(tmp_path, (DESIGN + letter).replace("connector: mysql", "connector: mariadb"), ENVIRON)
    same = load(tmp_path, (DESIGN + letter).replace("connector: mariadb", "connector: mysql"), ENVIRON)
    assert [sink.connector for sink in found.outputs] == ["mariadb", "mariadb"]
    assert [type(build_sink(found, sink)) for sink in found.outputs] == [MySqlSink, MySqlSink]
    assert [sink.fingerprint(found.context) for sink in found.outputs] == [
        sink.fingerprint(same.context) for sink in same.outputs
    ]


def test_the_types_of_a_table_that_a_start_creates(tmp_path: Path) -> None:
    more = "create: if-missing, longest_text: 255, types: {user: VARCHAR(80), ts: TIMESTAMP(3) WITH TIME ZONE}, commit:"
    spec = load(tmp_path, DESIGN.replace("commit:", more), ENVIRON)
    built = build_sink(spec, spec.sinks[0])
    assert isinstance(built, MySqlSink)
    assert built.declared.types == {"user": "VARCHAR(80)", "ts": "TIMESTAMP(3) WITH TIME ZONE"}
    assert built.declared.longest_text == 255


@pytest.mark.parametrize(
    ("more", "path", "said"),
    [
        ("longest_text: 255", "sinks[0].longest_text", "'longest_text' is for columns that a start creates"),
        ("types: {user: TEXT}", "sinks[0].types", "'types' is for columns that a start creates"),
        ("create: if-missing, types: {usr: TEXT}", "sinks[0].types.usr", "the rows of 'big' have no column 'usr'"),
        ("create: if-missing, types: {user: TEXT; DROP}", "sinks[0].types.user", "is not a type of SQL"),
        ('create: if-missing, types: {user: "TEXT, x INT"}', "sinks[0].types.user", "is not a type of SQL"),
        ('create: if-missing, types: {user: "TEXT %s"}', "sinks[0].types.user", "is not a type of SQL"),
    ],
)
def test_types_that_no_table_can_have(more: str, path: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SpecMistakesError) as caught:
        load(tmp_path, DESIGN.replace("commit:", f"{more}, commit:"), ENVIRON)
    (mistake,) = caught.value.mistakes
    assert mistake.path == path
    assert said in mistake.found


def test_a_sink_hears_how_long_a_task_may_wait(tmp_path: Path) -> None:
    spec = load(tmp_path, DESIGN.replace("timeout: 10min", "timeout: 1h"), ENVIRON)
    assert server_sink(spec).arguments(spec.context)["timeout_s"] == 3600


def test_its_dead_letter_target_loads(tmp_path: Path) -> None:
    letter = load(tmp_path, DESIGN + DEAD_LETTER, ENVIRON).dead_letter
    assert letter is not None
    assert (letter.name, letter.commit, letter.where) == ("dead_letter", "write-ahead-log", "broker-1:9092, orders.bad")
    assert load(tmp_path, DESIGN + "dead_letter: null\n", ENVIRON).dead_letter is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2s", 2), ("500ms", 0.5), ("10min", 600), ("1h", 3600), ("0s", 0), ("1d", 86400), ("1.5s", 1.5), ("2 s", 2)],
)
def test_durations_are_seconds(text: str, seconds: float) -> None:
    assert _duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        ("", ExponentialDelay(1, 60, 2, 0.1, 3600, None)),
        ("restart: {strategy: none}\n", NoRestart()),
        ("restart: {strategy: fixed-delay, attempts: 10, delay: 1s}\n", FixedDelay(10, 1)),
        ("restart: {strategy: failure-rate, max_failures_per_interval: 3}\n", FailureRate(3, 60, 1)),
        (
            "restart: {strategy: failure-rate, max_failures_per_interval: 3, interval: 5min, delay: 2s}\n",
            FailureRate(3, 300, 2),
        ),
        (
            "restart: {strategy: exponential-delay, multiplier: 3, attempts: 4}\n",
            ExponentialDelay(multiplier=3, attempts=4),
        ),
    ],
)
def test_restart_strategies(tmp_path: Path, text: str, strategy: object) -> None:
    restart = load(tmp_path, MINIMAL % "" + text).restart
    assert restart.strategy() == strategy
    assert restart.strategy() is not restart.strategy(), "each run starts with no failure behind it"


def test_references_are_resolved_wherever_a_value_is_text(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from-a-file\n")
    extra = ', group_id: "${env:A}-${A}", properties: {client.id: "${file:secret}", x: "$${env:A}"}'
    source = kafka_source(load(tmp_path, MINIMAL % extra, {"A": "alpha"}))
    assert source.group_id == "alpha-alpha"
    assert source.properties == {"client.id": "from-a-file", "x": "${env:A}"}


def test_a_value_that_came_in_is_not_resolved_again(tmp_path: Path) -> None:
    spec = load(tmp_path, MINIMAL % ', group_id: "${A}"', {"A": "${B}"})
    assert kafka_source(spec).group_id == "${B}"


def test_only_one_newline_at_the_end_of_a_secret_file_goes(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(" two lines\n\n")
    source = kafka_source(load(tmp_path, MINIMAL % ', properties: {p: "${file:secret}"}'))
    assert source.properties == {"p": " two lines\n"}


def test_numbers_may_come_from_the_environment(tmp_path: Path) -> None:
    text = (MINIMAL % "").replace("location: state", 'location: state, retained: "${N}", interval: "${T}"')
    checkpoint = load(tmp_path, text, {"N": "7", "T": "3s"}).checkpoint
    assert (checkpoint.retained, checkpoint.interval_s) == (7, 3.0)


def test_a_quoted_number_is_still_text(tmp_path: Path) -> None:
    with pytest.raises(SpecMistakesError, match="wrong type: '7'"):
        load(tmp_path, (MINIMAL % "").replace("location: state", "location: state, retained: '7'"))


def test_settings_of_librdkafka_stay_as_written(tmp_path: Path) -> None:
    """`1.10` is no 1.1, `007` no 7, and `yes` no boolean."""
    source = kafka_source(load(tmp_path, MINIMAL % ", properties: {a: 1.10, b: 007, c: yes, d: true, e: 12}"))
    assert source.properties == {"a": "1.10", "b": "007", "c": "yes", "d": "true", "e": "12"}


def test_paths_start_at_the_folder_of_the_spec(tmp_path: Path) -> None:
    spec = load(tmp_path, (MINIMAL % "").replace("path: x.db", "path: ../x.db"))
    sink = spec.sinks[0]
    assert isinstance(sink, SqliteEntry)
    assert sink.path.resolve() == (tmp_path.parent / "x.db").resolve()
    absolute = load(tmp_path, (MINIMAL % "").replace("location: state", "location: 'file:///var/x'"))
    assert absolute.checkpoint.folder == Path("/var/x")


def test_options_reach_a_python_step_as_plain_data(tmp_path: Path) -> None:
    text = MINIMAL % "" + "transforms: [{name: b, python: 'm:f', from: [s], options: {k: {a: [1, x]}, v: \"${A}\"}}]\n"
    step = load(tmp_path, text, {"A": "3"}).transforms[0]
    options = step.options  # type: ignore[union-attr]
    assert options == {"k": {"a": [1, "x"]}, "v": "3"}
    assert [type(options["k"]), type(options["k"]["a"]), type(options["v"])] == [dict, list, str]


def test_a_spec_does_not_change(tmp_path: Path) -> None:
    spec = load(tmp_path, MINIMAL % "")
    with pytest.raises(ValueError, match="frozen"):
        spec.__setattr__("pipeline", "other")


def test_the_guarantee_says_what_a_source_setting_takes_from_it(tmp_path: Path) -> None:
    (plain,) = guarantees(load(tmp_path, MINIMAL % ""))
    (less,) = guarantees(load(tmp_path, MINIMAL % ", on_bad_record: skip, starting_offsets: latest"))
    assert plain.promise.startswith("exactly-once")
    assert plain.visible.startswith("with each checkpoint")
    assert {line.split(":")[0] for line in set(less.limits) - set(plain.limits)} == {
        "on_bad_record",
        "starting_offsets",
    }


def test_the_registry_builds_the_sink_of_the_spec(tmp_path: Path) -> None:
    spec = load(tmp_path, MINIMAL % "")
    assert build_sink(spec, spec.sinks[0]).name == "out"
