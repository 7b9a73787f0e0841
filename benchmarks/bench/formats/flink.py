"""Flink SQL from Kafka into its JDBC sink, which writes upserts at least once."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.bench.comparison.work import TABLE, Launch, System, Work
from benchmarks.bench.formats import maven
from benchmarks.bench.formats.forms import AVRO, DEBEZIUM_AVRO, DEBEZIUM_JSON, PROTOBUF_PLAIN, Form

NAME: Final = "flink"
FORMATS: Final = {
    AVRO: "avro-confluent",
    PROTOBUF_PLAIN: "protobuf",
    DEBEZIUM_JSON: "debezium-json",
    DEBEZIUM_AVRO: "debezium-avro-confluent",
}
"""Flink's names. It does not read Protobuf with the id of a schema in front."""
_BATCH: Final = 5000
_HEAP: Final = "3g"
_OPENED: Final = ("lang", "net", "nio", "text", "time", "util", "util.concurrent")
_SETTINGS: Final[Mapping[str, str]] = {
    "execution.checkpointing.interval": "2s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "restart-strategy.type": "none",
    "rest.bind-port": "0",
    "table.local-time-zone": "UTC",
}
_READER: Final = "org.apache.flink.connector.base.source.reader.SourceReaderBase"
_LOG_TIME: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSZ"
_READS: Final = re.compile(r"^(\S+) .*Adding split\(s\) to reader", re.MULTILINE)


def system(form: Form) -> System:
    """Return what is measured with this format."""
    return System(NAME, "Flink SQL, JDBC upsert", "at-least-once", partial(_prepare, form))


def _prepare(form: Form, work: Work) -> Launch:
    jars = maven.built("flink")
    statements = work.folder / "statements.sql"
    statements.write_text("\n----\n".join(_statements(form, work)))
    settings = {**_SETTINGS, "execution.checkpointing.dir": (work.folder / "flink").as_uri()}
    command = [
        *(maven.java(), f"-Xmx{_HEAP}", "-Duser.timezone=UTC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
        *(f"-Dorg.slf4j.simpleLogger.log.{_READER}=info", "-Dorg.slf4j.simpleLogger.showDateTime=true"),
        f"-Dorg.slf4j.simpleLogger.dateTimeFormat={_LOG_TIME}",
        *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED),
        *("-cp", f"{jars}/*", "formats.SqlJob", str(statements)),
        *(f"{name}={value}" for name, value in settings.items()),
    ]
    return Launch(command, partial(_first_read, work.log), ends=True)


def _statements(form: Form, work: Work) -> list[str]:
    name = FORMATS[form.name]
    source = {
        "connector": "kafka",
        "topic": work.topic,
        "properties.bootstrap.servers": work.bootstrap,
        "properties.group.id": f"flink-{time.time_ns()}",
        "properties.max.poll.records": str(_BATCH),
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
        "format": name,
        **({f"{name}.url": work.registry} if form.has_registry else {}),
        **({f"{name}.message-class-name": "shop.Row"} if form.name == PROTOBUF_PLAIN else {}),
    }
    sink = {
        "connector": "jdbc",
        "url": jdbc_url(work),
        "username": work.url.username or "",
        "password": str(work.url.password or ""),
        "table-name": TABLE,
        "sink.buffer-flush.max-rows": str(_BATCH),
    }
    columns = "id BIGINT NOT NULL, `user` STRING, amount DOUBLE"
    key = "PRIMARY KEY (id) NOT ENFORCED"
    read, at = "ts TIMESTAMP(3)", "ts"
    if form.has_changes:  # microseconds, as Debezium writes a DATETIME(6)
        read, at = f"ts BIGINT, {key}", "CAST(TO_TIMESTAMP_LTZ(ts / 1000, 3) AS TIMESTAMP(6))"
    elif form.name == PROTOBUF_PLAIN:
        read = "ts ROW<seconds BIGINT, nanos INT>"
        at = "CAST(TO_TIMESTAMP_LTZ(ts.seconds * 1000 + ts.nanos / 1000000, 3) AS TIMESTAMP(6))"
    return [
        f"CREATE TABLE records ({columns}, {read}) WITH ({_options(source)})",
        f"CREATE TABLE target ({columns}, ts TIMESTAMP(6), {key}) WITH ({_options(sink)})",
        f"INSERT INTO target SELECT id, `user`, amount, {at} FROM records",
    ]


def jdbc_url(work: Work) -> str:
    """Return the URL of the database for Java, with batches as one statement."""
    url = work.url
    place = f"{url.host}:{url.port or 3306}/{url.database}"
    return f"jdbc:mysql://{place}?rewriteBatchedStatements=true&useSSL=false&allowPublicKeyRetrieval=true"


def _options(options: Mapping[str, str]) -> str:
    quoted = {name: value.replace("'", "''") for name, value in options.items()}
    return ", ".join(f"'{name}' = '{value}'" for name, value in quoted.items())


def _first_read(log: Path) -> float | None:
    """When the first reader got its partitions, just before it reads."""
    found = _READS.search(log.read_text(errors="replace"))
    return None if found is None else datetime.fromisoformat(found[1]).timestamp()
