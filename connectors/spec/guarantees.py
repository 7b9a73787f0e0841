"""What a pipeline promises, sink by sink, in plain words, from the spec alone. `eos doctor` checks the needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors.spec.kafka_sink import KafkaSinkEntry
from connectors.spec.sinks import MySqlEntry, PostgresEntry, SinkEntry, SqliteEntry
from connectors.spec.spec import Spec


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One sink: the promise, when its rows can be seen, what that takes, and where it ends."""

    sink: str
    promise: str
    visible: str
    needs: tuple[str, ...]
    limits: tuple[str, ...]


def promise(spec: Spec) -> str:
    """Of the pipeline as a whole, in a line."""
    return _AT_LEAST_ONCE if spec.checkpoint.at_least_once else _EXACTLY_ONCE


_EXACTLY_ONCE: Final = "exactly-once: every record's rows are in each sink once, whatever is killed and restarted"
_AT_LEAST_ONCE: Final = (
    "at-least-once: no record is lost; after a failure the rows of the checkpoint that was under way may come twice"
)


def guarantees(spec: Spec) -> list[Guarantee]:
    """One for each sink, in the order of the spec. Pure; secrets are masked."""
    return [_of_sink(spec, entry) for entry in spec.outputs]


def _of_sink(spec: Spec, entry: SinkEntry) -> Guarantee:
    words = next(
        words for (kind, commit), words in _BY_KIND.items() if isinstance(entry, kind) and commit == entry.commit
    )(spec)
    promise, visible, needs, limits = _direct(spec, entry, words) if spec.checkpoint.at_least_once else words
    if entry is spec.dead_letter:
        most = spec.checkpoint.max_dead_letters
        limits = (*limits, f"more than {most:,} dead letters in a checkpoint stop the pipeline")
        return Guarantee(spec.mask(entry.name), promise, visible, (*_of_table(entry), *needs), limits)
    if spec.dead_letter is not None:
        limits = (*limits, _refused(spec))
    if entry.commit != "two-phase" and not isinstance(entry, KafkaSinkEntry) and not spec.checkpoint.at_least_once:
        limits = (*limits, _found_late(spec, entry))
    return Guarantee(spec.mask(entry.name), promise, visible, (*_of_table(entry), *needs), (*limits, *_of_source(spec)))


def _refused(spec: Spec) -> str:
    if spec.checkpoint.at_least_once:
        return "a row that it refuses goes to dead_letter, at least once; other rows of its checkpoint may come twice"
    return "a row that it refuses before the decision goes to dead_letter"


def _found_late(spec: Spec, entry: SinkEntry) -> str:
    found = "a row that a constraint of the table refuses is found after the checkpoint is decided"
    if spec.refuses_into_letters(entry):
        return f"{found}: it goes to dead_letter in the transaction that applies the other rows"
    return f"{found}: the pipeline stops there until the table takes it"


def _of_table(entry: SinkEntry) -> tuple[str, ...]:
    """What a run needs of the table, or of the user who makes it."""
    tables = {MySqlEntry: "an InnoDB table", PostgresEntry: "a logged table"}
    table = next((words for kind, words in tables.items() if isinstance(entry, kind)), "a table")
    if isinstance(entry, KafkaSinkEntry):
        return ()
    exists = "that exists, " if entry.create == "never" else ""
    lines = [f"{table} {exists}with columns that fit the rows"]
    if entry.create == "if-missing":
        lines.append("the right to create the table, where there is none: `eos doctor` shows the statement")
    if entry.evolve == "add-columns":
        lines.append("the right to alter the table, where it lacks columns: `eos doctor` shows the statements")
    return tuple(lines)


_Words = tuple[str, str, tuple[str, ...], tuple[str, ...]]


def _direct(spec: Spec, entry: SinkEntry, exactly_once: _Words) -> _Words:
    """At-least-once. What `commit` needs is needed all the same: a start ends what an exactly-once run has left."""
    of_topic, of_table = "a topic that exists and is not compacted", "no unique key that a row could meet again"
    own = of_topic if isinstance(entry, KafkaSinkEntry) else of_table
    return (
        _AT_LEAST_ONCE,
        f"as soon as a task has written its share of a checkpoint (one begins every {spec.checkpoint.interval_s:g} s)",
        (own, *(need for need in exactly_once[2] if need != _place(spec) and "read_committed" not in need)),
        (
            "what may come twice, and more often if it fails again: rows of the one checkpoint that is not in "
            "`eos status` when a task, the driver or a service fails, or the run is ended the hard way",
            "a reader may see some rows of a checkpoint and not yet others, of one sink or of several",
            "a driver that another one has superseded may still write the rows of one checkpoint",
        ),
    )


def _mysql(spec: Spec) -> _Words:
    return (
        *_two_phase(spec),
        (
            "MySQL: xa_detach_on_prepare=ON and the privilege XA_RECOVER_ADMIN",
            "durable commits: innodb_flush_log_at_trx_commit=1 and sync_binlog=1 (not MariaDB's defaults)",
            "tables of the protocol beside the target: created at the first start, or by an administrator",
        ),
        _TWO_PHASE_LIMITS,
    )


def _postgres(spec: Spec) -> _Words:
    return (
        *_two_phase(spec),
        (
            "max_prepared_transactions of twice the tasks that write at once (the server's default is 0), fsync=on",
            "tables of the protocol beside the target: created at the first start, or by an administrator",
        ),
        (*_TWO_PHASE_LIMITS, "prepared transactions hold back VACUUM: do not leave a pipeline down for days"),
    )


