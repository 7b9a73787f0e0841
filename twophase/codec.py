"""Head and records as versioned JSON: readable with any tool, and never a pickle.

Every document carries `format`, that of its writer. Where a version writes a field that older ones may pass over, its
format is a new one, and `least_reader` names the oldest format whose readers understand all that they need; without it
that is the writer's own. A reader refuses what it does not understand by name; older formats are read for ever (golden
bytes in tests/golden). Keys are sorted and there is no white space, so that the same value has the same bytes and hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, NamedTuple

from eos.errors import HeadFormatError
from twophase.head_value import HeadValue, Origin, RecordRef
from twophase.ids import Scope, TransactionId
from twophase.values import CheckpointRecord, Committable, OffsetRange

FORMAT: Final = 1
_PARTED: Final = 2
"""Of a head that names a part: what knows only FORMAT refuses it."""

_MOST_VERSION_CHARS: Final = 100

_FIELDS: Final = {
    "head": {each.name for each in fields(HeadValue)} - {"unknown"} | {"checksum", "direct", "splits"},
    "record": {each.name for each in fields(CheckpointRecord)},
    "committable": {each.name for each in fields(Committable)},
}
"""What documents of the formats below may hold, besides `format` and `least_reader`."""

NEWEST: Final = {"head": _PARTED, "record": FORMAT, "committable": FORMAT}
"""The newest format of each document that this version reads."""

_OF_SPLITS: Final = ("identities", "initial", "positions")
_SCHEMAS: Final = "schemas"

Splits = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""The fields of head that grow with the splits of a source, by their names."""

NO_SPLITS: Final[Splits] = {key: {} for key in _OF_SPLITS}


class Part(NamedTuple):
    """Names the content that holds these fields, where head itself does not."""

    name: str
    sha256: str


_OF_FORMAT: Final = frozenset({"format", "least_reader"})
_NEWER: Final = "run the version that wrote it, or a newer one"
_RESTORE: Final = "restore the checkpoint location from a backup"
_RESTORE_HEAD: Final = (
    f"{_RESTORE}; without one, move it away and take the sinks over with `eos reset`: the pipeline restarts, and "
    "the prepared transactions of its old incarnation are listed, to be resolved by hand"
)


def sha256_of(content: bytes) -> str:
    """Hex digest: the content half of a record's name."""
    return hashlib.sha256(content).hexdigest()


def check_format(found: object, what: str, known: int = FORMAT, remedy: str = _NEWER) -> None:
    """Raise HeadFormatError, which names `what`, unless `found` is the number of the format that this version reads.

    For documents that processes of another version may have written; `known` is that of the document's kind.
    """
    if found != known or type(found) is not int:
        message = f"{what} has format {found}; this version reads format {known}"
        raise HeadFormatError(message, remedy=remedy)


def check_readable(document: Mapping[str, object], what: str, known: int = FORMAT, remedy: str = _NEWER) -> None:
    """Raise HeadFormatError, which names `what`, unless a reader of the formats up to `known` may read the document.

    That is so where `format` is one of them, or a newer version wrote it for readers of one (`least_reader`).
    """
    written, least = document["format"], document.get("least_reader")
    if type(written) is int and FORMAT <= written <= known:
        return
    if least is None or type(written) is not int or written < FORMAT:
        check_format(written, what, known, remedy)
    elif type(least) is not int or least > known:
        message = f"{what} has format {written}, which is read from format {least} on; this version reads {known}"
        raise HeadFormatError(message, remedy=remedy)


def own_fields(document: Mapping[str, Any], known: Collection[str], own_format: int = FORMAT) -> dict[str, Any]:
    """Return a readable document without `format` and `least_reader`.

    What is not `known` is passed over where a newer version wrote the document; else it is left in, for the caller to
    refuse.
    """
    is_newer = document["format"] > own_format
    return {
        name: value for name, value in document.items() if name not in _OF_FORMAT and (name in known or not is_newer)
    }


def unknown_fields(document: Mapping[str, Any], known: Collection[str]) -> tuple[str, ...]:
    """Return the names of the fields of a document that this version does not know."""
    return tuple(sorted(document.keys() - known - _OF_FORMAT))


