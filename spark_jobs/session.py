"""The Spark session of a pipeline: settings that the protocol needs, and defaults that suit connectors."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connectors.spec import Spec
from spark_jobs.master import check_sinks, is_local, is_loopback, worker_python
from spark_jobs.shipping import pack
from twophase.errors import SparkUnavailableError

_REQUIRED: Final = {
    "spark.speculation": "false",  # R5
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",  # H22: a losing attempt cannot overwrite state
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
}
_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_COLLECTOR: Final = "-XX:+UseParallelGC"
"""Moves 15 % more in the first million records than Java's default, and as many later: its barriers are cheaper."""
_JAVA_VARIABLES: Final = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "SPARK_SUBMIT_OPTS", "_JAVA_OPTIONS")
_LOG4J: Final = """\
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {path}
appender.file.filePattern = {path}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""


def spark_session(spec: Spec, *, debug: bool = False) -> SparkSession:
    """Start Spark for this spec. Blocks for some seconds; once a process.

    Spark's own log goes to `spark.log` at the checkpoint location (three files of 10 MB) and what its processes write
    to stderr to `spark.stderr.log`, not to the terminal. Raises SparkUnavailableError if Spark does not start, and
    SpecError if the sinks do not suit the master.
    """
    check_sinks(spec)
    master = spec.spark.master
    os.environ["PYSPARK_PYTHON"] = worker_python(spec, os.environ)
    if is_loopback(master):  # elsewhere workers must find the driver, by the name that Spark finds for this machine
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    shipped = [] if is_local(master) else [str(pack(spec))]
    _inherit_modules([str(spec.folder), *shipped])
    conf = {**_DEFAULTS, **(_LOOPBACK if is_loopback(master) else {}), **spec.spark.conf, **_REQUIRED}
    given = conf.get("spark.driver.extraJavaOptions", "")
    collector = _collector(given) if is_local(master) else []
    options = [given, *_logging_options(spec.checkpoint.location, debug), *collector]
    conf["spark.driver.extraJavaOptions"] = " ".join(options).strip()
    builder = SparkSession.builder.master(master).appName(f"eos {spec.pipeline}")
    for key, value in conf.items():
        builder = builder.config(key, value)
    words = spec.checkpoint.location / "spark.stderr.log"
    try:
        with nullcontext() if debug else _stderr_to(words):
            session = builder.getOrCreate()
            for archive in shipped:
                session.sparkContext.addPyFile(archive)
    except PySparkException as error:
        message = f"Spark did not start: {error}"
        raise SparkUnavailableError(message, remedy=f"see {words}; `eos doctor` checks Java") from error
    if "spark.sql.shuffle.partitions" not in spec.spark.conf:
        session.conf.set("spark.sql.shuffle.partitions", str(session.sparkContext.defaultParallelism))
    # What a batch raises, and a JVM that is gone, are told by the run itself, without a trace.
    logging.getLogger("py4j").setLevel(logging.WARNING if debug else logging.CRITICAL)
    return session


def _collector(given: str) -> list[str]:
    """Nothing where somebody has chosen one: Java refuses to start with two."""
    chosen = " ".join([given, *(os.environ.get(name, "") for name in _JAVA_VARIABLES)])
    return [] if "GC" in chosen else [_COLLECTOR]


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Let the JVM and its workers inherit a file as stderr: their words belong beside Spark's log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    terminal = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def _inherit_modules(places: Sequence[str]) -> None:
    """Python steps may stand beside the spec: processes on this machine find them through the path they inherit."""
    paths = [*places, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))


def _logging_options(location: Path, debug: bool) -> list[str]:
    location.mkdir(parents=True, exist_ok=True)
    settings = location / "log4j2.properties"
    settings.write_text(_LOG4J.format(level="info" if debug else "warn", path=_as_property(location / "spark.log")))
    return [f'-Dlog4j2.configurationFile="{settings}"']


def _as_property(path: Path) -> str:
    """Java reads a .properties file as Latin-1, and takes a backslash for an escape."""
    units = memoryview(str(path).encode("utf-16-le")).cast("H")
    return "".join(chr(unit) if unit < 128 and unit != ord("\\") else f"\\u{unit:04x}" for unit in units)
