"""The Spark session of a pipeline: settings that the protocol needs, and defaults that suit connectors."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from connectors.registry import task_modules
from connectors.spec import Spec
from eos.errors import SparkUnavailableError
from spark_jobs.session import worker_daemon
from spark_jobs.session.environment import restored
from spark_jobs.session.java import COMPILE_FAST, collector_options, logging_options
from spark_jobs.session.master import check_sinks, is_local, is_loopback, worker_python
from spark_jobs.session.private_settings import file_option, private_file, settings_text
from spark_jobs.session.protection import gaps_of, local_protection, require
from spark_jobs.session.settings import (
    DEFAULTS,
    LOOPBACK,
    REQUIRED,
    kept_batches,
    local_settings,
    redaction,
    state_settings,
)
from spark_jobs.session.shipping import pack
from spark_jobs.session.start_cache import archive_options, spark_home
from spark_jobs.session.stderr_log import StderrLog
from spark_jobs.session.submitted import is_submitted
from spark_jobs.session.versions import RUN, require_spark

_NOTHING: Final[Mapping[str, str]] = {}

_log = logging.getLogger("eos.spark")

_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"

_QUERY_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers to which PySpark writes an error of a query."""

_FOR_CHILDREN: Final = (
    "PYSPARK_PYTHON",
    "PYTHONPATH",
    "PYTHONSAFEPATH",
    "SPARK_HOME",
    "SPARK_LOCAL_IP",
    worker_daemon.MODULES,
    _ARGUMENTS,
)
"""Variables that are set while Spark starts. The JVM inherits them, and its processes inherit them from the JVM."""


@restored(_FOR_CHILDREN)
def spark_session(
    spec: Spec,
    *,
    debug: bool = False,
    archive_classes: bool = False,
    compile_fast: bool = False,
    more: Mapping[str, str] = _NOTHING,
) -> SparkSession:
    """Start Spark for this spec. Blocks for some seconds; once a process.

    `archive_classes`: have Java keep its classes for later starts when it ends (see start_cache), which slows
    this run by some seconds, once. `compile_fast`: the JVM has little to do (see java.COMPILE_FAST). `more`: defaults
    of Spark's settings beside those that all have.

    Spark's own log goes to `spark.log` at the checkpoint location (three files of 10 MB) and what its processes write
    to stderr to `spark.stderr.log` (see StderrLog), not to the terminal. Where `spark-submit` has started the JVM (then
    the spec is one that was settled with it), that has its own ways for both.

    Spark's processes inherit variables such as PYTHONPATH and SPARK_HOME. The variables of this process are the same
    before and after the call.

    Raises SparkUnavailableError if Spark does not start, and HeadError if the checkpoint location cannot be written.
    Raises SpecError if the sinks do not suit the master, or Spark's traffic is not protected and the spec does not
    accept that.
    """
    require_spark(RUN)
    check_sinks(spec)
    require(gaps_of(spec, os.environ), spec.spark)
    master = spec.spark.master
    runs = is_submitted(os.environ)
    os.environ["PYSPARK_PYTHON"] = worker_python(spec, os.environ)
    shipped = [] if is_local(master) else [str(pack(spec))]
    modules = [*_modules(spec), *shipped]
    own = {} if runs else local_settings(master, os.environ)
    closed = local_protection(master, spec.spark.conf)
    near = LOOPBACK if is_loopback(master) else {}
    conf = {**DEFAULTS, **kept_batches(spec), **own, **closed, **more, **near, **spec.spark.conf, **REQUIRED}
    conf |= {**state_settings(spec), **redaction(spec)}
    if not runs:
        _inherit(modules, loopback=is_loopback(master))
        if is_local(master):
            os.environ[worker_daemon.MODULES] = ",".join(task_modules(spec))
            conf = {"spark.python.daemon.module": worker_daemon.__name__, **conf}
        conf["spark.driver.extraJavaOptions"] = _java_options(
            spec, debug=debug, archive_classes=archive_classes, compile_fast=compile_fast
        )
    conf |= {"spark.master": master, "spark.app.name": f"eos {spec.pipeline}"}
    words = StderrLog(spec.checkpoint.folder)
    try:
        with nullcontext() if debug or runs else words.inherited():
            if not runs:
                _launch(conf)
            session = SparkSession.builder.config(map=dict[str, bool | float | int | str | None](conf)).getOrCreate()
            for archive in shipped:
                session.sparkContext.addPyFile(archive)
    except PySparkException as error:
        message = f"Spark did not start: {error}"
        remedy = "read the output of spark-submit" if runs else f"see {words.path}; `eos doctor` checks Java"
        raise SparkUnavailableError(message, remedy=remedy) from error
    if runs and modules:  # its processes inherit nothing any more
        session.sparkContext.environment["PYTHONPATH"] = os.pathsep.join(modules)
    if "spark.sql.shuffle.partitions" not in spec.spark.conf:
        session.conf.set("spark.sql.shuffle.partitions", str(session.sparkContext.defaultParallelism))
    silence_pyspark(debug=debug)
    return session


