"""The adaptive number of records, kept at the checkpoint location: a start goes on with what the last run found."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors.spec.settings import CheckpointSettings
from spark_jobs.query.pacing.admission import AdaptiveAdmission, Admission, FixedAdmission

_log = logging.getLogger("eos.runner")

NAME: Final = "admission.json"

_TARGET_S: Final = 1.0
"""Of a checkpoint, where `interval: 0s` names none."""


@dataclass(slots=True)
class RememberedAdmission:
    """Not synced, and not missed: a start without it begins small and finds it again."""

    adaptive: AdaptiveAdmission
    path: Path

    def __post_init__(self) -> None:
        """Take up what was found last."""
        try:
            found = json.loads(self.path.read_text())["max_records"]
        except (OSError, ValueError, KeyError, TypeError):
            return
        if isinstance(found, int) and found > 0:
            self.adaptive.records = found

    @property
    def max_records(self) -> int | None:
        return self.adaptive.max_records

    def observe(self, records: int, duration_s: float) -> None:
        before = self.adaptive.records
        self.adaptive.observe(records, duration_s)
        if self.adaptive.records == before:
            return
        partial = self.path.with_suffix(".partial")
        try:
            partial.write_text(json.dumps({"max_records": self.adaptive.records}))
            partial.replace(self.path)
        except OSError as error:
            _log.warning("%s is not kept: %s", self.path, error.strerror)


def admission_of(settings: CheckpointSettings, *, behind: bool) -> Admission:
    """As `max_records_per_checkpoint` says. `behind`: a sink may commit while the next checkpoint is written.

    Called once a run: what is learned outlives restarts of the query.
    """
    most = settings.max_records_per_checkpoint
    if most != "auto":
        return FixedAdmission(most)
    adaptive = AdaptiveAdmission(settings.interval_s or _TARGET_S, probes=not behind)
    return RememberedAdmission(adaptive, settings.location / NAME)