def encode_head(head: HeadValue, part: Part | None = None) -> bytes:
    """Canonical JSON of head, with its own hash: unlike a record's, nothing else could tell that it was damaged.

    `part`: where `encode_splits(head)` is stored, which is then left out here.
    """
    document: dict[str, Any] = {
        "format": FORMAT,
        "pipeline": head.pipeline,
        "incarnation": head.incarnation,
        "epoch": head.epoch,
        "nonces": head.nonces,
        "query_id": head.query_id,
        "completed": head.completed,
        "committed": head.committed,
        "aborted_checkpoint": head.aborted_checkpoint,
        "aborted_attempt": head.aborted_attempt,
        "initial": head.initial,
        "identities": head.identities,
        "positions": head.positions,
        "records": [[ref.checkpoint_id, ref.name, ref.sha256] for ref in head.records],
        "sinks": head.sinks,
        **({_SCHEMAS: head.schemas} if head.schemas else {}),
        **({"direct": direct} if (direct := [ref.checkpoint_id for ref in head.records if ref.direct]) else {}),
        **({"origin": _origin_to_json(head.origin)} if head.origin is not None else {}),
    }
    if part is not None:
        inside = {key: value for key, value in document.items() if key not in (*_OF_SPLITS, _SCHEMAS)}
        document = {**inside, "format": _PARTED, "least_reader": _PARTED, "splits": part}
    return _dump({**document, "checksum": sha256_of(_dump(document))})


def splits_of(head: HeadValue) -> tuple[Mapping[str, Mapping[str, Any]], ...]:
    """What grows with the splits of a source, and with the schemas that its records name."""
    return tuple(getattr(head, key) for key in (*_OF_SPLITS, _SCHEMAS))


def encode_splits(head: HeadValue) -> bytes:
    """Canonical JSON of that. It has no number of its own: that of head says how it is read."""
    *splits, schemas = splits_of(head)
    return _dump({**dict(zip(_OF_SPLITS, splits, strict=True)), **({_SCHEMAS: schemas} if schemas else {})})


def decode_splits(content: bytes, part: Part) -> Splits:
    """What `encode_splits` wrote. Raises HeadFormatError when it is not what head names."""
    if sha256_of(content) != part.sha256:
        message = f"{part.name} does not match the hash that head holds: it is damaged"
        raise HeadFormatError(message, remedy=_RESTORE_HEAD)
    splits: Splits = json.loads(content)
    return splits


def _no_part(part: Part) -> Splits:
    message = f"this head names {part.name}, and is read without its store"
    raise HeadFormatError(message)


def decode_head(content: bytes, load: Callable[[Part], Splits] = _no_part) -> HeadValue:
    """The head that `encode_head` wrote, or that of a newer version. Raises HeadFormatError, and what `load` raises."""
    document, unknown = _load(content, "head")
    with _Reading("head"):
        checksum = document.pop("checksum")
        if checksum != sha256_of(_dump(document)):
            message = "this head is damaged: its content does not match its checksum"
            raise HeadFormatError(message, remedy=_RESTORE_HEAD)
        if "splits" in document:
            document.update(load(Part(*document["splits"])))
        return HeadValue(
            pipeline=document["pipeline"],
            incarnation=document["incarnation"],
            epoch=document["epoch"],
            nonces=tuple(document["nonces"]),
            query_id=document["query_id"],
            completed=document["completed"],
            committed=document["committed"],
            aborted_checkpoint=document["aborted_checkpoint"],
            aborted_attempt=document["aborted_attempt"],
            initial=document["initial"],
            identities=document["identities"],
            positions=document["positions"],
            schemas=document.get("schemas", {}),
            records=tuple(_ref(document, *ref) for ref in document["records"]),
            sinks=tuple(document["sinks"]),
            origin=Origin(**document["origin"]) if "origin" in document else None,
            unknown=unknown,
        )


def check_writable(head: HeadValue) -> None:
    """Raise HeadFormatError where this version would lose what a newer one has written in this head.

    Called before a process acts on a head that it goes on to swap.
    """
    check_nothing_lost(head.unknown, "head")


def check_nothing_lost(unknown: Sequence[str], where: str) -> None:
    """Raise HeadFormatError for fields that are not known, before the document `where` is written over."""
    if unknown:
        message = f"a newer version keeps {', '.join(map(repr, unknown))} in {where}, and this one would lose it"
        raise HeadFormatError(message, remedy=_NEWER)


def encode_record(record: CheckpointRecord) -> bytes:
    """Canonical JSON of a completed checkpoint."""
    return _dump(
        {
            "format": FORMAT,
            "scope": str(record.scope),
            "ranges": _ranges_to_json(record.ranges),
            "offsets_log": record.offsets_log,
            "committables": {
                sink: [committable_to_json(each) for each in group] for sink, group in record.committables.items()
            },
            "started_at": record.started_at,
            "decided_at": record.decided_at,
            **({"schemas": record.schemas} if record.schemas else {}),
            **({"left_out": _ranges_to_json(record.left_out)} if record.left_out else {}),
            **({"source_lists": record.source_lists} if record.source_lists else {}),
            **({"direct": True} if record.direct else {}),
            **({"state_partitions": record.state_partitions} if record.state_partitions is not None else {}),
            **({"digest_method": record.digest_method} if record.digest_method is not None else {}),
            **({"written_by": record.written_by[:_MOST_VERSION_CHARS]} if record.written_by else {}),
        }
    )


