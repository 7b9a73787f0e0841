"""What `spark.master` says about where tasks run. Imports no Spark."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from connectors.spec import Spec
from eos.errors import SpecError

_LOCAL: Final = re.compile(r"local(\[.*\])?")
_LOOPBACK: Final = ("127.0.0.1", "localhost")


def is_local(master: str) -> bool:
    """Whether tasks run in processes that the driver's JVM starts. Not so on `local-cluster[…]`."""
    return _LOCAL.fullmatch(master) is not None


def is_loopback(master: str) -> bool:
    """Whether everything is on this machine, so that the driver need not be found from another one."""
    return master.startswith("local") or urlsplit(master).hostname in _LOOPBACK


def worker_python(spec: Spec, environ: Mapping[str, str]) -> str:
    """The interpreter of tasks, and of Spark's own helpers beside the driver: one path for all machines.

    Where tasks run here they must import what the driver imports, so that it is the driver's own. On a cluster it is
    what the spec or PYSPARK_PYTHON names, else the driver's path, which then must exist on each worker.
    """
    if is_local(spec.spark.master):
        return sys.executable
    return spec.spark.conf.get("spark.pyspark.python") or environ.get("PYSPARK_PYTHON") or sys.executable


def check_sinks(spec: Spec) -> None:
    """Raise SpecError for a sink whose tasks write to files of their machine, where that is not the driver's.

    The driver would decide over rows that it cannot find. A bucket is the same one from everywhere. At-least-once only
    a sink that is a file itself is in question.
    """
    checkpoint, master = spec.checkpoint, spec.spark.master
    if is_loopback(master):
        return
    for entry in spec.outputs:
        where = "dead_letter" if entry is spec.dead_letter else f"sinks[{spec.sinks.index(entry)}]"
        here = f"{where} ({entry.name})"
        if checkpoint.at_least_once and entry.is_local_file:
            message = f"{here}: at-least-once tasks write to the file itself, and those of {master} are elsewhere"
            raise SpecError(message, remedy="run it with a local master, or set checkpoint.mode to exactly-once")
        if not checkpoint.at_least_once and isinstance(checkpoint.log_at, Path) and entry.is_logged:
            message = f"{here}: its rows wait in files at {checkpoint.log_at}, and tasks of {master} write them on "
            message += "other machines"
            remedy = "keep the log in an object store (`checkpoint.log`), run it with a local master, or commit by "
            raise SpecError(message, remedy=remedy + "two-phase where the database can")
