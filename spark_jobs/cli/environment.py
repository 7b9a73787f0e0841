"""What this machine must have before Spark is started, as findings of `eos doctor`. Imports no Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from connectors.api.contracts import Finding
from connectors.spec import Spec
from spark_jobs.session.master import is_local
from spark_jobs.session.versions import RUN, installed, is_supported, pip
from wal.errors import NetworkFilesystemError
from wal.filesystem import refuse_network_filesystem

_JAVA_NEEDED: Final = 17
_JAVA_TIMEOUT_S: Final = 20
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_LOCAL: Final = re.compile(r"local(?:\[(\*|\d+)(?:,\d+)?\])?")
_SPACE_NEEDED: Final = 100 * 2**20  # bytes: Spark's log alone may take 40 MB
_SPACE_WISHED: Final = 2**30
_INSTALL_JAVA: Final = f"install Java {_JAVA_NEEDED} or newer, and set JAVA_HOME if it is not on the PATH"


def check_environment(spec: Spec, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Java, Spark, the interpreter of the workers, and the checkpoint location."""
    yield check_java(environ)
    yield check_pyspark()
    if is_local(spec.spark.master):  # elsewhere the workers are asked for theirs
        yield check_interpreter(environ)
    if spec.checkpoint.is_scratch:
        yield check_scratch(spec.checkpoint.folder)
        yield check_space(spec.checkpoint.folder, "checkpoint.scratch")
    else:
        yield from check_location(spec.checkpoint.folder)
        yield check_space(spec.checkpoint.folder)


def tasks_at_once(spec: Spec) -> int | None:
    """How many tasks Spark runs at the same time; None where only the cluster knows."""
    match = _LOCAL.fullmatch(spec.spark.master)
    if match is None:
        cores = spec.spark.conf.get("spark.cores.max", "")
        return int(cores) if cores.isdecimal() else None
    return (os.cpu_count() or 1) if match[1] == "*" else int(match[1] or 1)


def check_java(environ: Mapping[str, str]) -> Finding:
    """The Java that Spark will find: JAVA_HOME first, then the PATH."""
    home = environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH"))
    if java is None:
        return Finding("Java", False, "there is none", _INSTALL_JAVA)
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("Java", False, f"{java} does not run: {error}", _INSTALL_JAVA)
    match = _VERSION.search(done.stderr + done.stdout)
    if match is None:
        return Finding("Java", False, f"{java} does not say its version", _INSTALL_JAVA, fatal=False)
    return Finding("Java", int(match[1]) >= _JAVA_NEEDED, f"version {match[1]} ({java})", _INSTALL_JAVA)


def check_pyspark() -> Finding:
    """The installed version, of which `eos run` needs a supported one."""
    version = installed()
    if version is None:
        return Finding("PySpark", False, "not installed", pip(RUN))
    return Finding("PySpark", is_supported(version), f"version {version}", pip(RUN))


def check_interpreter(environ: Mapping[str, str]) -> Finding:
    """Workers must import what the driver imports; `eos run` sets PYSPARK_PYTHON to its own interpreter."""
    chosen = environ.get("PYSPARK_PYTHON")
    if not chosen:
        return Finding("PYSPARK_PYTHON", True, f"not set; eos run uses {sys.executable}")
    found = shutil.which(chosen, path=environ.get("PATH"))
    # Not resolved: a virtual environment's python is a link to the system's, and yet another interpreter.
    same = found is not None and Path(found).absolute() == Path(sys.executable).absolute()
    detail = chosen if same else f"{chosen}, but this is {sys.executable}"
    return Finding("PYSPARK_PYTHON", same, detail, f"unset it, or set it to {sys.executable}", fatal=False)


def check_location(location: Path) -> Iterator[Finding]:
    """The folder of head, Spark's state and the log."""
    reason = why_not_writable(location)
    remedy = "give a folder that this user may write, in checkpoint.location"
    yield Finding("checkpoint location", reason is None, reason or f"{location} can be written", remedy)
    try:
        refuse_network_filesystem(location)
    except NetworkFilesystemError as error:
        yield Finding("checkpoint filesystem", False, error.message, error.remedy)
    else:
        yield Finding("checkpoint filesystem", True, f"{location} is on a local disk")


def check_scratch(folder: Path) -> Finding:
    """The folder of this machine beside a location in an object store. Each run begins with nothing in it."""
    reason = why_not_writable(folder)
    detail = f"{folder} can be written, for files that may be lost (checkpoint.scratch)"
    remedy = "give a folder that this user may write, in checkpoint.scratch"
    return Finding("scratch folder", reason is None, reason or detail, remedy)


def check_space(location: Path, key: str = "checkpoint.location") -> Finding:
    """State, records and the log of write-ahead sinks grow there; a full disk stops the pipeline.

    `key`: of the folder, in the spec.
    """
    folder = existing(location)
    free = shutil.disk_usage(folder).free
    detail = f"{free / 2**30:.1f} GiB at {folder}"
    when = " before the first run" if key == "checkpoint.location" else ""
    remedy = f"make room, or set {key} to a folder on another disk{when}"
    return Finding("free space", free >= _SPACE_WISHED, detail, remedy, fatal=free < _SPACE_NEEDED)


def existing(path: Path) -> Path:
    """The nearest folder above, or the path itself, that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def why_not_writable(path: Path) -> str | None:
    """What fails when head's way of writing is tried in the folder (or where it would be made); None: nothing does.

    Leaves nothing behind.
    """
    folder = path
    try:
        folder = existing(path)
        if not folder.is_dir():
            return f"{folder} is not a folder"
        with tempfile.TemporaryDirectory(dir=folder, prefix=".eos-doctor-") as scratch:
            first = Path(scratch, "a")
            with first.open("xb") as file:
                os.fsync(file.fileno())
            os.link(first, Path(scratch, "b"))
    except OSError as error:
        return f"{error.strerror}: {folder}"
    return None
