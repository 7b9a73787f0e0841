"""Sends the project, and the Python steps beside the spec, to the workers of a cluster.

A task is pickled by reference: its process must be able to import what it runs. Where the master is local, that process
inherits the driver's path. On a cluster it has what is installed there, and what is sent with `addPyFile`, which stands
before it: an older installation of the project on a worker does no harm.
"""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

from pyspark.sql import SparkSession

from connectors.api import plugins
from connectors.spec import Spec
from spark_jobs.session.connect import is_connect
from spark_jobs.session.master import is_local
from spark_jobs.session.plugin_modules import files_below, plugin_files

ARCHIVE: Final = "eos-modules.zip"
"""Spark knows what was sent by its file name, so that a pipeline's own files must have others."""

_PROJECT: Final = ("eos", "wal", "twophase", "connectors", "spark_jobs")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # of a zip file's clock


_sent: Final[set[tuple[str, str]]] = set()  # applications of Spark's, one after the other, and names of archives


def ship(session: SparkSession, spec: Spec | None = None) -> None:
    """Send the project, and the plugins that the spec names, to the workers of a session that a user has started.

    Called for each run of a query. Sends each archive once to an application. Raises SpecError for a plugin that
    cannot be sent. Sends nothing to a server of Spark Connect: its Python must have the project.
    """
    if is_connect(session):
        return
    context = session.sparkContext
    if is_local(str(context.master)):
        return
    of_plugins = {} if spec is None else dict(plugin_files(spec))
    named = "".join(f"{name}={file}\n" for name, file in sorted(of_plugins.items()))
    archives = {ARCHIVE: write_archive}
    if of_plugins:
        archives[f"eos-plugins-{sha256(named.encode()).hexdigest()[:12]}.zip"] = partial(_write_zip, files=of_plugins)
    for name, write in archives.items():
        if (context.applicationId, name) not in _sent:
            context.addPyFile(str(write(_temporary_folder() / name)))
            _sent.add((context.applicationId, name))


def pack(spec: Spec | None = None) -> Path:
    """Write the archive of `write_archive` to a temporary folder, which is deleted when this process ends.

    For `eos run`, before Spark starts: it must stand in PYTHONPATH by then, too. Spark starts a process beside the
    driver that plans a streaming source, with the workers' Python, and gives it wrong paths to what was sent with
    `addPyFile`.
    """
    return write_archive(_temporary_folder() / ARCHIVE, spec)


def _temporary_folder() -> Path:
    """Return a new folder, which is deleted when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="eos-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def write_archive(path: Path, spec: Spec | None = None) -> Path:
    """Write the modules into a zip file that Python can import from; returns its path.

    The packages of the plugins that the spec names are in it, but not the libraries that they need. With the entry
    points of this project, another process finds its formats.

    Of the spec's folder those modules and packages that `import` would find there, if there is a Python step. A module
    with the name of a package of the project is left out, since the driver would not import it either.
    """
    modules = {name: root for root, name in _packages(_PROJECT)}
    files = {} if spec is None else dict(plugin_files(spec))
    if spec is not None and spec.has_python_steps:
        modules = {name: root for root, name in beside(spec.folder)} | modules
    for root in modules.values():
        for file in files_below(root):
            files.setdefault(file.relative_to(root.parent).as_posix(), file)
    return _write_zip(path, files, dict(plugins.metadata()))


def _write_zip(path: Path, files: Mapping[str, Path], texts: Mapping[str, str] = MappingProxyType({})) -> Path:
    """Write a zip file with these files and texts, by their paths in it. It is the same for the same content."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), text, zipfile.ZIP_DEFLATED)
        for folder in sorted({f"{each}/" for name in files for each in PurePosixPath(name).parents[:-1]}):
            archive.writestr(zipfile.ZipInfo(folder, _EPOCH), b"")  # zipimport knows a namespace by its folder
        for name, file in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return path


def _packages(names: Iterable[str]) -> Iterator[tuple[Path, str]]:
    """Yield the folder of each package, or the file of a module."""
    for name in names:
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        origin = Path(found.origin)
        yield (origin.parent if found.submodule_search_locations is not None else origin), name


def beside(folder: Path) -> Iterator[tuple[Path, str]]:
    """Modules and packages that `import` finds in a folder, with their names."""
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py" and path.stem.isidentifier():
            yield path, path.stem
        elif path.name.isidentifier() and (path / "__init__.py").is_file():
            yield path, path.name
