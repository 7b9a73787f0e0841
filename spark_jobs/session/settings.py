"""Settings of Spark's that the protocol needs, and those that suit connectors."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from connectors.api.masking import SECRET_NAME, is_secret_name
from connectors.spec import Spec
from connectors.spec.spec import CHANGELOG
from spark_jobs.session.master import is_local
from spark_jobs.session.versions import file_manager
from wal.private import PRIVATE

REQUIRED: Final = {
    "spark.speculation": "false",  # R5
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.observeMetricsAggregateAllAttempts": "false",  # dead letters are counted anew in each try
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",  # H22: a losing attempt cannot overwrite state
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    # Renames as the default one does, and takes a third of its time: that one starts a program to look at a link.
    "spark.sql.streaming.checkpointFileManagerClass": file_manager(),
    "spark.sql.runSQLOnFiles": "false",  # a step's SQL reads what the spec names, and no file of this machine
    "spark.sql.variable.substitute": "false",  # nor its environment and settings: `${env:…}` is the spec's alone
}
LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Where master and workers are on this machine."""

_KEPT: Final = 100  # batches, of Spark's own accord

REDACTED: Final = "spark.redaction.regex"
"""Spark's setting: values whose name matches it are hidden in pages, logs and the event log."""
_AS_SPARK: Final = "(?i)secret|password|token|access[.]?key"
"""The default of Spark 4.3."""

_LOCAL_DIR: Final = "spark.local.dir"
_SOCKETS: Final = "spark.python.unix.domain.socket"
_LONGEST: Final = 103 - len("/.01234567-0123-0123-0123-0123456789ab.sock")
"""Bytes of a folder's path. A socket's may have 103 on macOS, 107 on Linux; a longer one cannot be opened."""


def kept_batches(spec: Spec) -> Mapping[str, str]:
    """Spark's files reach back to before all that a sink may be behind by, for `eos repair`; at least as far as Spark's
    own accord."""
    if spec.checkpoint.at_least_once:
        return {}  # no row waits
    behind = max((each.max_backlog.checkpoints for each in spec.outputs if each.max_backlog), default=0)
    return {"spark.sql.streaming.minBatchesToRetain": str(behind + _KEPT)} if behind else {}


def state_settings(spec: Spec) -> Mapping[str, str]:
    """Return Spark's setting for the state backend. `spark.conf` may set it where the spec names no backend."""
    return {CHANGELOG: spec.spark.conf.get(CHANGELOG, spec.changelog)}


def redaction(spec: Spec, variables: Iterable[str] = ()) -> dict[str, str]:
    """Return what keeps the spec's secrets out of Spark's pages, logs and event log: `spark.redaction.regex`.

    `variables`: names of the environment whose values are hidden too, for a cluster's log of its containers.

    Spark hides a setting whose name or value matches. The user's own expression counts as well, and a setting that
    brings a secret under another name (`spark.executorEnv.WAREHOUSE`) is named. No secret itself is in it.
    """
    conf = spec.spark.conf
    named = [key for key, value in conf.items() if not is_secret_name(key) and spec.mask(value) != value]
    hidden = [f"^{re.escape(key)}$" for key in named] + [rf"^(?:.*\.)?{re.escape(each)}$" for each in sorted(variables)]
    parts = [conf.get(REDACTED, ""), _AS_SPARK, SECRET_NAME, *hidden]
    return {REDACTED: "|".join(_as_group(part) for part in parts if part)}


def _as_group(pattern: str) -> str:
    """With its flags for itself alone: `(?i)` in the middle would hold for all that follows."""
    return f"(?i:{pattern.removeprefix('(?i)')})" if pattern.startswith("(?i)") else f"(?:{pattern})"


def local_settings(master: str, environ: Mapping[str, str]) -> dict[str, str]:
    """A folder of this user alone, where Spark keeps rows for a while, and meets its Python processes.

    Of shuffles and of what does not fit into memory Spark makes folders that everybody may read; so they lie in one
    that others cannot enter. Sockets lie there, too: who may open one may have any code run. By TCP the first bytes of
    each task wait 40 ms, since Spark sends them in pieces and the system acknowledges the first one no earlier
    (measured: a checkpoint of a hundred tasks took 3.5 s that way, and 1.4 s by these sockets).

    For a driver on this machine; workers of a cluster have folders of their own. Raises OSError.
    """
    if not is_local(master):
        return {}
    folder = _own_folder()
    settings = {} if environ.get("SPARK_LOCAL_DIRS") else {_LOCAL_DIR: folder}
    if len(os.fsencode(folder)) <= _LONGEST:
        settings |= {f"{_SOCKETS}.enabled": "true", f"{_SOCKETS}.dir": folder}
    return settings


def _own_folder() -> str:
    folder = Path(tempfile.gettempdir(), f"eos-{os.geteuid()}")
    with suppress(FileExistsError):  # whatever it is that somebody has put there
        folder.mkdir(mode=PRIVATE)
    return str(folder) if _is_private(folder) else tempfile.mkdtemp(prefix="eos-")


def _is_private(folder: Path) -> bool:
    """Anybody may have made a folder of that name before."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == PRIVATE
