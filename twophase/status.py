"""The history of a pipeline as head and its records tell it. Reads only; works while the pipeline runs, and after."""

from __future__ import annotations

from dataclasses import dataclass

from eos.errors import HeadFormatError
from twophase.codec import decode_record
from twophase.head import HeadStore
from twophase.head_value import HeadValue
from twophase.messages import HeadSnapshot
from twophase.parted_head import PartedHead
from twophase.values import CheckpointRecord

_READS = 5


@dataclass(frozen=True, slots=True)
class Status:
    """Head, and the records of the completed checkpoints that it retains, newest first."""

    head: HeadValue
    checkpoints: tuple[CheckpointRecord, ...]

    def is_committed(self, checkpoint: CheckpointRecord) -> bool:
        """Whether head says that every sink has committed it. If not, it will be: it is completed."""
        return checkpoint.checkpoint_id <= self.head.committed


def read_seen(store: HeadStore) -> HeadSnapshot | None:
    """Head as it is now; None: the pipeline never ran. Raises HeadError."""
    return PartedHead(store).read()


def read_status(store: HeadStore, newest: int | None = None) -> Status | None:
    """Called by `eos status`; None if the pipeline never ran. `newest`: so many records are enough. Raises HeadError.

    A running pipeline may prune a record between the read of head and the read of the record: then head is read again.
    """
    parted = PartedHead(store)
    for attempt in range(_READS):
        seen = parted.read()
        if seen is None:
            return None
        head = seen.head
        try:
            refs = head.records[::-1][:newest]
            records = tuple(decode_record(store.get_record(ref.name), ref.sha256) for ref in refs)
        except HeadFormatError:
            if attempt == _READS - 1:
                raise
            continue
        return Status(head, records)
    raise AssertionError
