"""Starts the driver's JVM with its settings out of everyone's sight."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Final

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway

from spark_jobs.session.private_settings import file_option, private_file, settings_text

_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"


def launch(conf: Mapping[str, str]) -> None:
    """Start the JVM of this process, unless it runs. Blocks for a second.

    PySpark would give each setting as an argument, which every user of this machine can read in `ps`. What the user has
    in PYSPARK_SUBMIT_ARGS counts as it does for PySpark. Raises what PySpark raises, and SpecError for a properties
    file there that cannot be read.
    """
    if SparkContext._gateway is not None:
        return
    given = os.environ.get(_ARGUMENTS)
    content, options = settings_text(conf, shlex.split(given or "pyspark-shell"))
    file = private_file(content)
    os.environ[_ARGUMENTS] = shlex.join([*file_option(file), *options])
    try:
        gateway = launch_gateway(popen_kwargs={"pass_fds": (file.descriptor,)})  # type: ignore[no-untyped-call]
    finally:
        os.close(file.descriptor)  # the JVM has its own
        if given is None:
            del os.environ[_ARGUMENTS]
        else:
            os.environ[_ARGUMENTS] = given
    SparkContext._ensure_initialized(gateway=gateway)
