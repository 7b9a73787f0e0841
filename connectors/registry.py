"""Sources, sinks, head and requests of a spec's pipeline.

Imports a client or a driver when it is first needed, so that `eos validate` loads none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from connectors.api.database import DatabaseUse
from connectors.api.entry import Entry, SinkEntry, SourceEntry
from connectors.foreign import foreign
from connectors.members import require_members
from connectors.sources.split_source import SplitSource
from connectors.spec.spec import Spec
from eos.errors import SpecError
from twophase.participants import Committer
from twophase.requests import SHELF, Channel
from wal.address import ObjectAddress

_CORRECT: Final = "correct the plugin: docs/tutorial/plugins.md describes the result of `build`"

if TYPE_CHECKING:
    from connectors.api.contracts import Finding, Sink, Source
    from twophase.documents import Documents
    from twophase.head import HeadStore


def build_source(entry: SourceEntry) -> Source:
    """Build the source of an entry of `sources`. Opens nothing. Called once a start, on the driver."""
    where = f"source {entry.name}: `build` of {_class(entry)}"
    with foreign(where, SpecError, _CORRECT):
        built = entry.build()
    if not isinstance(built, SplitSource):
        from connectors.api.contracts import Source

        return require_members(built, Source, where)
    from connectors.sources.built import BuiltSource  # loads pyarrow

    return BuiltSource(entry.name, built)


def build_sink(spec: Spec, entry: SinkEntry) -> Sink:
    """Build the sink of an entry of `sinks`. Opens nothing. Called once a start, on the driver."""
    letters = spec.dead_letter if spec.refuses_into_letters(entry) else None
    below = _built(spec, letters, None) if letters is not None else None
    return _built(spec, entry, below)


def _built(spec: Spec, entry: SinkEntry, letters: Sink | None) -> Sink:
    from connectors.api.contracts import Sink

    where = f"sink {entry.name}: `build` of {_class(entry)}"
    with foreign(where, SpecError, _CORRECT):
        built = entry.build(spec.context_of(entry), letters)
    return require_members(built, Sink, where)


def build_committer(sink: Sink, pipeline: str) -> Committer:
    """Build the driver's half of a sink. Opens nothing. Called once an epoch, and by commands. Raises SpecError."""
    return require_members(sink.committer(pipeline), Committer, f"sink {sink.name}: `committer`")


def _class(entry: Entry) -> str:
    return f"{type(entry).__module__}.{type(entry).__qualname__}"


def task_modules(spec: Spec) -> Sequence[str]:
    """Return the modules that tasks read and write with, for processes that import them before their first task."""
    entries: list[Entry] = [*spec.sources, *spec.outputs]
    return list(dict.fromkeys(module for entry in entries for module in entry.task_modules))


def open_head(spec: Spec) -> HeadStore:
    """The head register of a pipeline: at the checkpoint location, or in the database that `checkpoint.head` names.

    Called once an epoch, and by the commands that read the history. Creates what is missing. Raises HeadError.
    """
    if isinstance(at := spec.checkpoint.location_at, ObjectAddress):
        from twophase.object_head import ObjectHead

        return ObjectHead(at)
    if spec.checkpoint.head is None:
        from twophase.local_head import LocalHead

        refuse_network_location(spec.checkpoint.folder)
        return LocalHead(spec.checkpoint.folder)
    from connectors.sql.head import SqlHead

    return SqlHead(spec.checkpoint.head.reveal(), spec.pipeline)


def open_documents(spec: Spec) -> Documents:
    """The small documents beside head, which outlive the machine where head does. Opens nothing. Raises HeadError."""
    if isinstance(at := spec.checkpoint.location_at, ObjectAddress):
        from twophase.object_head import ObjectDocuments

        return ObjectDocuments(at)
    from twophase.documents import LocalDocuments

    return LocalDocuments(at)


def check_head(spec: Spec) -> Sequence[Finding]:
    """What `eos doctor` says of the database that `checkpoint.head` names. Of files there is nothing to say here."""
    if spec.checkpoint.head is None:
        return []
    from connectors.sql import head

    return head.check_head("head", spec.checkpoint.head.reveal())


def check_location(spec: Spec) -> Sequence[Finding]:
    """Try the object store that `checkpoint.location` names, for `eos doctor`. Empty for a folder. May block."""
    if not isinstance(at := spec.checkpoint.location_at, ObjectAddress):
        return []
    from connectors.buckets import location

    return list(location.check_location(at))


def check_connections(spec: Spec, tasks: int | None) -> Sequence[Finding]:
    """What `eos doctor` says of the connections that a run opens at each database server. `tasks`: that run at once."""
    from connectors.sql import headroom

    found = [each.database_use(spec.context) for each in spec.outputs]
    uses = [each for each in found if each is not None]
    if spec.checkpoint.head is not None:
        uses.append(DatabaseUse("head:", spec.checkpoint.head.reveal(), is_head=True))
    return list(headroom.check(uses, tasks))


def require_head(spec: Spec) -> None:
    """Refuse a database of head, or an object store, that may lose a decision. Raises SpecError, HeadError.

    Called once an epoch, by a run. A checkpoint location in files is refused by `open_head`.
    """
    if isinstance(at := spec.checkpoint.location_at, ObjectAddress):
        from twophase.object_head import ObjectHead

        ObjectHead(at).require_conditions()
    if spec.checkpoint.head is not None:
        from connectors.sql import head

        head.require_head(spec.checkpoint.head.reveal())


@contextmanager
def open_requests(spec: Spec) -> Iterator[Channel]:
    """The requests to a pipeline, beside its head. Called by who steers and by who is steered. Raises HeadError."""
    head = open_head(spec)
    try:
        yield Channel(head.blobs(SHELF))
    finally:
        head.close()


def refuse_network_location(location: Path) -> None:
    """H21: links and syncs of a network filesystem promise too little for a register. Raises SpecError."""
    from wal.errors import NetworkFilesystemError
    from wal.filesystem import refuse_network_filesystem

    try:
        refuse_network_filesystem(location)
    except NetworkFilesystemError as error:
        message = f"checkpoint.location: {error}"
        raise SpecError(
            message, remedy="use a local disk, or keep head in a database with `checkpoint.head`"
        ) from error
