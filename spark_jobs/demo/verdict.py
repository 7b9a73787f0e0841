"""The count at the end of the demo: the rows of the table against the rows of a run without failures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.demo.reference import broken_chains, expected_rows

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """Numbers of rows by their fate."""

    produced: int
    in_sink: int
    lost: int
    duplicated: int  # surplus copies of expected rows
    unexpected: int  # rows that no record explains
    restarts: int
    complaints: tuple[str, ...]  # the first faults, for people

    @property
    def clean(self) -> bool:
        """Whether the table has exactly the rows of a run without failures."""
        return self.produced > 0 and not self.complaints

    def json(self) -> str:
        """Return one line for programs."""
        names = ("produced", "in_sink", "lost", "duplicated", "unexpected", "restarts")
        return json.dumps({name: getattr(self, name) for name in names})

    def words(self, kills: int) -> str:
        """Return some lines for people."""
        if not self.clean:
            return "\n".join(("Verdict: NOT exactly once.", *(f"  {each}" for each in self.complaints)))
        return (
            f"Verdict: exactly once. Of {self.produced:,} records each is in the table once, and nothing else is: none "
            f"lost, none duplicated, none unexpected.\nThe chain of every word is unbroken, over {self.restarts} "
            f"restarts, {kills} of them after kill -9."
        )


def judge(produced: Sequence[tuple[str, str]], found: Counter[str], restarts: int, prepared: Sequence[str]) -> Verdict:
    """Compare the rows. `prepared`: prepared transactions in the database; there must be none."""
    expected = expected_rows(produced)
    lost, surplus = expected - found, found - expected
    duplicated = Counter({row: count for row, count in surplus.items() if row in expected})
    unexpected = surplus - duplicated
    kinds = (("lost", lost), ("duplicated", duplicated), ("unexpected", unexpected))
    complaints = [
        *(f"{rows.total():,} {kind}, such as {', '.join(sorted(rows)[:_SHOWN])}" for kind, rows in kinds if rows),
        *broken_chains(found.elements())[:_SHOWN],
        *(f"left prepared in the database: {each}" for each in prepared[:_SHOWN]),
    ]
    return Verdict(
        len(produced), found.total(), lost.total(), duplicated.total(), unexpected.total(), restarts, tuple(complaints)
    )
