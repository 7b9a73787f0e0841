"""Values that the unit tests of twophase share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twophase.head_value import HeadValue, RecordRef
from twophase.ids import Scope, TransactionId, sink_key
from twophase.messages import DrawNonce, Emit, Steps
from twophase.values import CheckpointRecord, Committable, OffsetRange

INCARNATION = "0123456789abcdefghij"


def scope(checkpoint_id: int = 0, epoch: int = 1, attempt: int = 1) -> Scope:
    return Scope(INCARNATION, epoch, checkpoint_id, attempt)


def committable(of: Scope, task: int = 0, sink: str = "warehouse", rows: int = 3) -> Committable:
    return Committable(TransactionId(of, sink_key(sink), task, 100 + task), rows)


def record(checkpoint_id: int = 0, start: int = 0, end: int = 10, epoch: int = 1, attempt: int = 1) -> CheckpointRecord:
    of = scope(checkpoint_id, epoch, attempt)
    return CheckpointRecord(
        scope=of,
        ranges={"orders": (OffsetRange("orders/0", start, end),)},
        offsets_log=f"v1 {checkpoint_id}",
        committables={"warehouse": (committable(of),)},
        started_at=1.0,
        decided_at=2.0,
    )


def ref(checkpoint_id: int) -> RecordRef:
    return RecordRef(checkpoint_id, f"record {checkpoint_id}", "0" * 64)


def head(**changes: Any) -> HeadValue:
    positions = {"orders": {"orders/0": 0}}
    values = {
        "pipeline": "orders",
        "incarnation": INCARNATION,
        "epoch": 1,
        "nonces": ("a.1",),
        "positions": positions,
        "sinks": ("warehouse",),
    }
    return HeadValue(**{**values, **changes})


def drive(steps: Steps[Any], answers: Mapping[str, Callable[[Any], Any]]) -> tuple[Any, list[Any]]:
    """Run steps to their end: each action is answered by the function of its name, or with None.

    Returns the result and the actions, without what is only told or drawn.
    """
    actions: list[Any] = []
    answer: Any = None
    while True:
        try:
            action = steps.send(answer)
        except StopIteration as stop:
            return stop.value, actions
        if isinstance(action, DrawNonce):
            answer = "drawn"
            continue
        if not isinstance(action, Emit):
            actions.append(action)
        reply = answers.get(type(action).__name__)
        answer = reply(action) if reply is not None else None
