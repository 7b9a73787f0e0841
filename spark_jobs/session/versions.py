"""Versions of PySpark: the ways to use this project, the versions that each of them runs with, and the check.

Every difference between versions is here, or in `spark_jobs.session.arrow` and `spark_jobs.query.streaming_api`, which
need Spark. This module does not import Spark. `docs/reference/compatibility.md` has the results of the matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Final

from eos.errors import SparkUnavailableError

_NEWEST: Final = (4, 3)
_UNTESTED: Final = "not tested"
_FILE_MANAGER: Final = "FileSystemBasedCheckpointFileManager"


@dataclass(frozen=True, slots=True)
class Way:
    """A way to use this project, and the oldest PySpark that it runs with."""

    name: str
    since: tuple[int, int]
    lacking: str  # in each earlier version
    instead: str = ""  # for a user who cannot change the version


FOREACH_BATCH: Final = Way("foreachBatch(ExactlyOnce(spec))", (3, 5), _UNTESTED)
RUN: Final = Way(
    "`eos run`", (4, 0), "streaming sources in Python", "a job of your own with foreachBatch(ExactlyOnce(spec))"
)
FORMAT_EOS: Final = Way(
    'format("eos")', (4, 1), "streaming sinks in Python that take Arrow batches", FOREACH_BATCH.name
)
STATE: Final = Way("a query with state", (4, 1), "a format of state that later versions read", "a query without state")
WIDEN: Final = Way("a start with wider integers in state", (4, 2), "Spark's State Rewriter")
RESCALE: Final = Way("`eos rescale`", (4, 2), "the repartitioning of state")
WAYS: Final = (RUN, FOREACH_BATCH, FORMAT_EOS, STATE, WIDEN, RESCALE)


def require_spark(way: Way) -> None:
    """Refuse a version of PySpark that cannot be used this way. Called before anything is written.

    Raises SparkUnavailableError, which names the version, the reason and the remedy.
    """
    found = refusal(way, installed())
    if found is not None:
        raise found


def refusal(way: Way, version: str | None) -> SparkUnavailableError | None:
    """Return why this version of PySpark cannot be used this way; None if it can. `version`: None if not installed."""
    remedy = f"use PySpark {span(way)}: {pip(way)}"
    if version is None:
        return SparkUnavailableError(f"{way.name} needs PySpark, which is not installed", remedy=remedy)
    if parsed(version) > _NEWEST:
        message = f"{way.name} cannot run on PySpark {version}, which is newer than all tested versions"
        return SparkUnavailableError(message, remedy=remedy)
    if parsed(version) < way.since:
        why = f"which lacks {way.lacking}" if way.lacking != _UNTESTED else f"which was {_UNTESTED}"
        message = f"{way.name} cannot run on PySpark {version}, {why}"
        instead = f"; or use {way.instead}" if way.instead else ""
        return SparkUnavailableError(message, remedy=remedy + instead)
    return None


def span(way: Way) -> str:
    """Return the versions of a way as text, as in "4.0 to 4.3"."""
    first, last = (".".join(map(str, each)) for each in (way.since, _NEWEST))
    return first if first == last else f"{first} to {last}"


def pip(way: Way) -> str:
    """Return the command that installs a version for this way."""
    return f"pip install 'pyspark>={way.since[0]}.{way.since[1]},<{_NEWEST[0]}.{_NEWEST[1] + 1}'"


def is_supported(version: str, way: Way = RUN) -> bool:
    """Return whether the way runs with a version of PySpark."""
    return refusal(way, version) is None


@cache
def installed() -> str | None:
    """Return the version of PySpark: of the installed package, or of the one on the path; None if there is neither."""
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        pass
    try:
        from pyspark.version import __version__  # a Spark that a platform brings, without the package's metadata
    except ImportError:
        return None
    return str(__version__)


def parsed(version: str) -> tuple[int, int]:
    """Return the major and minor number."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def plans_within_limits() -> bool:
    """Return whether Spark passes a start and a limit to a source in Python, and ends its query (4.2)."""
    return at_least(4, 2)


def file_manager() -> str:
    """Return the class with which Spark writes its checkpoint. The class has moved in Spark 4.1."""
    package = "streaming.checkpointing" if at_least(4, 1) else "streaming"
    return f"org.apache.spark.sql.execution.{package}.{_FILE_MANAGER}"


def at_least(*version: int) -> bool:
    """Return whether the installed PySpark is this version or newer."""
    found = installed()
    return found is not None and parsed(found) >= version
