"""Settings for spark-submit that no other user can see: not in `ps`, and in no file that a killed process leaves.

Imports no Spark.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eos.errors import SpecError
from spark_jobs.session.properties import as_properties

_FILE: Final = "--properties-file"


@dataclass(frozen=True, slots=True)
class PrivateFile:
    """A file in memory, without a name in any folder. Processes that inherit `descriptor` can open `path`, too."""

    path: str
    descriptor: int


def private_file(content: bytes) -> PrivateFile:
    """Create a file that ends with the last process that has it open. Raises OSError.

    spark-submit opens the path twice, in two JVMs, so a pipe does not do. Where the system has no such files, create
    one of mode 0600 in a folder of its own, which is deleted when this process ends, unless it becomes spark-submit.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("spark-settings", 0)  # 0: it stays open when this process becomes spark-submit
        os.fchmod(descriptor, 0o600)
        path = f"/proc/self/fd/{descriptor}"
    else:
        folder = tempfile.TemporaryDirectory(prefix="eos-")
        atexit.register(folder.cleanup)
        descriptor, path = tempfile.mkstemp(dir=folder.name)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    return PrivateFile(path, descriptor)


def settings_text(settings: Mapping[str, str], options: Iterable[str]) -> tuple[bytes, list[str]]:
    """Return a properties file's content, and the options of spark-submit that go with it, in front of the user's.

    `settings` count more than those of a properties file that `options` name: spark-submit takes one file only.
    Without such a file spark-defaults.conf counts, as it does for spark-submit. Raises SpecError if it cannot be read.
    """
    others, files = _split(list(options))
    given = b""
    if files:
        try:
            given = Path(files[-1]).read_bytes() + b"\n\n"  # a line that ends in a backslash goes on
        except OSError as error:
            message = f"{files[-1]}: cannot be read: {error.strerror}"
            raise SpecError(message, remedy="give a file that is there") from None
    defaults = [] if files else ["--load-spark-defaults"]
    return given + as_properties(settings).encode("ascii"), [*defaults, *others]


def file_option(file: PrivateFile | Path) -> list[str]:
    """Return the option of spark-submit that names the file."""
    return [_FILE, str(file) if isinstance(file, Path) else file.path]


def names_file(options: Iterable[str]) -> bool:
    """Return whether options of spark-submit name a properties file, instead of spark-defaults.conf."""
    given = list(options)
    return bool(_split(given)[1]) and "--load-spark-defaults" not in given


def _split(options: list[str]) -> tuple[list[str], list[str]]:
    """Return the other options, and the properties files among these."""
    others: list[str] = []
    files: list[str] = []
    words = iter(options)
    for word in words:
        if word == _FILE:
            files.append(next(words, ""))
        elif word.startswith(f"{_FILE}="):
            files.append(word.partition("=")[2])
        else:
            others.append(word)
    return others, files
