"""The nemesis: what it plans, what its oracle sees, and short rounds of it. `make chaos` runs long ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from integration_tests.chaos import log as logs
from integration_tests.chaos import oracle, report
from integration_tests.chaos.arena import possible_kinds, stack
from integration_tests.chaos.plan import KINDS, VARIANTS, round_of
from integration_tests.chaos.round import fight
from integration_tests.harness.drain import Record
from integration_tests.harness.rotation import seed_of_run
from integration_tests.services import Services
from integration_tests.services.postgres_native import Postgres

_RECORDS_PER_S = 400.0


def test_a_seed_gives_the_same_faults_again_and_another_one_others() -> None:
    rounds = [round_of(7, number, 40) for number in range(30)]
    assert rounds == [round_of(7, number, 40) for number in range(30)]
    assert rounds != [round_of(8, number, 40) for number in range(30)]
    faults = Counter(fault.kind for each in rounds for some in each.faults for fault in some)
    assert faults.total() == 30 * 40
    assert set(faults) == set(KINDS)
    assert {tuple(each.variants.items()) for each in rounds} == {tuple(each.items()) for each in VARIANTS}
    together = [some for each in rounds for some in each.faults if len(some) > 1]
    assert Counter(map(len, together))[2] > 100 < Counter(map(len, together))[3]
    for some in together:
        assert sum(fault.target.startswith("broker") for fault in some) < 2


def _topic() -> pd.DataFrame:
    """Two keys, in two partitions, three records each."""
    values = [(0, 0, 0), (2, 0, 1), (4, 0, 2)], [(1, 1, 0), (3, 1, 1), (5, 1, 2)]
    return oracle.produced(
        [
            Record(partition, offset, None, json.dumps(dict(zip(("id", "k", "n"), value, strict=True))).encode(), {}, 0)
            for partition, some in enumerate(values)
            for offset, value in enumerate(some)
        ]
    )


_ROWS = [(0, 0, 0, -1), (2, 0, 1, 0), (4, 0, 2, 2), (1, 1, 0, -1), (3, 1, 1, 1), (5, 1, 2, 3)]


@pytest.mark.parametrize(
    ("rows", "fates"),
    [
        (_ROWS, {"ok": 6}),
        (_ROWS[1:], {"ok": 5, "lost": 1}),
        ([*_ROWS, _ROWS[2]], {"ok": 6, "duplicated": 1}),
        ([*_ROWS, (9, 0, 3, 4)], {"ok": 6, "unexpected": 1}),
        ([*_ROWS[:2], (4, 0, 2, 0), *_ROWS[3:]], {"ok": 6, "out_of_order": 1}),
    ],
)
def test_the_oracle_sees(rows: list[tuple[int, ...]], fates: dict[str, int]) -> None:
    count = oracle.of_rows(_topic(), oracle.frame_of(rows))
    found = {name: getattr(count, name) for name in count.__slots__ if name != "examples"}
    assert {name: number for name, number in found.items() if number} == fates
    assert count.exact == (fates == {"ok": 6})
    assert bool(count.examples) == (fates != {"ok": 6})


def test_the_oracle_sees_the_order_of_messages_and_what_is_merged() -> None:
    def message(row: tuple[int, ...], offset: int) -> Record:
        value = json.dumps(dict(zip(oracle.COLUMNS, row, strict=True)))
        return Record(row[1], offset, None, value.encode(), {}, 0)

    messages = [message(row, offset) for offset, row in enumerate(_ROWS)]
    assert oracle.of_messages(_topic(), messages).exact
    swapped = [message(row, offset) for offset, row in enumerate([_ROWS[1], _ROWS[0], *_ROWS[2:]])]
    assert oracle.of_messages(_topic(), swapped).out_of_order == 1
    assert oracle.of_merged(_topic(), oracle.frame_of([_ROWS[2], _ROWS[5]])).exact
    assert not oracle.of_merged(_topic(), oracle.frame_of([_ROWS[1], _ROWS[5]])).exact


def test_brokers_must_not_lose_either() -> None:
    count = oracle.of_source(_topic(), [0, 1, 2, 3, 4, 99])
    assert (count.ok, count.lost, count.recovered, count.exact) == (6, 1, 1, False)


def test_a_log_says_where_to_go_on_and_is_summed_up(tmp_path: Path) -> None:
    log = tmp_path / "chaos.jsonl"
    count = {"ok": 10, **dict.fromkeys(("lost", "duplicated", "unexpected", "recovered", "out_of_order"), 0)}
    line = {
        "seed": 3,
        "verdict": "exactly once",
        "records": 10,
        "duration_s": 60.0,
        "faults": {"driver killed": 2},
        "recoveries": [{"after": ["driver killed"], "s": 1.0}, {"after": ["driver killed"], "s": 3.0}],
        "driver_exits": {"-9": 2},
        "counts": {"the topic": count, "mysql": count},
        "left": [],
    }
    assert logs.next_round(logs.read(log), 3) == 0
    for number in range(2):
        logs.append(log, {**line, "round": number})
    with log.open("a") as file:
        file.write('{"seed": 3, "rou')  # the run was killed
    lines = logs.read(log)
    assert (logs.next_round(lines, 3), logs.next_round(lines, 4)) == (2, 0)
    found = logs.summed(lines)
    assert (found["verdict"], found["records"], found["ok"], found["faults"]) == ("exactly once", 20, 20, 4)
    assert (found["recovery_s"]["p50"], found["recovery_s"]["max"]) == (2.0, 3.0)
    assert found["recovery_s_by_kind"] == {"driver killed": {"p50": 2.0, "max": 3.0}}
    text = report.written(f"a\n{report.BEGIN}\nold\n{report.END}\nb\n", lines)
    assert "old" not in text
    assert "| driver killed | 4 | 2.0 | 3.0 |" in text
    assert "20 records" in text
    broken = {**line, "round": 2, "verdict": "BROKEN", "counts": {"mysql": {**count, "lost": 1}}}
    found = logs.summed([*lines, broken])
    assert (found["verdict"], found["lost"], found["broken"]) == ("BROKEN", 1, ["seed 3, round 2"])


def test_trials_of_several_systems_are_one_table() -> None:
    outcome = {"rerun_duplicates": 0, "xa_prepared_after_rerun": 0, "rerun_complete": True, "rerun_exit": 0}
    ours = {"peer": "eos", "when": "prepared", "identity": "fresh", "xa_prepared_after_kill": 4, "primary_key": True}
    theirs = {"peer": "x", "when": "committed", "rerun": "scratch", "xa_prepared_after_kill": 2, "primary_key": False}
    probes = [[17, 1205, 2.0], [18, "inserted"]]
    lines = [
        {**ours, **outcome, "probe_insert": "inserted", "rerun_says": "refused", "rerun_complete": False},
        {**theirs, "probe_insert": probes, **outcome, "rerun_duplicates": 9},
    ]
    text = report.written_trials(f"a\n{report.BEGIN_TRIALS}\n{report.END}\n", lines)
    assert (
        "| this project | prepared | 4 | written | with the checkpoint location lost | error: refused | 0 | no | 0 |"
        in text
    )
    assert "| x, no key | committed | 2 | waits | from scratch | success | 9 | yes | 0 |" in text


@pytest.mark.any_server
@pytest.mark.alone
@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("postgres", "_first_run")
def test_short_rounds(killable: Services, tmp_path: Path) -> None:
    """Of a seed of its own for each run of CI."""
    tmp_path.chmod(0o755)
    seed = seed_of_run() or 0
    with stack(tmp_path, killable, Postgres()) as held:
        fought = round_of(seed, 0, 6, possible_kinds(tmp_path))
        outcome = fight(held, fought, _RECORDS_PER_S, print)
    print(json.dumps(outcome.facts()))
    assert outcome.is_exact, outcome.facts()
    assert sum(len(each.faults) for each in outcome.done) == 6
    assert outcome.counts["the topic"].ok == outcome.records > 1000