def silence_pyspark(*, debug: bool) -> None:
    """Keep PySpark's loggers from writing to stderr what the run itself reports: the errors of batches and of the JVM.

    PySpark logs an error with the whole text of the value or statement that it quotes, and unmasked.
    """
    of_py4j, *of_queries = pyspark_loggers()
    of_py4j.setLevel(logging.WARNING if debug else logging.CRITICAL)
    for logger in of_queries:
        logger.setLevel(logging.CRITICAL)


def pyspark_loggers() -> list[logging.Logger]:
    """Return the loggers whose levels `silence_pyspark` sets.

    Those of queries are of PySpark's own class: as plain loggers they raise TypeError when PySpark writes to them.
    """
    return [logging.getLogger("py4j"), *map(PySparkLogger.getLogger, _QUERY_LOGGERS)]


def _java_options(spec: Spec, *, debug: bool, archive_classes: bool, compile_fast: bool) -> str:
    given = spec.spark.conf.get("spark.driver.extraJavaOptions", "")
    options = logging_options(spec.checkpoint.folder, debug=debug)
    if is_local(spec.spark.master):
        options += [*collector_options(given), *_start_fast(archive_classes)]
        if compile_fast:
            options += COMPILE_FAST
    return " ".join([*options, given]).strip()  # the last one counts


def _start_fast(archive_classes: bool) -> list[str]:
    """Java's options for it. Where the cache cannot be written Spark starts as it always does."""
    try:
        home = spark_home(os.environ)
        if home is None:
            return []
        options = archive_options(home.parent, make=archive_classes)
    except OSError as error:
        _log.info("Spark starts slowly, without a cache: %s", error)
        return []
    os.environ["SPARK_HOME"] = str(home)
    return options


def _modules(spec: Spec) -> list[str]:
    """The folder in which tasks look for modules: of a spec without Python steps none, since all of it is data."""
    return [str(spec.folder)] if spec.has_python_steps else []


def _inherit(modules: Sequence[str], *, loopback: bool) -> None:
    """What the JVM is to have in its environment, and every process that it starts.

    Python steps may stand beside the spec: processes on this machine find them through the path they inherit. They do
    not look in the current folder, as Python otherwise does first (`python -m`): others may be able to write there.
    """
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    if loopback:  # elsewhere workers must find the driver, by the name that Spark finds for this machine
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    paths = [*modules, *_project(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))


def _project() -> list[str]:
    """Where this project is imported from: what is installed may be another version. Nothing where it is installed."""
    folder = Path(__file__).parents[2]
    return [] if folder.name in ("site-packages", "dist-packages") else [str(folder)]


def _launch(conf: Mapping[str, str]) -> None:
    """Start the JVM of this process, unless it runs. Blocks for a second. Sets PYSPARK_SUBMIT_ARGS.

    PySpark would give each setting as an argument, which every user of this machine can read in `ps`. What the user has
    in PYSPARK_SUBMIT_ARGS counts as it does for PySpark. Raises what PySpark raises, and SpecError for a properties
    file there that cannot be read.
    """
    if SparkContext._gateway is not None:
        return
    content, options = settings_text(conf, shlex.split(os.environ.get(_ARGUMENTS) or "pyspark-shell"))
    file = private_file(content)
    os.environ[_ARGUMENTS] = shlex.join([*file_option(file), *options])
    try:
        gateway = launch_gateway(popen_kwargs={"pass_fds": (file.descriptor,)})  # type: ignore[no-untyped-call]
    finally:
        os.close(file.descriptor)  # the JVM has its own
    SparkContext._ensure_initialized(gateway=gateway)
