"""The file sources of a running query, and the files that its batch reads, from Spark's memory (H25)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spark_jobs.query.source_lists import BatchFiles, last_list
from spark_jobs.session.versions import at_least

_FILE_SOURCE: Final = "FileStreamSource"
_FILE_RELATION: Final = "HadoopFsRelation"
_BETWEEN: Final = "\0"  # paths: not a character of any


class FileSources:
    """The sources of one run of a query. Called from `foreachBatch`, in Spark's thread."""

    def __init__(self, execution: Any) -> None:
        """`execution`: Spark's own object of the query."""
        self._execution = execution
        self._sources = sources_of(execution)
        self.folders = [_folder(source) for source in self._sources]
        """For each source of a plan, in its order, the folder of its lists of files; empty: not a file source."""

    def held(self) -> Mapping[str, BatchFiles]:
        """Return the files of the running batch, by folder. A source without new files is missing.

        They are the paths of the relation that Spark's tasks read, and not Spark's list in memory: after a restart,
        Spark reads the list from the store, and again for each request.
        """
        started, planned = self._execution.committedOffsets(), _new_data(self._execution)
        found = {}
        for folder, source in zip(self.folders, self._sources, strict=True):
            if folder and (plan := planned.get(source)).isDefined():
                start = started.get(source)
                after = last_list(str(start.get().json())) if start.isDefined() else -1
                found[folder] = BatchFiles(after, [path for each in _relations(plan.get()) for path in _paths(each)])
        return found


def sources_of(execution: Any) -> list[Any]:
    """Return the sources of a query, in the order of its plans. One that a union reads twice is there twice."""
    sources = execution.sources()
    return [sources.apply(at) for at in range(sources.size())]


def _folder(source: Any) -> str:
    """Return the folder of a source's lists, below the checkpoint."""
    kind = source.getClass()
    if kind.getSimpleName() != _FILE_SOURCE:
        return ""
    log = kind.getDeclaredField("metadataLog")  # private, with this name in Spark 3.5 to 4.3
    log.setAccessible(True)
    return f"sources/{log.get(source).metadataPath().getName()}"


def _new_data(execution: Any) -> Any:
    """Return the logical plan of each source that has new data in the running batch, as Spark's map."""
    return (execution.getLatestExecutionContext() if at_least(4) else execution).newData()


def _relations(plan: Any) -> Iterator[Any]:
    leaves = plan.collectLeaves().iterator()
    while leaves.hasNext():
        relation = leaves.next().relation()
        assert relation.getClass().getSimpleName() == _FILE_RELATION, "a file source reads files"
        yield relation


def _paths(relation: Any) -> list[str]:
    return str(relation.location().rootPaths().mkString(_BETWEEN)).split(_BETWEEN)
