"""What Spark's processes write to stderr: a file beside Spark's log, which does not grow without a bound.

Java and Python processes inherit the file and keep it open, so that it cannot be renamed: what is old is copied, and
the file is emptied. They append, so that what comes next stands at its beginning.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from spark_jobs.observe.report import CheckpointReport, Listener
from twophase.local_blobs import naming
from wal.private import make_private, private_file

_MAX_BYTES: Final = 10 * 1024 * 1024

_log: Final = logging.getLogger("eos.spark")


class StderrLog(Listener):
    """`spark.stderr.log` at a checkpoint location, of 10 MB, and the 10 MB before as `spark.stderr.log.1`.

    It is looked at when a checkpoint is complete and when the pipeline's state changes, and may be larger in between.
    What is written in the moment in which it is emptied is lost.
    """

    def __init__(self, location: Path) -> None:
        self.path = location / "spark.stderr.log"

    @contextmanager
    def inherited(self) -> Iterator[None]:
        """Processes that are started in the block have the file as stderr, and so have those that they start.

        Raises HeadError if the file cannot be written.
        """
        with naming(self.path):
            make_private(self.path.parent)
            opened = open(self.path, "ab", opener=private_file)  # noqa: SIM115  # closed in the next block
        terminal = os.dup(2)
        with opened as file:
            os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)

    def on_state(self, text: str) -> None:
        del text
        self._bound()

    def on_checkpoint(self, report: CheckpointReport) -> None:
        del report
        self._bound()

    def _bound(self) -> None:
        try:
            if self.path.stat().st_size > _MAX_BYTES:
                self._empty()
        except FileNotFoundError:
            return  # of a run whose stderr goes elsewhere
        except OSError as error:
            _log.warning("%s cannot be emptied: %s", self.path, error.strerror)

    def _empty(self) -> None:
        older = self.path.with_name(f"{self.path.name}.1")
        with self.path.open("r+b") as file, open(older, "wb", opener=private_file) as before:
            file.seek(-_MAX_BYTES, os.SEEK_END)
            shutil.copyfileobj(file, before)
            file.truncate(0)
