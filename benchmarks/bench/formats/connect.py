"""Debezium's JDBC sink in Kafka Connect standalone, which writes upserts at least once, with a converter per format.

Confluent's converters are not in Maven Central. Apicurio's reads the same records in Avro. Maven Central has no
converter for Protobuf with the id of a schema in front.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.bench.comparison.work import TABLE, Launch, System, Work
from benchmarks.bench.formats import maven, schemas
from benchmarks.bench.formats.apicurio import Apicurio
from benchmarks.bench.formats.flink import jdbc_url
from benchmarks.bench.formats.forms import AVRO, DEBEZIUM_AVRO, DEBEZIUM_JSON, Form
from integration_tests.services.state import free_port

NAME: Final = "debezium"
FORMATS: Final = (AVRO, DEBEZIUM_JSON, DEBEZIUM_AVRO)
_BATCH: Final = "5000"
_HEAP: Final = "3g"
_OF_CONNECT: Final = ("org.apache.kafka", "org.slf4j", "com.fasterxml.jackson.core")
"""Jars that Connect brings: with two copies of Jackson its tasks fail at their start."""
_STARTED: Final = re.compile(r"^(\S+ \S+) .*Sink task finished initialization and start", re.MULTILINE)
_LOGGING: Final = """\
status=error
appender.o.type=Console
appender.o.name=o
appender.o.layout.type=PatternLayout
appender.o.layout.pattern=%d{yyyy-MM-dd HH:mm:ss.SSSXXX} %p %c{1} %m%n
rootLogger.level=warn
rootLogger.appenderRef.o.ref=o
logger.w.name=org.apache.kafka.connect.runtime.WorkerSinkTask
logger.w.level=info
"""


def system(form: Form) -> System:
    """Return what is measured with this format."""
    return System(NAME, "Debezium's sink, upsert", "at-least-once", partial(_prepare, form))


def _prepare(form: Form, work: Work) -> Launch:
    plugins, worker = maven.built("debezium", _OF_CONNECT).parent, maven.built("connect")
    converters, clean = _converters(form, work)
    files = {
        "worker.properties": _properties({**_worker(work, plugins), **converters}),
        "connector.properties": _properties(_connector(form, work)),
        "log4j2.properties": _LOGGING,
    }
    for name, text in files.items():
        (work.folder / name).write_text(text)
    command = [
        *(maven.java(), f"-Xmx{_HEAP}", "-Duser.timezone=UTC"),
        f"-Dlog4j2.configurationFile={work.folder / 'log4j2.properties'}",
        *("-cp", f"{worker}/*", "org.apache.kafka.connect.cli.ConnectStandalone"),
        *(str(work.folder / name) for name in ("worker.properties", "connector.properties")),
    ]
    return Launch(command, partial(_first_start, work.log), fatal=b"Task is being killed", clean=clean)


def _worker(work: Work, plugins: Path) -> dict[str, str]:
    return {
        "bootstrap.servers": work.bootstrap,
        "plugin.path": str(plugins),
        "plugin.discovery": "service_load",
        "offset.storage.file.filename": str(work.folder / "offsets"),
        "offset.flush.interval.ms": "2000",
        "listeners": f"http://127.0.0.1:{free_port(0)}",
        "consumer.max.poll.records": _BATCH,
    }


def _connector(form: Form, work: Work) -> dict[str, str]:
    key = {"primary.key.mode": "record_value", "primary.key.fields": "id"}
    # Without the reduction buffer, each deletion ends a batch.
    of_changes = {"primary.key.mode": "record_key", "delete.enabled": "true", "use.reduction.buffer": "true"}
    return {
        "name": f"{NAME}-{work.folder.name}",
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": "2",
        "topics": work.topic,
        "connection.url": jdbc_url(work),
        "connection.username": work.url.username or "",
        "connection.password": str(work.url.password or ""),
        "insert.mode": "upsert",
        "schema.evolution": "none",
        "collection.name.format": TABLE,
        "batch.size": _BATCH,
        **(of_changes if form.has_changes else key),
    }


def _converters(form: Form, work: Work) -> tuple[dict[str, str], Callable[[], object]]:
    """Return settings of the converters of key and value, and what ends their part in this process."""
    if form.name == DEBEZIUM_JSON:
        converter = "org.apache.kafka.connect.json.JsonConverter"
        settings: dict[str, str] = {}
        for part, schema in (("key", schemas.KEY_CONNECT), ("value", schemas.ENVELOPE_CONNECT)):
            settings |= _of(part, converter, {"schemas.enable": "true", "schema.content": schema})
        return settings, lambda: None
    apicurio = Apicurio(work.registry)
    converter = "io.apicurio.registry.utils.converter.AvroConverter"
    options = {
        "apicurio.registry.url": apicurio.url,
        "apicurio.registry.as-confluent": "true",
        "apicurio.registry.use-id": "contentId",
        "apicurio.registry.headers.enabled": "false",
    }
    strings = _of("key", "org.apache.kafka.connect.storage.StringConverter", {})
    key = _of("key", converter, options) if form.has_changes else strings
    return {**key, **_of("value", converter, options)}, apicurio.close


def _of(part: str, converter: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of one converter."""
    prefix = f"{part}.converter"
    return {prefix: converter, **{f"{prefix}.{name}": value for name, value in options.items()}}


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _first_start(log: Path) -> float | None:
    """When the first task was ready to read."""
    found = _STARTED.search(log.read_text(errors="replace"))
    return None if found is None else datetime.fromisoformat(found[1]).timestamp()
