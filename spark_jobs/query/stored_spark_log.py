"""Spark's checkpoint of a user's own query in a file system that only Spark reads: `s3a://`, `hdfs://`, `dbfs:/` (R4).

The same files are read as from a local disk, and the same comparisons protect the decisions. Two facts differ.

- Nothing is synced. A put to an object store is durable when it returns. HDFS has the file on several datanodes. If a
  file is lost all the same, the next start refuses to continue without it.
- In an object store, Spark does not create `offsets/N` exclusively, and a put may land late. So the file may change at
  any moment. It is compared with the plan that Spark runs before each decision, and with the decision at each start
  (H25). So are the lists of files on which a plan rests (`SourceLists`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from spark_jobs.query.source_lists import Files, SourceLists
from spark_jobs.query.spark_log import query_id_in, query_id_or_damage, spark_state
from spark_jobs.query.truncated_files import is_cut_commit
from twophase.effects import SparkLog
from twophase.values import SparkState


class QueryLog(SparkLog, Protocol):
    """Spark's checkpoint of one query, on any file system, as the checkpoints of its driver use it."""

    def folder(self, incarnation: str) -> object:
        """Return the place, as text for messages."""

    def query_id(self, incarnation: str) -> str | None:
        """Return the id that Spark gave the query; None before its first batch. Raises IdentityError for damage."""

    def offsets_log(self, incarnation: str, checkpoint_id: int) -> str:
        """Return the content of `offsets/N`. Raises FileNotFoundError."""

    def source_lists(self, offsets_log: str) -> Mapping[str, str]:
        """Return digests of the lists of files on which this plan rests, before head decides its batch.

        Raises PlanOverwrittenError if the running batch reads other files, FileNotFoundError.
        """

    def sync_query(self, incarnation: str) -> None:
        """Sync the query's id, before head has it."""

    def sync_offsets(self, incarnation: str, checkpoint_id: int) -> None:
        """Sync the plan, before head decides its batch."""


@dataclass(frozen=True, slots=True)
class StoredSparkLog:
    """Implements QueryLog for the folder of a query that a user has started. It has one folder for all incarnations.

    Every method raises SparkUnavailableError where the store does not answer.
    """

    files: Files
    lists: SourceLists

    def folder(self, incarnation: str) -> str:
        return self.files.url

    def state(self, incarnation: str) -> SparkState:
        planned = self._numbers("offsets")
        committed = next((n for n in reversed(self._numbers("commits")) if self._is_whole_commit(n)), -1)
        query_id = query_id_or_damage(lambda: self.query_id(incarnation))
        state = spark_state(query_id, planned, committed, lambda number: self.offsets_log(incarnation, number))
        return replace(state, source_lists=self.lists.digests(state.offsets_log))

    def query_id(self, incarnation: str) -> str | None:
        try:
            content = self.files.read("metadata")
        except FileNotFoundError:
            return None
        return query_id_in(content.decode(errors="replace"), f"{self.files.url}/metadata")

    def offsets_log(self, incarnation: str, checkpoint_id: int) -> str:
        return self.files.read(f"offsets/{checkpoint_id}").decode(errors="replace")

    def source_lists(self, offsets_log: str) -> Mapping[str, str]:
        return self.lists.check(offsets_log)

    def await_state(self, checkpoint_id: int) -> None:
        """Return at once: Spark has written the state to its checkpoint before it marks a batch as done."""

    def sync_query(self, incarnation: str) -> None:
        """Do nothing: see the module."""

    def sync_offsets(self, incarnation: str, checkpoint_id: int) -> None:
        """Do nothing: see the module."""

    def _numbers(self, log: str) -> list[int]:
        return sorted(int(name) for name in self.files.names(log) if name.isdecimal())

    def _is_whole_commit(self, number: int) -> bool:
        try:
            return not is_cut_commit(self.files.read(f"commits/{number}"))
        except FileNotFoundError:  # Spark has deleted it since
            return False
