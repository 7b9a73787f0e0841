"""The log of a run: a JSON line for each round. It tells where a run that was cut off goes on, and can be summed up."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from integration_tests.chaos.plan import KINDS

Line = dict[str, Any]

TOPIC: Final = "the topic"
"""Among the places that are counted: what was produced. The others are sinks."""

VERDICTS: Final = ("exactly once", "at least once")
"""Of rounds whose sinks hold all that was promised, by mode of the checkpoints."""

_FATES: Final = ("lost", "duplicated", "unexpected", "recovered", "out_of_order")


def append(log: Path, line: Line) -> None:
    """Add a round. What a kill has cut off of the line before stays a line by itself."""
    whole = not log.exists() or log.read_bytes()[-1:] in {b"", b"\n"}
    with log.open("a") as file:
        file.write(("" if whole else "\n") + json.dumps(line) + "\n")


def read(log: Path) -> list[Line]:
    """All rounds of a log; none where there is no log. A line that a kill has cut off is left out: its round is new."""
    if not log.exists():
        return []
    lines = []
    for text in log.read_text().splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return lines


def next_round(lines: Iterable[Line], seed: int) -> int:
    """The number of the first round of this seed that is not in the log."""
    return 1 + max((line["round"] for line in lines if line["seed"] == seed), default=-1)


def broken(seed: int, number: int, problem: str) -> Line:
    """The line of a round that came to no verdict: nothing that it did counts."""
    nothing: Line = {"records": 0, "duration_s": 0.0, "faults": {}, "recoveries": [], "driver_exits": {}, "counts": {}}
    return {"seed": seed, "round": number, "verdict": "BROKEN", **nothing, "left": [], "problem": problem}


def begun_otherwise(lines: Iterable[Line], seed: int, made_with: Line) -> Line | None:
    """With what rounds of this seed were made, where that is something else: then they are of another plan."""
    found = (line.get("made_with", {}) for line in lines if line["seed"] == seed)
    return next((each for each in found if each != made_with), None)


def summed(lines: Sequence[Line]) -> Line:
    """All rounds as one: what they did and what came of it."""
    faults: Counter[str] = Counter()
    exits: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    for line in lines:
        faults.update(line["faults"])
        idle.update(line.get("without_effect", {}))
        exits.update(line["driver_exits"])
    recoveries = sorted(each["s"] for line in lines for each in line["recoveries"])
    counts = [(_may_repeat(line, place), count) for line in lines for place, count in line["counts"].items()]
    broken = [f"seed {line['seed']}, round {line['round']}" for line in lines if line["verdict"] not in VERDICTS]
    return {
        "verdict": "BROKEN" if broken or not lines else "exactly once",
        "rounds": len(lines),
        "seeds": sorted({line["seed"] for line in lines}),
        "hours": round(sum(line["duration_s"] for line in lines) / 3600, 2),
        "records": sum(line["records"] for line in lines),
        "ok": sum(count["ok"] for line in lines for place, count in line["counts"].items() if place != TOPIC),
        **{fate: sum(count[fate] for may, count in counts if not (may and fate == "duplicated")) for fate in _FATES},
        "repeated": sum(count["duplicated"] for may, count in counts if may),
        "left": sum(len(line["left"]) for line in lines),
        "faults": faults.total(),
        "faults_by_kind": {**dict(faults.most_common()), **{kind: 0 for kind in KINDS if kind not in faults}},
        "without_effect": dict(idle.most_common()),
        "recovery_s": {
            "p50": round(statistics.median(recoveries), 2) if recoveries else None,
            "p99": round(recoveries[int(0.99 * (len(recoveries) - 1))], 2) if recoveries else None,
            "max": recoveries[-1] if recoveries else None,
        },
        "recovery_s_by_kind": _by_kind(lines),
        "driver_exits": dict(exits),
        **({"broken": broken} if broken else {}),
    }


def _may_repeat(line: Line, place: str) -> bool:
    """Whether rows may be there several times. Lines of earlier versions have no setup: all were exactly-once."""
    return bool(line.get("setup", {}).get("mode") == "at-least-once") and place != TOPIC


def _by_kind(lines: Iterable[Line]) -> dict[str, dict[str, float]]:
    """Of faults that were alone: of two at once, nobody knows for which one it was waited."""
    found: dict[str, list[float]] = {}
    for each in (each for line in lines for each in line["recoveries"]):
        if len(each["after"]) == 1:
            found.setdefault(each["after"][0], []).append(each["s"])
    return {
        kind: {"p50": round(statistics.median(times), 2), "max": max(times)} for kind, times in sorted(found.items())
    }