def decode_record(content: bytes, sha256: str | None = None) -> CheckpointRecord:
    """The record that `encode_record` wrote. Raises HeadFormatError, also when the content is not what head names."""
    if sha256 is not None and sha256_of(content) != sha256:
        message = "a checkpoint record does not match the hash that head holds: it is damaged"
        raise HeadFormatError(message, remedy=_RESTORE)
    document, _ = _load(content, "record")
    with _Reading("record"):
        return CheckpointRecord(
            scope=_scope(document["scope"]),
            ranges=_ranges_from_json(document["ranges"]),
            offsets_log=document["offsets_log"],
            committables={
                sink: tuple(committable_from_json(each) for each in group)
                for sink, group in document["committables"].items()
            },
            started_at=document["started_at"],
            decided_at=document["decided_at"],
            direct=document.get("direct", False),
            state_partitions=document.get("state_partitions"),
            digest_method=_method(document.get("digest_method")),
            schemas=document.get("schemas", {}),
            written_by=_version(document.get("written_by", "")),
            left_out=_ranges_from_json(document.get("left_out", {})),
            source_lists=document.get("source_lists", {}),
        )


def _ranges_to_json(by_source: Mapping[str, Sequence[OffsetRange]]) -> dict[str, list[list[Any]]]:
    return {source: [[each.split, each.start, each.end] for each in ranges] for source, ranges in by_source.items()}


def _ranges_from_json(document: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, tuple[OffsetRange, ...]]:
    return {source: tuple(OffsetRange(*each) for each in ranges) for source, ranges in document.items()}


def encode_committable(committable: Committable) -> bytes:
    """One acknowledgement as a task sends it to the driver, through Spark's own results (R5)."""
    return _dump({"format": FORMAT, **committable_to_json(committable)})


def decode_committable(content: bytes) -> Committable:
    """The acknowledgement that a task sent. Raises HeadFormatError."""
    document, _ = _load(content, "committable")
    with _Reading("committable"):
        return committable_from_json(document)


def committable_to_json(committable: Committable) -> dict[str, Any]:
    """Plain data of a committable, without the format version of the document around it."""
    return {
        "transaction": str(committable.transaction),
        "rows": committable.rows,
        "bytes": committable.bytes,
        "digest": committable.digest,
        "data": dict(committable.data),
        **({"refused": committable.refused} if committable.refused else {}),
        **({"refused_digest": committable.refused_digest} if committable.refused_digest else {}),
    }


def committable_from_json(document: Mapping[str, Any]) -> Committable:
    """Inverse of `committable_to_json`."""
    transaction = TransactionId.parse(document["transaction"])
    if transaction is None:
        raise ValueError(document["transaction"])
    return Committable(
        transaction,
        document["rows"],
        document["bytes"],
        document["digest"],
        dict(document["data"]),
        document.get("refused", 0),
        document.get("refused_digest", 0),
    )


class _Reading:
    """Turns a missing key or a wrong type inside a document into an error that names the document."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, KeyError | TypeError | ValueError | AttributeError | RecursionError):
            message = f"this {self._what} is damaged: {error!r}"
            remedy = _RESTORE_HEAD if self._what == "head" else _RESTORE
            raise HeadFormatError(message, remedy=remedy) from error


def _origin_to_json(origin: Origin) -> dict[str, Any]:
    return {"savepoint": origin.savepoint, "checkpoint_id": origin.checkpoint_id, "ended": origin.ended}


def _ref(head: Mapping[str, Any], checkpoint_id: int, name: str, sha256: str) -> RecordRef:
    """A head of a version that did not say which records are of at-least-once checkpoints names none."""
    return RecordRef(checkpoint_id, name, sha256, direct=checkpoint_id in head.get("direct", ()))


def _method(found: object) -> int | None:
    if found is not None and type(found) is not int:  # True is an int, and would pass for method 1
        raise ValueError(found)
    return found


def _version(found: object) -> str:
    """Messages show it."""
    if not isinstance(found, str) or not found.isprintable() or len(found) > _MOST_VERSION_CHARS:
        raise ValueError(found)
    return found


def _scope(text: str) -> Scope:
    scope = Scope.parse(text)
    if scope is None:
        raise ValueError(text)
    return scope


def _dump(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _load(content: bytes, what: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the document, and the names of what a newer version has written there that this one need not know."""
    newest = NEWEST[what]
    with _Reading(what):
        document = dict(json.loads(content))
        check_readable(document, f"this {what}", newest)
        unknown = unknown_fields(document, _FIELDS[what])
        if unknown and document["format"] <= newest:
            message = f"this {what} has what this version does not know: {', '.join(map(repr, unknown))}"
            raise HeadFormatError(message, remedy=_NEWER)
        return document, unknown
    raise AssertionError