def _two_phase(spec: Spec) -> tuple[str, str]:
    return (
        "exactly-once: every record's rows are in the table once, whatever is killed and restarted",
        f"with each checkpoint (every {spec.checkpoint.interval_s:g} s), one task's share shortly after another's",
    )


_TWO_PHASE_LIMITS: Final = (
    "prepared rows keep their locks until the checkpoint is committed, also while the pipeline is down",
    "no DDL on the table while the pipeline runs",
    "a reader may see one task's rows of a checkpoint just before another's",
)


def _write_ahead_log(spec: Spec, visible: str, *, limits: tuple[str, ...]) -> _Words:
    return (
        "exactly-once: rows wait in a log and are applied in one transaction with their witness",
        f"with each checkpoint (every {spec.checkpoint.interval_s:g} s), {visible}",
        (_place(spec),),
        limits,
    )


def _place(spec: Spec) -> str:
    at = spec.checkpoint.log_at
    where = spec.mask(str(at))
    if isinstance(at, Path):
        return f"a local disk for the log at {where}, kept as long as the table; tasks run on the driver's machine"
    return (
        f"a store for the log at {where} that refuses a second object of one name, and keeps what it has taken; rights "
        "to put, get, list and delete there, for the driver and every machine with tasks"
    )


def _sqlite_log(spec: Spec) -> _Words:
    return _write_ahead_log(
        spec, "all of its rows at once", limits=("one writer at a time holds the database file; others wait",)
    )


def _server_log(spec: Spec) -> _Words:
    return _write_ahead_log(
        spec,
        "one slot's rows shortly after another's",
        limits=("a reader may see one slot's rows of a checkpoint just before another's; with `slots: 1` all at once",),
    )


def _kafka(spec: Spec) -> _Words:
    promise, visible, (disk,), limits = _write_ahead_log(spec, "one slot's messages after another's", limits=())
    return (
        promise.replace("witness", "marker"),
        visible,
        (
            "a topic that exists, and readers with isolation.level=read_committed",
            "a compacted topic for the markers: created at the first start, or by an administrator",
            disk,
        ),
        (
            *limits,
            "a checkpoint that a quarter of `transaction_timeout` is too short for becomes visible in several parts",
            "messages of one key keep their order if they come from one partition of the source",
        ),
    )


def _upsert(spec: Spec) -> _Words:
    _, visible, needs, limits = _write_ahead_log(spec, "one task's rows after another's", limits=_UPSERT_LIMITS)
    place = "`_offset`, `_partition` and `_topic`" if spec.several_topics else "`_offset` and `_partition`"
    return (
        "exactly-once: of each key the newest row of its partition is in the table; rows wait in a log, merged with "
        "their witness",
        visible,
        (
            *needs,
            f"a unique index on the key's columns and no other, and {place} of the source among the rows",
            "key columns whose values are equal for the database only if they are the same: text is compared by bytes",
        ),
        limits,
    )


def _mysql_upsert(spec: Spec) -> _Words:
    promise, visible, needs, limits = _upsert(spec)
    return promise, visible, (*needs, "the privilege CREATE TEMPORARY TABLES"), limits


_UPSERT_LIMITS: Final = (
    "records of one key must lie in one partition of one topic, for good, since offsets of two do not compare: two in "
    "one checkpoint stop the pipeline, and of two checkpoints the later one wins, whichever row is newer",
    "partitions that a topic is given move keys: let the pipeline catch up before producers use them, or rows that the "
    "old ones still have win when they come",
    "of several rows of one key in a checkpoint only the newest is ever seen",
)

_BY_KIND: Final[dict[tuple[type, str], Callable[[Spec], _Words]]] = {
    (MySqlEntry, "two-phase"): _mysql,
    (MySqlEntry, "write-ahead-log"): _server_log,
    (MySqlEntry, "upsert"): _mysql_upsert,
    (PostgresEntry, "two-phase"): _postgres,
    (PostgresEntry, "write-ahead-log"): _server_log,
    (PostgresEntry, "upsert"): _upsert,
    (SqliteEntry, "write-ahead-log"): _sqlite_log,
    (SqliteEntry, "upsert"): _upsert,
    (KafkaSinkEntry, "write-ahead-log"): _kafka,
}


def _of_source(spec: Spec) -> tuple[str, ...]:
    """Where a setting of the source makes "every record" mean less than all."""
    limits = []
    for source in spec.sources:
        if source.on_bad_record == "skip":
            limits.append(
                "on_bad_record: skip: a record that does not decode is counted and left out, up to "
                f"checkpoint.max_skipped ({spec.checkpoint.max_skipped}) in a checkpoint"
            )
        if source.on_bad_record == "dead-letter":
            often = "at least once" if spec.checkpoint.at_least_once else "exactly once"
            limits.append(f"a record of {source.name} that does not decode goes to dead_letter instead, {often}")
        if source.starting_offsets != "earliest":
            limits.append(f"starting_offsets: the very first start begins at {source.starts_from}, not before")
        if not source.fail_on_data_loss:
            limits.append("fail_on_data_loss: false: records that retention deletes before they are read are left out")
        if source.isolation_level == "read_uncommitted":
            limits.append("isolation_level: read_uncommitted: records of aborted Kafka transactions are written, too")
    if spec.has_python_steps:
        limits.append("Python steps must give the same rows for the same records: a failed task runs them again")
    return tuple(limits)
