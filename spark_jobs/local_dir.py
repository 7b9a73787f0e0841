"""Where Spark keeps rows for a while, of shuffles and of what does not fit into memory: for this user alone.

Spark's own folders there may be read by everybody; so they lie in one that others cannot enter.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from spark_jobs.master import is_local
from wal.private import PRIVATE

_SETTING: Final = "spark.local.dir"


def local_dir(master: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The setting for a driver on this machine; workers of a cluster have their own. Raises OSError."""
    if not is_local(master) or environ.get("SPARK_LOCAL_DIRS"):
        return {}
    folder = Path(tempfile.gettempdir(), f"eos-{os.geteuid()}")
    folder.mkdir(mode=PRIVATE, exist_ok=True)
    return {_SETTING: str(folder if _is_private(folder) else tempfile.mkdtemp(prefix="eos-"))}


def _is_private(folder: Path) -> bool:
    """Anybody may have made a folder of that name before."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == PRIVATE
