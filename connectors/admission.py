"""How much of what is there a checkpoint takes (a cap on records per checkpoint). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eos.errors import IdentityError
from twophase.positions import Position, Positions, check_position, is_before
from twophase.values import OffsetRange


def admit(
    start: Positions, latest: Positions, max_records: int | None, limit: Callable[[OffsetRange, int], Position]
) -> dict[str, Position]:
    """Return where the next checkpoint ends, by split.

    Positions that are integers count: see `admit_offsets`. The splits of any other source have equal shares of the cap,
    and the source says by `limit` where a share ends (`Source.limit`).
    """
    if all(isinstance(end, int) for end in latest.values()):
        offsets = {split: at for split, at in start.items() if isinstance(at, int)}
        ends = {split: end for split, end in latest.items() if isinstance(end, int)}
        return {**admit_offsets(offsets, ends, max_records)}
    ranges = [OffsetRange(split, start[split], end) for split, end in latest.items()]
    behind = [each for each in ranges if not each.is_empty]
    ends_of: dict[str, Position] = {each.split: each.start for each in ranges}
    share = max(max_records // len(behind), 1) if max_records is not None and behind else None
    for each in behind:
        ends_of[each.split] = _limited(each, share, limit) if share is not None else each.end
    return ends_of


def _limited(offsets: OffsetRange, share: int, limit: Callable[[OffsetRange, int], Position]) -> Position:
    where = f"split {offsets.split}"
    end = check_position(limit(offsets, share), where)
    if not is_before(offsets.start, end) or is_before(offsets.end, end):
        message = f"{where}: the source limits [{offsets.start!r}, {offsets.end!r}) to {end!r}, which is not within it"
        raise IdentityError(message, remedy="correct the source's `limit`")
    return end


def admit_offsets(start: Mapping[str, int], latest: Mapping[str, int], max_records: int | None) -> dict[str, int]:
    """Return where the next checkpoint ends, by split.

    Half of the cap is shared equally, so that no split starves behind a large one; the rest in proportion to what is
    left, so that all catch up together. The sum never exceeds the cap. Never before `start`, never past `latest`. A
    split without a start begins at 0.

    Args:
        start: next offset of each split.
        latest: end of what is there.
        max_records: cap on offsets covered; None for all there is.
    """
    backlog = {split: max(end - start.get(split, 0), 0) for split, end in latest.items()}
    total = sum(backlog.values())
    if max_records is None or total <= max_records:
        share = backlog
    else:
        behind = sorted(
            (split for split, count in backlog.items() if count), key=lambda split: (-backlog[split], split)
        )
        equal = max(max_records // (2 * len(behind)), 1)
        share = dict.fromkeys(backlog, 0) | {s: min(backlog[s], equal) for s in behind[:max_records]}
        _spread(share, backlog, behind, max_records - sum(share.values()))
    return {split: start.get(split, 0) + count for split, count in share.items()}


def _spread(share: dict[str, int], backlog: dict[str, int], behind: list[str], spare: int) -> None:
    """Add `spare` in proportion to what each split still has; what rounding leaves goes to the largest."""
    left = {split: backlog[split] - share[split] for split in behind}
    total = sum(left.values())
    for split in behind:
        share[split] += left[split] * spare // total if total else 0
    rest = spare - sum(left[split] * spare // total for split in behind) if total else 0
    for split in [split for split in behind if share[split] < backlog[split]][:rest]:
        share[split] += 1
