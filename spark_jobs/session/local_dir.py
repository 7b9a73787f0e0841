"""A folder of this user alone on this machine: where Spark keeps rows for a while, and meets its Python processes.

Of shuffles and of what does not fit into memory Spark makes folders that everybody may read; so they lie in one that
others cannot enter. Sockets lie there, too: who may open one may have any code run. By TCP the first bytes of each task
wait 40 ms, since Spark sends them in pieces and the system acknowledges the first one no earlier (measured: a
checkpoint of a hundred tasks took 3.5 s that way, and 1.4 s by these sockets).
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from spark_jobs.session.master import is_local
from wal.private import PRIVATE

_SPARKS: Final = "spark.local.dir"
_SOCKETS: Final = "spark.python.unix.domain.socket"
_LONGEST: Final = 103 - len("/.01234567-0123-0123-0123-0123456789ab.sock")
"""Bytes of a folder's path. A socket's may have 103 on macOS, 107 on Linux; a longer one cannot be opened."""


def local_settings(master: str, environ: Mapping[str, str]) -> dict[str, str]:
    """For a driver on this machine; workers of a cluster have folders of their own. Raises OSError."""
    if not is_local(master):
        return {}
    folder = _own()
    settings = {} if environ.get("SPARK_LOCAL_DIRS") else {_SPARKS: folder}
    if len(os.fsencode(folder)) <= _LONGEST:
        settings |= {f"{_SOCKETS}.enabled": "true", f"{_SOCKETS}.dir": folder}
    return settings


def _own() -> str:
    folder = Path(tempfile.gettempdir(), f"eos-{os.geteuid()}")
    with suppress(FileExistsError):  # whatever it is that somebody has put there
        folder.mkdir(mode=PRIVATE)
    return str(folder) if _is_private(folder) else tempfile.mkdtemp(prefix="eos-")


def _is_private(folder: Path) -> bool:
    """Anybody may have made a folder of that name before."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == PRIVATE
