"""How much of what is there a checkpoint takes (a cap on records per checkpoint). Pure."""

from __future__ import annotations

from twophase.values import Positions


def admit(start: Positions, latest: Positions, max_records: int | None) -> dict[str, int]:
    """Where the next checkpoint ends, split by split.

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
