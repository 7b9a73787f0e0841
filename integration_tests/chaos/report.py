"""What the logs of runs and of trials come to, as parts of a page of the docs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from integration_tests.chaos.log import Line, summed

BEGIN: Final = "<!-- what `python -m integration_tests.chaos report` writes -->"
BEGIN_TRIALS: Final = "<!-- what it writes of trials -->"
END: Final = "<!-- end -->"

_AGAIN: Final = {
    "same": "by the same command",
    "fresh": "with the checkpoint location lost",
    "checkpoint": "from its checkpoint",
    "checkpoint-samejob": "from its checkpoint, under the same job id",
    "scratch": "from scratch",
    "scratch-upsert": "from scratch, by upsert",
}


def written(page: str, lines: Sequence[Line]) -> str:
    """The page with what runs came to. Raises ValueError where the page has no place for it."""
    return _filled(page, BEGIN, _of_runs(lines))


def written_trials(page: str, lines: Sequence[Line]) -> str:
    """The page with what trials came to, of this system and of others. Raises ValueError as `written` does."""
    return _filled(page, BEGIN_TRIALS, _of_trials(lines))


def _filled(page: str, mark: str, text: str) -> str:
    before, begin, rest = page.partition(mark)
    _, end, after = rest.partition(END)
    if not begin or not end:
        message = f"the page lacks {mark!r} or {END!r}"
        raise ValueError(message)
    return f"{before}{mark}\n{text}\n{END}{after}"


def _of_trials(lines: Sequence[Line]) -> str:
    """Markdown: a row for each trial."""
    columns = (
        "",
        "killed",
        "prepared",
        "another's row",
        "started again",
        "ended with",
        "twice",
        "all there",
        "left prepared",
    )
    head = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    return "\n".join([*head, *map(_trial_row, lines)])


def _trial_row(line: Line) -> str:
    name = "this project" if line["peer"] == "eos" else line["peer"]
    blocked = "1205" in str(line.get("probe_insert", ""))  # MySQL's number of a lock wait that timed out
    probe = "waits" if blocked else "written"
    cells = [
        name if line["primary_key"] else f"{name}, no key",
        line["when"],
        line["xa_prepared_after_kill"],
        probe if "probe_insert" in line else "",
        _AGAIN[line.get("identity") or line["rerun"]],
        _ended(line),
        line["rerun_duplicates"],
        "yes" if line["rerun_complete"] else "no",
        line["xa_prepared_after_rerun"],
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _ended(line: Line) -> str:
    """In a few words."""
    raised = (each.partition("Exception: ")[2] for each in line.get("rerun_log", ()))
    if says := line.get("rerun_says") or next(filter(None, raised), ""):
        return f"error: {re.split(r'[(;{]| with xid', says)[0].strip()}"
    return "success" if line["rerun_complete"] else f"exit code {line['rerun_exit']}"


def _of_runs(lines: Sequence[Line]) -> str:
    """Markdown: the totals, and a row for each kind of fault."""
    found = summed(lines)
    recovery = found["recovery_s"]
    totals = [
        f"**{found['verdict']}**: {found['faults']:,} faults in {found['rounds']} rounds of {found['hours']:g} hours, "
        f"{found['records']:,} records, {found['ok']:,} rows and messages of them as they must be; "
        f"lost {found['lost']}, duplicated {found['duplicated']}, unexpected {found['unexpected']}, "
        f"recovered {found['recovered']}, out of order {found['out_of_order']}, left prepared {found['left']}. "
        f"{sum(found['without_effect'].values())} more did nothing, and are not counted."
        f"{_repeated(found['repeated'])}",
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


def _repeated(rows: int) -> str:
    return f" {rows:,} more rows and messages were repeated at-least-once." if rows else ""


def _row(kind: str, count: int, recovery: dict[str, Any] | None) -> str:
    times = (recovery["p50"], recovery["max"]) if recovery else ("", "")  # it never was alone
    return f"| {kind} | {count} | {times[0]} | {times[1]} |"
