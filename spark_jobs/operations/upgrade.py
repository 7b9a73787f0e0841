"""Reads the stored documents of a pipeline as the installed version would at a start, and changes nothing.

Each kind of document has a finding: it can be read, or the error that a start would end with, and its remedy. So a new
version can be tried beside the old one, which may still run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from connectors.api.contracts import Finding
from connectors.registry import build_committer, build_sink, open_documents, open_requests
from connectors.spec import SinkEntry, Spec
from eos.errors import ConnectorError, HistoryError
from spark_jobs.observe.head_reader import read_history
from spark_jobs.observe.history.store import History
from spark_jobs.run.known_sinks import KnownSinks
from spark_jobs.savepoints import job as jobs
from spark_jobs.savepoints import plan as plans
from spark_jobs.savepoints.places import default_place, place_at
from twophase.codec import check_writable
from twophase.status import Status
from twophase.verify import check_digest_method

_UNNAMED: Final = "an early version"


def stored_findings(spec: Spec) -> Iterator[tuple[str, Finding]]:
    """Return a finding for each kind of stored document. Empty if the pipeline has never run.

    A sink without the protocol's tables gets them, as from `eos doctor`. Blocks on head and on the sinks.
    """
    try:
        status = read_history(spec)
    except ConnectorError as error:
        yield "head", _unreadable("head and its records", error)
        return
    if status is None:
        return
    yield "head", _tried("head", partial(_head, status))
    yield "head", _tried("records", partial(_records, status))
    yield "head", _tried("requests", partial(_requests, spec))
    yield "query", _tried("plan", partial(_plan, spec, status))
    if not spec.sources:
        yield "query", _tried("Spark's checkpoint", partial(_job, spec, status))
    for entry in spec.outputs:
        if entry.name in status.head.sinks:
            yield f"sink {entry.name}", _tried("rows and transactions", partial(_sink, spec, entry, status))
    if not spec.checkpoint.is_scratch:
        yield "location", _tried("history", partial(_history, spec))
    yield "location", _tried("known sinks", partial(_known_sinks, spec, status))
    yield from _savepoints(spec)


def _tried(check: str, read: Callable[[], str]) -> Finding:
    try:
        return Finding(check, True, read())
    except ConnectorError as error:
        return _unreadable(check, error)


def _unreadable(check: str, error: ConnectorError) -> Finding:
    # A start continues without its history, which is then begun with a new file.
    return Finding(check, False, error.message, error.remedy, fatal=not isinstance(error, HistoryError))


def _head(status: Status) -> str:
    head = status.head
    check_writable(head)
    return f"checkpoint {head.completed} is decided, and committed up to {head.committed}"


def _records(status: Status) -> str:
    if not status.checkpoints:
        return "none yet"
    check_digest_method(status.checkpoints[0])
    versions = sorted({each.written_by or _UNNAMED for each in status.checkpoints})
    return f"{len(status.checkpoints)} checkpoints, decided by {', '.join(versions)}"


def _requests(spec: Spec) -> str:
    with open_requests(spec) as channel:
        paused, waiting = channel.paused(), len(channel.pending())
    return f"{waiting} wait for an answer{', and the pipeline is paused' if paused is not None else ''}"


def _plan(spec: Spec, status: Status) -> str:
    found = plans.kept(open_documents(spec), status.head.incarnation)
    return "the names of its steps are known" if found is not None else "the names of its steps are not known"


def _job(spec: Spec, status: Status) -> str:
    found = jobs.find(open_documents(spec), status.head.incarnation)
    return f"{found.folder} on {found.host}" if found is not None else "not known before the next start of the job"


def _sink(spec: Spec, entry: SinkEntry, status: Status) -> str:
    incarnation = status.head.incarnation
    committer = build_committer(build_sink(spec, entry), spec.pipeline)
    try:
        counted = committer.inspect(incarnation, ()).counted
        prepared: Sequence[object] = committer.prepared(incarnation)
    finally:
        committer.close()
    return f"checkpoint {counted} is counted, and {len(prepared)} transactions are prepared"


def _history(spec: Spec) -> str:
    found = History.at(spec.checkpoint.folder).checkpoints(limit=1)
    return f"up to checkpoint {found[0].checkpoint_id}" if found else "empty"


def _known_sinks(spec: Spec, status: Status) -> str:
    kept = KnownSinks.of(spec)
    found = [each.name for each in spec.outputs if kept.find(status.head, each.name) is not None]
    return ", ".join(found) or "none"


def _savepoints(spec: Spec) -> Iterator[tuple[str, Finding]]:
    try:
        found = place_at(default_place(spec)).found()
    except ConnectorError as error:
        yield "savepoint", _unreadable("savepoints", error)
        return
    for each in found:
        name = str(each.at).rpartition("/")[2]
        if each.manifest is not None:
            yield "savepoint", Finding(name, True, f"checkpoint {each.manifest.checkpoint_id}")
        elif not each.is_unfinished:
            yield "savepoint", Finding(name, False, each.why, "keep the version that has written it")
