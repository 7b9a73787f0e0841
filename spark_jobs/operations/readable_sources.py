"""Whether the sources still have what a life that begins from a savepoint reads next: asked before another one ends."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.api.contracts import Source
from eos.errors import SavepointError
from twophase.positions import is_before
from twophase.restore import Seed
from twophase.values import OffsetRange, StartingPoint


def check_readable(sources: Sequence[Source], seed: Seed) -> None:
    """Asks each source once, and blocks for as long as that takes.

    Raises SavepointError for a split whose next records are gone, unless the spec says that they may be left out; or
    that ends before them. What `Source.horizon` raises, as for a topic that was made again.
    """
    for source in sources:
        begins = seed.begins[source.name]
        positions = {**begins.positions, **seed.positions.get(source.name, {})}
        there = source.horizon(StartingPoint({}, begins.identities))
        first, ends = there.discovered.positions, there.ends
        known = {split: at for split, at in positions.items() if split in ends}
        gone = [OffsetRange(split, at, first[split]) for split, at in known.items() if is_before(at, first[split])]
        left_out = {each.split for each in source.lost(gone)}
        unreadable = [each.split for each in gone if each.split not in left_out]
        unreadable += [split for split, at in known.items() if is_before(ends[split], at)]
        if unreadable:
            said = ", ".join(
                f"{split} at {known[split]}, and has [{first[split]}, {ends[split]})" for split in unreadable
            )
            message = f"source {source.name} goes on in {said}"
            remedy = "the records in between are gone: begin from a newer savepoint, or without one by `eos reset --to`"
            raise SavepointError(message, remedy=remedy)
