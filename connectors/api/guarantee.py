"""Guarantees of a sink in words: the promise, when rows are visible, the requirements, and the limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wal.address import ObjectAddress

EXACTLY_ONCE: Final = "exactly-once: every record's rows are in each sink once, whatever is killed and restarted"
AT_LEAST_ONCE: Final = (
    "at-least-once: no record is lost; after a failure the rows of the checkpoint that was under way may come twice"
)


@dataclass(frozen=True, slots=True)
class PipelineContext:
    """Settings of the pipeline that a sink and its guarantee depend on. Holds the credentials of an object store."""

    pipeline: str
    at_least_once: bool
    interval_s: float  # between two checkpoints
    timeout_s: float  # of a checkpoint
    log_at: Path | ObjectAddress  # of rows that wait
    several_topics: bool | None  # whether records of more than one topic reach the sinks; None: not known
    max_dead_letters: int  # of a checkpoint
    mask: Callable[[str], str]  # removes the spec's secrets from a text
    location: Path  # of the checkpoints: a folder on a disk of the driver's machine
    connections: int = 1  # over which a sink commits a checkpoint
    several_rows: bool = False  # whether a record may have several rows, which their column `_row` numbers


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The guarantee of one sink, as `eos validate` shows it."""

    sink: str
    promise: str
    visible: str
    needs: tuple[str, ...]
    limits: tuple[str, ...]


def with_each_checkpoint(context: PipelineContext, how: str) -> str:
    """Return when rows of an exactly-once sink are visible. `how`: in which parts, as "all of its rows at once"."""
    return f"with each checkpoint (every {context.interval_s:g} s), {how}"


def log_needs(context: PipelineContext) -> str:
    """Return the requirements of the log in which rows wait."""
    where = context.mask(str(context.log_at))
    if isinstance(context.log_at, Path):
        return f"a local disk for the log at {where}, kept as long as the table; tasks run on the driver's machine"
    return (
        f"a store for the log at {where} that refuses a second object of one name, and keeps what it has taken; rights "
        "to put, get, list and delete there, for the driver and every machine with tasks"
    )


def at_least_once(context: PipelineContext, sink: str, needs: Sequence[str]) -> Guarantee:
    """Return the guarantee of a sink whose tasks commit their rows themselves.

    `needs` includes those of `commit`: a start ends the transactions that an exactly-once run has left.
    """
    return Guarantee(
        sink,
        AT_LEAST_ONCE,
        f"as soon as a task has written its share of a checkpoint (one begins every {context.interval_s:g} s)",
        tuple(needs),
        (
            "what may come twice, and more often if it fails again: rows of the one checkpoint that is not in "
            "`eos status` when a task, the driver or a service fails, or the run is ended the hard way",
            "a reader may see some rows of a checkpoint and not yet others, of one sink or of several",
            "a driver that another one has superseded may still write the rows of one checkpoint",
        ),
    )
