"""`eos doctor` on a cluster: what each worker must have, asked on the workers by a job of a few seconds."""

from __future__ import annotations

import platform
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException

from connectors.api.contracts import Finding
from connectors.api.entry import Entry
from connectors.extras import EXTRAS
from connectors.registry import build_sink, build_source
from connectors.spec import PythonStep, Spec
from eos.errors import ConnectorError
from spark_jobs.session.failures import translate
from spark_jobs.session.probe import Probe, Seen
from spark_jobs.session.spark_session import spark_session
from wal.address import ObjectAddress
from wal.stores import module_of

_PATIENCE_S: Final = 90.0
_TASKS_PER_CORE: Final = 3  # so that with some certainty each worker gets one
_ALWAYS: Final = ("spark_jobs.query.source", "spark_jobs.batch.writing")
_PORTS: Final = {"https": 443, "http": 80, "hdfs": 8020}  # by scheme
_INSTALL: Final = (
    "install it on each worker for the Python named there, or ship it with spark.submit.pyFiles in `spark.conf`"
)
_FREE: Final = (
    "see the master's page: are workers free with spark.executor.cores and spark.executor.memory of `spark.conf`?"
)
_INTERPRETER: Final = (
    "name a Python of the driver's version as spark.pyspark.python in `spark.conf`, under a path that all workers and "
    "this machine have"
)
_SHARED: Final = "only steps that keep state need it: mount the same disk there, or run on one machine"


def check_workers(spec: Spec) -> Iterator[tuple[str, Finding]]:
    """Start Spark and look around on every worker that gives an executor. Yields what a finding is about, and it.

    Blocks for some seconds, or for a minute and a half where no worker is free.
    """
    cluster = f"cluster {spec.spark.master}"
    try:
        seen = _look_around(spec)
    except ConnectorError as error:
        yield cluster, Finding("a job on the workers", False, error.message, error.remedy)
        return
    if not seen:
        yield cluster, Finding("a job on the workers", False, f"none began within {_PATIENCE_S:g} s", _FREE)
        return
    by_host: defaultdict[str, list[Seen]] = defaultdict(list)
    for each in seen:
        by_host[each.host].append(each)
    for host, found in sorted(by_host.items()):
        executors = len({each.executor for each in found})
        for finding in _findings(found):
            yield f"worker {host} ({executors} executor{'s' if executors > 1 else ''})", finding


def _look_around(spec: Spec) -> list[Seen]:
    """Nothing, if no task began in time."""
    session = spark_session(spec)
    context = session.sparkContext
    try:
        with tempfile.NamedTemporaryFile(dir=spec.checkpoint.folder, prefix="doctor-") as marker:
            probe = Probe(_modules(spec), _addresses(spec), _files(spec), marker.name)
            first = _run(context, probe, 1)  # waits for the first executor; only then the number of cores is known
            return first and first + _run(context, probe, _TASKS_PER_CORE * context.defaultParallelism)
    except (PySparkException, Py4JError) as error:
        raise translate(error, "a job on the workers") from error
    finally:
        session.stop()


def _run(context: SparkContext, probe: Probe, tasks: int) -> list[Seen]:
    late = threading.Event()

    def give_up() -> None:
        late.set()
        context.cancelAllJobs()

    timer = threading.Timer(_PATIENCE_S, give_up)
    timer.daemon = True
    timer.start()
    try:
        return list(context.parallelize(range(tasks), tasks).mapPartitions(probe).collect())
    except Py4JError:
        if late.is_set():
            return []
        raise
    finally:
        timer.cancel()


def _findings(seen: Sequence[Seen]) -> Iterator[Finding]:
    """Yield the findings about one host."""
    pythons = sorted({f"{each.python} ({each.interpreter})" for each in seen})
    own = platform.python_version()
    same = all(_minor(each.python) == _minor(own) for each in seen)
    yield Finding("Python", same, f"{', '.join(pythons)}; the driver has {own}", _INTERPRETER)
    missing = sorted({reason for each in seen for reason in each.missing})
    yield Finding("packages", not missing, "; ".join(missing) or "all that a task imports", _INSTALL)
    unreachable = sorted({reason for each in seen for reason in each.unreachable})
    remedy = "let this worker connect to that address: tasks read and write from there"
    yield Finding("services", not unreachable, "; ".join(unreachable) or "all answer", remedy)
    unreadable = sorted({reason for each in seen for reason in each.unreadable})
    if unreadable or any(each.files for each in seen):
        remedy = "put the files of certificates and keys under the same paths on each worker"
        yield Finding("certificates", not unreadable, "; ".join(unreadable) or "all can be read", remedy)
    location = all(each.location for each in seen)
    detail = "the driver's folder" if location else "not the driver's folder"
    yield Finding("checkpoint location", location, detail, _SHARED, fatal=False)


def _modules(spec: Spec) -> list[str]:
    connectors = [*map(build_source, spec.sources), *(build_sink(spec, entry) for entry in spec.outputs)]
    steps = [step.python.partition(":")[0] for step in spec.transforms if isinstance(step, PythonStep)]
    stores = [module_of(store)] if (store := _log_store(spec)) else []
    extras = [module for extra in spec.extras for module in EXTRAS[extra]]
    return [*_ALWAYS, *(type(each).__module__ for each in connectors), *steps, *stores, *extras]


def _addresses(spec: Spec) -> list[tuple[str, int]]:
    """Of the brokers that the spec names, of the sinks' servers, and of the store where rows wait."""
    found = [address for entry in _entries(spec) for address in entry.addresses(spec.context)]
    part = urlsplit(store.endpoint) if (store := _log_store(spec)) else None
    if part is not None and part.hostname:
        found.append((part.hostname, part.port or _PORTS[part.scheme]))
    return found


def _entries(spec: Spec) -> list[Entry]:
    return [*spec.sources, *spec.outputs]


def _files(spec: Spec) -> list[str]:
    """Of certificates and keys, which tasks read."""
    return sorted({str(file) for entry in _entries(spec) for file in entry.files})


def _log_store(spec: Spec) -> ObjectAddress | None:
    """Where tasks put rows that wait."""
    at = spec.checkpoint.log_at
    logged = any(entry.is_logged for entry in spec.outputs)
    return at if logged and isinstance(at, ObjectAddress) else None


def _minor(version: str) -> str:
    return version.rpartition(".")[0]
