"""How much of what is there a checkpoint takes (a cap on records per checkpoint). Pure."""

from __future__ import annotations

from twophase.values import Positions


def admit(start: Positions, latest: Positions, max_records: int | None) -> dict[str, int]:
    """Where the next checkpoint ends, split by split.

    Every split gets a share in proportion to its backlog, so that no split starves and all catch up together; the sum
    of the shares never exceeds the cap. Never before `start` and never past `latest`. A split without a start is at 0.

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
        share = {split: count * max_records // total for split, count in backlog.items()}
        spare = max_records - sum(share.values())  # less than one for each split that has a backlog
        by_need = sorted((split for split in backlog if backlog[split] > share[split]), key=lambda s: (-backlog[s], s))
        for split in by_need[:spare]:
            share[split] += 1
    return {split: start.get(split, 0) + count for split, count in share.items()}
