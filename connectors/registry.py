"""Which connectors there are, and how an entry of the spec becomes a Source or a Sink: one line for each.

Imports a connector when it is first built, so that `eos validate` loads neither Kafka's client nor a database driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from connectors.spec.fields import SLOTS
from connectors.spec.sinks import ServerEntry, SinkEntry
from connectors.spec.sources import KafkaEntry
from connectors.spec.spec import Spec
from eos.errors import SpecError
from twophase.requests import SHELF, Channel

if TYPE_CHECKING:
    from connectors.contracts import Finding, Sink, Source
    from twophase.head import HeadStore

_SOURCES: Final = {"kafka": "connectors.kafka:KafkaSource"}
_SINKS: Final = {
    "kafka": "connectors.kafka.sink.sink:KafkaSink",
    "mysql": "connectors.sql.mysql.sink:MySqlSink",
    "postgresql": "connectors.sql.postgres.sink:PostgresSink",
    "sqlite": "connectors.sql.sqlite.sink:SqliteSink",
}


def build_source(entry: KafkaEntry) -> Source:
    """The source of an entry of `sources`. Opens nothing. Called once a start, on the driver."""
    return cast("Source", _build(_SOURCES[entry.connector], entry.arguments()))


def build_sink(spec: Spec, entry: SinkEntry) -> Sink:
    """The sink of an entry of `sinks`. Opens nothing. Called once a start, on the driver."""
    arguments = entry.arguments(spec.checkpoint, spec.several_topics)
    if spec.dead_letter is not None and spec.refuses_into_letters(entry):
        arguments["letters"] = build_sink(spec, spec.dead_letter)
        arguments["most_letters"] = spec.checkpoint.max_dead_letters
    return cast("Sink", _build(_SINKS[entry.connector], arguments))


def task_modules(spec: Spec) -> Sequence[str]:
    """The modules of what tasks read and write with, for processes that import them before there is a task."""
    targets = [
        *(_SOURCES[entry.connector] for entry in spec.sources),
        *(_SINKS[each.connector] for each in spec.outputs),
    ]
    return list(dict.fromkeys(target.partition(":")[0] for target in targets))


def open_head(spec: Spec) -> HeadStore:
    """The head register of a pipeline: files at the checkpoint location, or the database that `checkpoint.head` names.

    Called once an epoch, and by the commands that read the history. Creates what is missing. Raises HeadError.
    """
    if spec.checkpoint.head is None:
        from twophase.local_head import LocalHead

        refuse_network_location(spec.checkpoint.location)
        return LocalHead(spec.checkpoint.location)
    from connectors.sql.head import SqlHead

    return SqlHead(spec.checkpoint.head.reveal(), spec.pipeline)


def check_head(spec: Spec) -> Sequence[Finding]:
    """What `eos doctor` says of the database that `checkpoint.head` names. Of files there is nothing to say here."""
    if spec.checkpoint.head is None:
        return []
    from connectors.sql import head_check

    open_head(spec).close()  # opens nothing; a url that SQLAlchemy does not understand is told as by a run
    return head_check.check_head("head", spec.checkpoint.head.reveal())


def check_connections(spec: Spec, tasks: int | None) -> Sequence[Finding]:
    """What `eos doctor` says of the connections that a run opens at each database server. `tasks`: that run at once."""
    from connectors.sql import headroom

    direct = spec.checkpoint.at_least_once
    uses = [
        headroom.Use(
            f"{each.name}:",
            each.url.reveal(),
            slots=0 if direct or each.commit == "two-phase" else each.slots or SLOTS,
            prepares=not direct,
        )
        for each in spec.outputs
        if isinstance(each, ServerEntry)
    ]
    if spec.checkpoint.head is not None:
        uses.append(headroom.Use("head:", spec.checkpoint.head.reveal(), is_head=True))
    return list(headroom.check(uses, tasks))


def require_head(spec: Spec) -> None:
    """Refuse a database of `checkpoint.head` that may lose a decision. Raises SpecError.

    Called once an epoch, by a run. A checkpoint location in files is refused by `open_head`.
    """
    if spec.checkpoint.head is not None:
        from connectors.sql import head_check

        open_head(spec).close()  # opens nothing; raises for a url that cannot be read
        head_check.require_head(spec.checkpoint.head.reveal())


@contextmanager
def open_requests(spec: Spec) -> Iterator[Channel]:
    """The requests to a pipeline, beside its head. Called by who steers and by who is steered. Raises HeadError."""
    head = open_head(spec)
    try:
        yield Channel(head.shelf(SHELF))
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


def _build(target: str, arguments: Mapping[str, object]) -> Any:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)(**arguments)
