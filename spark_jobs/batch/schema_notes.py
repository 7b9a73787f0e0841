"""The schemas that the records of a batch name, as its tasks have reported them (H35)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from connectors.api.contracts import Source
from spark_jobs.query.marks import observation, schemas_in
from spark_jobs.query.running_query import observed_text


@dataclass(slots=True)
class SchemaNotes:
    """The schemas of one attempt of a batch. Created for each attempt."""

    sources: Sequence[Source]  # whose records name schemas
    met: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict, init=False)

    def read(self, batch: DataFrame) -> None:
        """Add the schemas of a job of this batch that has ended.

        Spark reports the newest stage that has read the records. So each job is read, and no job has two such stages.
        """
        for source in self.sources:
            found = schemas_in(observed_text(batch, observation(source), "schemas").splitlines())
            self.met[source.name] = self.met.get(source.name, frozenset()) | found
