"""The place of one cell of the matrix: services, a topic, a database and a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.services import Services

RECORDS: Final = 10 * CHECKPOINT_RECORDS


@dataclass(frozen=True, slots=True)
class World:
    """The services, an empty topic, an empty database and a folder."""

    services: Services
    folder: Path
    topic: str
    database: str

    def pipeline(self) -> Pipeline:
        """Return a pipeline from the topic to a new table."""
        pipeline = Pipeline(self.folder, self.services.kafka_bootstrap, self.topic, self.database)
        pipeline.table.create()
        return pipeline
