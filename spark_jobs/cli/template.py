"""The text of the spec that `eos init` writes: complete, valid, and with a comment where a choice is to be made."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class SourceKind(StrEnum):
    """Connectors of a source."""

    KAFKA = "kafka"


class FormatKind(StrEnum):
    """Formats of a record's value."""

    JSON = "json"
    STRING = "string"
    RAW = "raw"


class SinkKind(StrEnum):
    """Connectors of a sink."""

    MYSQL = "mysql"
    SQLITE = "sqlite"


VARIABLES: Final = ("KAFKA", "DATABASE")
"""What the spec takes from the environment."""

_HEAD: Final = """\
# {name}: from Kafka into {database}, each record exactly once.
#
#   export KAFKA=localhost:9092
#   export DATABASE={example}{before}
#   eos validate {file} && eos doctor {file} && eos run {file}
#
# With `eos schema > eos.schema.json` and the next line without its second #, an editor completes and checks this file.
# # yaml-language-server: $schema=./eos.schema.json
pipeline: "{name}"  # identity: part of transaction ids, witnesses and claim rows; keep it

checkpoint:
  location: ./checkpoints/{name}  # decisions, positions and Spark's state: a local disk; keep it
  interval: 2s  # how often rows become visible; 0s: as fast as possible
  max_records_per_checkpoint: 500000  # bounds memory, transactions and recovery after an outage

# What follows a failure that a restart can cure. Or: {{strategy: fixed-delay, attempts: 10, delay: 1s}}.
restart: {{strategy: exponential-delay, initial_delay: 1s, max_delay: 1min}}

sources:
  - name: incoming  # the view that steps read
    connector: kafka
    bootstrap_servers: ${{env:KAFKA}}
    topics: ["{topic}"]  # or topics_pattern: "orders-.*"
    # Where the very first start begins: earliest, latest, {{timestamp: 2026-01-31T12:00:00Z}}, {{group: name}},
    # {{offsets: {{{topic}/0: 17}}, otherwise: earliest}}.
    starting_offsets: earliest
{format}
    on_bad_record: fail  # or skip: what does not decode is left out, and counted

# Spark SQL, or `python: module:function` with `from: incoming`. Columns of each record besides its own:
# _key, _topic, _partition, _offset, _timestamp, _headers.
transforms:
  - name: rows
    sql: {sql}

sinks:
"""
_FORMATS: Final = {
    FormatKind.JSON: '    format: {type: json, schema: "id BIGINT NOT NULL, name STRING, at TIMESTAMP"}',
    FormatKind.STRING: "    format: {type: string}  # one column, value: text",
    FormatKind.RAW: "    format: {type: raw}  # one column, value: bytes",
}
_SQL: Final = {
    FormatKind.JSON: "SELECT id, name, at FROM incoming",
    FormatKind.STRING: "SELECT value FROM incoming",
    FormatKind.RAW: "SELECT value FROM incoming",
}
_DATABASES: Final = {
    SinkKind.MYSQL: ("MySQL or MariaDB", "mysql+pymysql://user:password@localhost:3306/database", ""),
    SinkKind.SQLITE: ("SQLite", "/path/of/database.db", '\n#   touch "$DATABASE"'),
}
_SINKS: Final = {
    SinkKind.MYSQL: """\
  - name: warehouse
    from: rows
    connector: mysql
    url: ${{env:DATABASE}}
    table: "{table}"
    create: if-missing  # or never: `eos doctor` shows the statement, to make the table by hand
    commit: two-phase  # prepared transactions (XA): `eos doctor` says whether the server has them
""",
    SinkKind.SQLITE: """\
  - name: warehouse
    from: rows
    connector: sqlite
    path: ${{env:DATABASE}}
    table: "{table}"
    create: if-missing  # or never: `eos doctor` shows the statement, to make the table by hand
    commit: write-ahead-log  # rows wait in a log and are applied in one transaction for each checkpoint
""",
}


def template(file: str, name: str, form: FormatKind, sink: SinkKind) -> str:
    """The spec as text.

    Args:
        file: under which it will be stored, for the commands in its comment.
        name: of the pipeline, its topic and its table: letters, digits, `-` and `_`.
        form: of the records' values.
        sink: where the rows go.
    """
    database, example, before = _DATABASES[sink]
    table = name.replace("-", "_")
    head = _HEAD.format(
        name=name,
        file=file,
        database=database,
        example=example,
        before=before,
        topic=name,
        format=_FORMATS[form],
        sql=_SQL[form],
    )
    return head + _SINKS[sink].format(table=table)
