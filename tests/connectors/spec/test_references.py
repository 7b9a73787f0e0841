"""References: `${NAME}` and `${NAME:-default}` in every value, and `$NAME`, which is not one."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from connectors.spec import Mistake, Spec, SpecMistakesError, load_spec
from connectors.spec.spec import json_schema
from tests.connectors.spec.entries import kafka_source, server_sink

TEXT = """\
pipeline: p
checkpoint: {location: state, retained: "${RETAINED}", min_pause: "${PAUSE:-0s}"}
sources:
  - name: s
    connector: kafka
    bootstrap_servers: "${KAFKA:-localhost:9092}"
    topics: ["${TOPIC:-orders}", fixed]
    format: {type: "${FORMAT:-raw}"}
    fail_on_data_loss: ${STRICT:-false}
    join_below: ${JOIN}
    properties: {client.rack: "${RACK:-}", fetch.max.bytes: "${BYTES:-100}"}
restart: {strategy: exponential-delay, multiplier: "${FACTOR}", jitter: "${JITTER:-0}"}
sinks:
  - name: out
    from: s
    connector: mysql
    url: mysql+pymysql://${USER:-eos}:${PASSWORD}@${HOST:-localhost}/shop
    table: ${TABLE:-t}
    commit: ${COMMIT:-write-ahead-log}
    slots: ${SLOTS}
    max_backlog: {checkpoints: "${BACKLOG:-3}"}
"""
ENVIRON = {"RETAINED": "7", "JOIN": "0", "FACTOR": "2", "PASSWORD": "horse-battery", "SLOTS": "4", "TABLE": ""}


def load(folder: Path, text: str = TEXT, **environ: str) -> Spec:
    (folder / "spec.yaml").write_text(text)
    return load_spec(folder / "spec.yaml", {**ENVIRON, **environ})


def mistakes(folder: Path, text: str = TEXT, **environ: str) -> list[Mistake]:
    with pytest.raises(SpecMistakesError) as caught:
        load(folder, text, **environ)
    return list(caught.value.mistakes)


def test_a_reference_may_stand_in_every_value(tmp_path: Path) -> None:
    spec = load(tmp_path)
    source, sink = kafka_source(spec), server_sink(spec)
    assert (spec.checkpoint.retained, spec.checkpoint.min_pause_s) == (7, 0.0)
    assert (source.bootstrap_servers, source.topics, source.format.type) == (
        "localhost:9092",
        ["orders", "fixed"],
        "raw",
    )
    assert (source.fail_on_data_loss, source.join_below) == (False, 0)
    assert source.properties == {"client.rack": "", "fetch.max.bytes": "100"}
    assert spec.restart == spec.restart.model_copy(update={"multiplier": 2.0, "jitter": 0.0})
    assert sink.url.reveal() == "mysql+pymysql://eos:horse-battery@localhost/shop"
    assert (sink.table, sink.commit, sink.slots) == ("t", "write-ahead-log", 4)
    assert sink.max_backlog is not None
    assert sink.max_backlog.checkpoints == 3


def test_a_variable_that_is_set_takes_the_place_of_the_default(tmp_path: Path) -> None:
    spec = load(tmp_path, STRICT="true", TOPIC="clicks", USER="writer", JITTER="0.5")
    source = kafka_source(spec)
    assert (source.fail_on_data_loss, source.topics) == (True, ["clicks", "fixed"])
    assert server_sink(spec).url.reveal().startswith("mysql+pymysql://writer:")


def test_a_default_is_not_a_secret_and_a_value_of_the_environment_is(tmp_path: Path) -> None:
    assert load(tmp_path).mask("orders of horse-battery") == "orders of ***"
    assert load(tmp_path, TOPIC="orders").mask("orders of horse-battery") == "*** of ***"


def test_env_may_be_written(tmp_path: Path) -> None:
    text = TEXT.replace("${RACK:-}", "${env:RACK:-a:-b}")
    assert kafka_source(load(tmp_path, text)).properties["client.rack"] == "a:-b"


@pytest.mark.parametrize(
    ("name", "value", "path", "allowed"),
    [
        ("SLOTS", "many", "sinks[0].slots", ("a whole number",)),
        ("SLOTS", "1.5", "sinks[0].slots", ("a whole number",)),
        ("SLOTS", "65", "sinks[0].slots", ("at most 64",)),
        ("SLOTS", "true", "sinks[0].slots", ("a whole number",)),
        ("STRICT", "1", "sources[0].fail_on_data_loss", ("true or false",)),
        ("STRICT", "yes", "sources[0].fail_on_data_loss", ("true or false",)),
        ("JITTER", "2", "restart.jitter", ("at most 1.0",)),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_without_the_value(
    name: str, value: str, path: str, allowed: tuple[str, ...], tmp_path: Path
) -> None:
    (mistake,) = mistakes(tmp_path, **{name: value})
    assert mistake.path.endswith(path)
    assert mistake.found.startswith(f"what '${{{name}")
    assert mistake.allowed == allowed


def test_a_text_stays_a_text(tmp_path: Path) -> None:
    assert load(tmp_path, TABLE="007").sinks[0].model_dump()["table"] == "007"
    assert load(tmp_path, TABLE="12").sinks[0].model_dump()["table"] == "12"


def test_a_variable_without_braces_is_reported(tmp_path: Path) -> None:
    text = TEXT.replace("${KAFKA:-localhost:9092}", "$KAFKA").replace("${HOST:-localhost}", "$HOST")
    first, second = mistakes(tmp_path, text, HOST="db.example.com")
    assert (first.path, first.line) == ("sources[0].bootstrap_servers", 6)
    assert first.describe("spec.yaml").endswith(
        "'$KAFKA' is not replaced: a reference to a variable has braces; did you mean '${KAFKA}'?"
    )
    assert (second.path, second.suggestion) == ("sinks[0].url", "${HOST}")
    assert "db.example.com" not in second.describe("spec.yaml")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("${RACK:-}", "$RACK"),  # a setting of librdkafka's
        ("mysql://${USER:-eos}", "mysql://a$HOST"),  # not set: it may be a part of the text
        ("properties: {", "properties: {sasl.password: $ECRET, "),
        (
            "format: {",
            "security: {sasl: {mechanism: PLAIN, username: $ConnectionString, password: $ECRET}}\n    format: {",
        ),
    ],
)
def test_a_dollar_that_means_itself_stays(old: str, new: str, tmp_path: Path) -> None:
    assert old in TEXT
    load(tmp_path, TEXT.replace(old, new), RACK="a")


def test_a_dollar_in_sql_stays(tmp_path: Path) -> None:
    sql = "transforms:\n  - {name: b, sql: \"SELECT get_json_object(CAST(value AS STRING), '$HOME') AS a FROM s\"}\n"
    load(tmp_path, TEXT.replace("restart:", f"{sql}restart:").replace("from: s", "from: b"), HOME="/root")


def test_an_editor_takes_a_reference_for_each_number_boolean_and_choice() -> None:
    found = YAML(typ="safe").load(StringIO(TEXT.replace("${FORMAT:-raw}", "raw")))
    assert [error.json_path for error in Draft202012Validator(json_schema()).iter_errors(found)] == []
