"""Questions to the cluster about splits: where each begins, ends, and was at a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from connectors.kafka.client import Client
from connectors.kafka.splits import at, parse_split, split_name
from connectors.kafka.topics import describe
from eos.errors import SourceError, UnknownTopicError
from twophase.retry import retrying

_MOVING: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # a moment after the topic was described: its leader does not know yet
    }
)
_ASK_AGAIN_S: Final = 0.1


class _MovingError(Exception):
    """The leader of a partition is not known, or is changing."""

    def __init__(self, error: SourceError) -> None:
        super().__init__(error.message)
        self.error = error


_UNCOMMITTED: Final = IsolationLevel.READ_UNCOMMITTED


def earliest(client: Client, splits: Iterable[str]) -> dict[str, int]:
    """The first offset that each split still has. Blocks for `connect_timeout_s` at most."""
    return _offsets(client, splits, OffsetSpec.earliest)


def latest(client: Client, splits: Iterable[str]) -> dict[str, int]:
    """The end of each split that a reader of this isolation level can reach (R6).

    With read_committed that is the last stable offset: the start of the oldest transaction still open, so that a range
    planned up to it holds only records whose fate is known.
    """
    return _offsets(client, splits, OffsetSpec.latest)


def latest_and_withheld(client: Client, splits: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return `latest`, and the high watermark of each split whose high watermark is past it.

    Such a split has an open transaction: nobody reads its records, or committed records behind them, before it ends.
    The request for high watermarks is sent first and not waited for, so both take one round trip. A broker answers the
    requests of a connection in order: a record that is written between the two answers does not look withheld.
    """
    if client.connection.isolation_level != "read_committed":
        return latest(client, splits), {}
    sent = _ask_offsets(client, splits, OffsetSpec.latest, _UNCOMMITTED)
    ends = latest(client, splits)
    there = _offsets(client, splits, OffsetSpec.latest, _UNCOMMITTED, sent)
    return ends, {split: end for split, end in there.items() if end > ends[split]}


def at_time(client: Client, splits: Sequence[str], timestamp_ms: int) -> dict[str, int]:
    """The first record of each split at or after a moment (milliseconds since 1970); the end where there is none.

    Never past the end as `latest` tells it: what lies behind is not readable yet.
    """
    ends = latest(client, splits)  # first: what comes between the two questions lies behind the end, and is read
    found = _offsets(client, splits, lambda: OffsetSpec.for_timestamp(timestamp_ms))
    return {split: end if found[split] < 0 else min(found[split], end) for split, end in ends.items()}


def _offsets(
    client: Client,
    splits: Iterable[str],
    spec: Callable[[], OffsetSpec],
    level: IsolationLevel | None = None,
    sent: Mapping[str, Any] | None = None,
) -> dict[str, int]:
    """Ask for all splits at once, and again for those whose partition is just being made or changes its leader.

    `level`: None for the isolation level of the connection; `sent`: the first request, if it is sent already.
    """
    found: dict[str, int] = {}
    missing = list(splits)

    def attempt() -> None:
        nonlocal missing, sent
        moving: dict[str, SourceError] = {}
        answers = sent if sent is not None else _ask_offsets(client, missing, spec, level)
        sent = None
        for split, future in answers.items():
            doing = f"offsets of {split}"
            try:
                found[split] = int(client.result_of(future, doing).offset)
                if found[split] == OFFSET_INVALID:  # librdkafka tells so, as no error, that the leader has not answered
                    raise client.no_answer(doing, client.connection.connect_timeout_s)
            except SourceError as error:
                if not _is_moving(future):
                    raise
                moving[split] = error
        missing = list(moving)
        if moving:
            raise _MovingError(next(iter(moving.values())))

    if not missing:
        return found
    try:
        retrying(_MovingError, deadline_s=client.connection.connect_timeout_s, wait_s=_ASK_AGAIN_S)(attempt)
    except _MovingError as moving:
        raise moving.error from None
    return found


def _is_moving(future: Any) -> bool:
    error = future.exception(0) if future.done() else None
    return isinstance(error, KafkaException) and error.args[0].code() in _MOVING


def _ask_offsets(
    client: Client, splits: Iterable[str], spec: Callable[[], OffsetSpec], level: IsolationLevel | None = None
) -> dict[str, Any]:
    if level is None:
        committed = client.connection.isolation_level == "read_committed"
        level = IsolationLevel.READ_COMMITTED if committed else _UNCOMMITTED
    wanted = {at(split, -1): spec() for split in splits}
    timeout_s = client.connection.connect_timeout_s
    futures = client.handle.list_offsets(wanted, isolation_level=level, request_timeout=timeout_s)
    return {split_name(p.topic, p.partition): future for p, future in futures.items()}


def end_of(client: Client, split: str) -> int:
    """Where one split ends, having made sure that it exists: asked for the offset alone, the client waits for it to."""
    topic, _ = parse_split(split)
    (found,) = describe(client, [topic])
    if split not in found.splits:
        raise UnknownTopicError(
            f"split {split} does not exist (any more): the topic has {len(found.partitions)} partitions",
            remedy="the topic was made again; reset the pipeline to start from what exists",
        )
    return latest(client, [split])[split]


def existing(client: Client, split: str) -> str:
    """What there is of a split, for a message; never raises for a cluster that does not answer."""
    try:
        end = end_of(client, split)
        return f"it has [{earliest(client, [split])[split]}, {end})"
    except SourceError as error:
        return f"what it has could not be asked: {error.message}"
