"""A copy of Spark's checkpoint as it was before one batch, so that a query over it plans that batch once more."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eos.errors import SavepointError, SpecError
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.savepoints.spark_files import needed, state_ids
from spark_jobs.session.locked_dirs import temporary
from twophase.values import CheckpointRecord

_COMMITTED: Final = 'v1\n{"nextBatchWatermarkMs":0}'
"""What Spark writes to `commits/N`."""


@dataclass(frozen=True, slots=True)
class CheckpointBefore:
    """What Spark had when it planned the batch of `record`. Made by `eos repair`."""

    location: Path  # checkpoint.location of the spec
    record: CheckpointRecord
    plans: Mapping[int, str] | None  # `offsets/N` by checkpoint, as head has them; None: the query keeps state
    remedy: str  # of state that is gone

    def files(self) -> list[str]:
        """Paths in Spark's folder that the copy begins with.

        Raises SpecError where Spark has deleted some, or had no state; SavepointError for what cannot be read.
        """
        number, folder = self.record.checkpoint_id, self._own()
        if self.plans is not None or number == 0:
            return ["metadata"]
        try:
            if not state_ids((folder / "commits" / str(number - 1)).read_text()):
                message = f"the steps keep state, and those that made checkpoint {number} kept none"
                raise SpecError(message, remedy="change the steps back for the repair")
            return needed(folder, number - 1)
        except SavepointError as error:
            raise SavepointError(error.message, remedy=self.remedy) from error
        except FileNotFoundError as error:
            message = f"the state before checkpoint {number} is no longer whole: {error.filename or error} is gone"
            raise SpecError(message, remedy=self.remedy) from error

    @contextmanager
    def copied(self) -> Iterator[Path]:
        """The copy, for this block. Raises what `files` raises, and OSError."""
        number = self.record.checkpoint_id
        with _folder(self.location) as folder:
            for path in self.files():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self._own() / path, folder / path)
            for log in ("offsets", "commits"):
                (folder / log).mkdir(exist_ok=True)
            if self.plans is not None and number > 0:  # head keeps the record before the first that is not committed
                (folder / "offsets" / str(number - 1)).write_text(self.plans[number - 1])
                (folder / "commits" / str(number - 1)).write_text(_COMMITTED)
            (folder / "offsets" / str(number)).write_text(self.record.offsets_log)
            yield folder

    def _own(self) -> Path:
        return LocalSparkLog(self.location).folder(self.record.scope.incarnation)


@contextmanager
def _folder(location: Path) -> Iterator[Path]:
    """At the checkpoint location, open to whom that is: its disk has room for state, and workers can write there."""
    with temporary(location / "repair") as folder:
        for each in (folder.parent, folder):
            each.chmod(stat.S_IMODE(location.stat().st_mode))
        yield folder
