"""What Spark stores for a source in `offsets/N`: its name, where the batch ends, and where splits begin that are new.

A plan also has a witness of the last record of each split, by which a later process knows that the log is the same one
(H23). A split that got no new record keeps the witness of the plan before.

Spark knows sources by their order in the query, which a change of the query can change: the name tells.

The starting point of a split that is discovered while the query runs is so made durable with the plan that names it,
before anything is read: a replay, also by another process, begins at the same offset (R6, R10). The ids of discovered
topics go from offset to offset until they are stored elsewhere: a restart is given the newest offset alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from twophase.codec import check_readable
from twophase.positions import Positions
from twophase.values import OffsetRange, StartingPoint

FORMAT: Final = 2
"""Of an offset with witnesses. Format 1 has none, and carries no number: Spark takes any other JSON for a new batch."""


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """One source's part of a batch's plan."""

    source: str
    ends: Positions
    began: StartingPoint = field(default_factory=StartingPoint)  # of splits that no earlier batch names; ids: see above
    witnesses: Mapping[str, str] = field(default_factory=dict)  # by split; without those that have none

    def ranges(self, positions: Positions) -> list[OffsetRange]:
        """What the batch reads if `positions` is how far the batches before it came; without empty ranges."""
        starts = {**self.began.positions, **positions}
        ranges = (OffsetRange(split, starts[split], end) for split, end in sorted(self.ends.items()))
        return [each for each in ranges if not each.is_empty]

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it. Where nothing came, what it gave last is to be given again: any other JSON is a new batch.

        Plain dicts, sorted by Spark itself.
        """
        document: dict[str, Any] = {"source": self.source, "ends": dict(self.ends)}
        if self.began != StartingPoint():
            document["began"] = {
                "positions": dict(self.began.positions),
                "identities": dict(self.began.identities),
            }
        if self.witnesses:
            document |= {"format": FORMAT, "witnesses": dict(self.witnesses)}
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SourceOffset:
        """The inverse. Raises HeadFormatError for another format, KeyError, TypeError or ValueError for no offset."""
        what = f"the offset of source {document['source']} in Spark's plan"
        check_readable({"format": 1, **document}, what, FORMAT)
        began = document.get("began", {"positions": {}, "identities": {}})
        return cls(
            document["source"],
            dict(document["ends"]),
            StartingPoint(dict(began["positions"]), dict(began["identities"])),
            dict(document.get("witnesses", {})),
        )


def topic_of(split: str) -> str:
    """The topic that a split is a part of."""
    return split.rpartition("/")[0]
