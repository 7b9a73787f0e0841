"""Hadoop's client of S3 (`s3a://`) for the Spark of this environment, from Maven.

Hadoop names the whole SDK of AWS, a jar of 600 MB. It needs the modules below, which have 20 MB.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from integration_tests.services.maven_jars import resolved, spark_home
from integration_tests.services.values import ServiceError

_SDK: Final = "2.35.4"
"""Version of the SDK with which Hadoop 3.5.0 was built."""
_MODULES: Final = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
_GROUP: Final = "software.amazon.awssdk"
_HADOOP: Final = "hadoop-client-api-"


def s3a_jars(log: Path) -> list[Path]:
    """Return the jars of the client. Blocks for a minute the first time. Raises ServiceError.

    `log`: of the download.
    """
    hadoop = next((spark_home() / "jars").glob(f"{_HADOOP}*.jar"), None)
    if hadoop is None:
        raise ServiceError("Spark's jars have no Hadoop client")
    version = hadoop.stem.removeprefix(_HADOOP)
    modules = [f"{_GROUP}:{module}:{_SDK}" for module in _MODULES]
    packages = [f"org.apache.hadoop:hadoop-aws:{version}", *modules]
    return resolved(f"s3a-{version}", packages, log, without=[f"{_GROUP}:bundle"])
