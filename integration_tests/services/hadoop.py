"""Servers of Hadoop from the jar of its minicluster in Maven: their classpath and their settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from integration_tests.services.java_program import LOGGING
from integration_tests.services.maven_jars import resolved, spark_home

HADOOP_VERSION: Final = "3.4.1"
_BORROWED: Final = ("slf4j-api-", "log4j-slf4j2-impl-", "log4j-api-", "log4j-core-", "log4j-1.2-api-")
"""Logging from Spark's jars. Maven's SLF4J is older, and finds none."""


def classpath(name: str, log: Path, more: tuple[str, ...] = ()) -> str:
    """Return the classpath of a server. Blocks for a minute the first time. Raises ServiceError.

    Args:
        name: folder of its jars in the cache.
        log: of the download.
        more: packages (`group:artifact:version`) that the server needs besides.
    """
    minicluster = f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP_VERSION}"
    found = resolved(f"{name}-{HADOOP_VERSION}", [minicluster, *more], log)
    own = [jar for jar in found if not jar.name.startswith("org.slf4j_")]
    borrowed = [jar for each in _BORROWED for jar in sorted((spark_home() / "jars").glob(f"{each}*.jar"))]
    return ":".join(map(str, [*own, *borrowed]))


def write_settings(folder: Path, sites: Mapping[str, Mapping[str, str]]) -> None:
    """Write a new folder of settings: `<name>-site.xml` of each site, and those of the log."""
    folder.mkdir(parents=True)
    for name, settings in sites.items():
        (folder / f"{name}-site.xml").write_text(_xml(settings))
    (folder / "log4j2.properties").write_text(LOGGING)


def _xml(settings: Mapping[str, str]) -> str:
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    return f"<configuration>{properties}</configuration>\n"
