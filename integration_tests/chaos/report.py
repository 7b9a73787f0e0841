"""What the logs of runs come to, as a part of a page of the docs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from integration_tests.chaos.log import Line, summed

BEGIN: Final = "<!-- what `python -m integration_tests.chaos report` writes -->"
END: Final = "<!-- end -->"


def written(page: str, lines: Sequence[Line]) -> str:
    """The page with its part made anew. Raises ValueError where the page has no place for it."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        message = f"the page lacks {BEGIN!r} or {END!r}"
        raise ValueError(message)
    return f"{before}{BEGIN}\n{part(lines)}\n{END}{after}"


def part(lines: Sequence[Line]) -> str:
    """Markdown: the totals, and a row for each kind of fault."""
    found = summed(lines)
    recovery = found["recovery_s"]
    totals = [
        f"**{found['verdict']}**: {found['faults']:,} faults in {found['rounds']} rounds of {found['hours']:g} hours, "
        f"{found['records']:,} records; lost {found['lost']}, duplicated {found['duplicated']}, unexpected "
        f"{found['unexpected']}, out of order {found['out_of_order']}, left prepared {found['left']}.",
        "",
        f"Recovered, from the end of a fault to the next checkpoint that is committed everywhere: half of them within "
        f"{recovery['p50']:g} s, 99 of 100 within {recovery['p99']:g} s, all within {recovery['max']:g} s.",
        "",
        "| fault | how often | recovery p50, s | max, s |",
        "| --- | --- | --- | --- |",
    ]
    by_kind = found["recovery_s_by_kind"]
    rows = [_row(kind, count, by_kind.get(kind)) for kind, count in found["faults_by_kind"].items()]
    return "\n".join([*totals, *rows])


def _row(kind: str, count: int, recovery: dict[str, Any] | None) -> str:
    times = (recovery["p50"], recovery["max"]) if recovery else ("", "")  # it never was alone
    return f"| {kind} | {count} | {times[0]} | {times[1]} |"
