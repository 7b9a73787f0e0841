"""The nemesis: what it plans, what its oracle sees, and short rounds of it. `make chaos` runs long ones."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from typing import Any, Literal, get_args
from urllib.request import urlopen

import pandas as pd
import psutil
import pyarrow as pa
import pytest

from connectors.formats.ddl import parse_ddl
from connectors.formats.debezium.debezium_format import DebeziumFormat
from connectors.formats.debezium.json_events import JsonEvents
from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from integration_tests.chaos import change_oracle, oracle, report, store
from integration_tests.chaos import log as logs
from integration_tests.chaos.arena import possible_kinds
from integration_tests.chaos.brokers import Brokers
from integration_tests.chaos.change_load import ChangeLoad, Keys, Row, number_of_deletion
from integration_tests.chaos.clock import Clock
from integration_tests.chaos.disk import PARTS, Disk
from integration_tests.chaos.effect import soon
from integration_tests.chaos.evolution import problem_of_column
from integration_tests.chaos.load import NUMBER, Load
from integration_tests.chaos.plan import KINDS, SETUPS, Setup, round_of
from integration_tests.chaos.round import Outcome, problem_of
from integration_tests.chaos.store import wrong_states
from integration_tests.cluster.standalone import free_ports
from integration_tests.harness import session
from integration_tests.harness.drain import Record
from integration_tests.harness.link import Link
from integration_tests.harness.rotation import seed_of_run
from integration_tests.merging import Merging
from integration_tests.report import Report
from integration_tests.services import Services
from integration_tests.services.values import ServiceError
from twophase.head_value import HeadValue
from wal.stores import open_objects
from wal.testing import files_in

_RECORDS_PER_S = 400.0


def test_a_seed_gives_the_same_faults_again_and_another_one_others() -> None:
    rounds = [round_of(7, number, 40) for number in range(30)]
    assert rounds == [round_of(7, number, 40) for number in range(30)]
    assert rounds != [round_of(8, number, 40) for number in range(30)]
    faults = Counter(fault.kind for each in rounds for some in each.faults for fault in some)
    assert faults.total() == 30 * 40
    assert set(faults) == set(KINDS)
    assert {each.setup for each in rounds} == set(SETUPS)
    away = {each.setup for each in rounds for some in each.faults for fault in some if fault.kind == "sink away"}
    assert away == {setup for setup in SETUPS if setup.has_backlog}
    together = [some for each in rounds for some in each.faults if len(some) > 1]
    assert Counter(map(len, together))[2] > 100 < Counter(map(len, together))[3]
    for some in together:
        assert sum(fault.target.startswith("broker") for fault in some) < 2


def test_faults_of_a_store_are_those_of_setups_with_their_location_in_one() -> None:
    assert all(setup.mysql == setup.postgresql == "upsert" for setup in SETUPS if setup.changes)
    stored = {setup for setup in SETUPS if setup.is_stored}
    assert {setup.keeps_state_in_store for setup in stored} == {True, False}
    kinds: dict[Setup, set[str]] = {setup: set() for setup in SETUPS}
    for each in (round_of(7, number, 60) for number in range(60)):
        for some in each.faults:
            kinds[each.setup] |= {fault.kind for fault in some}
            assert not {"driver's machine lost", "disk full"} <= {fault.kind for fault in some}
            assert each.setup not in stored or "head" not in {fault.target for fault in some}
    of_a_store = {kind for kind in KINDS if kind.startswith("store")} | {"driver's machine lost"}
    for setup, found in kinds.items():
        possible = of_a_store - {"driver's machine lost"} if setup.has_standby else of_a_store
        assert found & of_a_store == (possible if setup in stored else set()), setup
        assert ("driver killed" in found, "driver killed beside a standby" in found) == (
            not setup.has_standby,
            setup.has_standby,
        )
        if setup.keeps_state_in_store:
            assert "transaction rolled back" not in found


def test_state_that_is_not_needed_or_lacking_is_seen() -> None:
    head = HeadValue("orders", "i", 3, (), completed=7, committed=7)
    names = ["000000000005.00000003", "000000000006.00000003", "000000000007.00000003", "000000000002.00000002"]
    keys = [f"eos/location/state/i/{name}.state" for name in names]
    packs = ["eos/location/state/i/00000003.0123456789abcdef.files"]
    assert wrong_states([*keys, *packs], head) == keys[:1]
    assert wrong_states([keys[1], *packs], head) == []
    assert wrong_states(packs, head) == ["the state after checkpoint 6 or a later one is not kept"]


@pytest.mark.parametrize("kind", ["object store", "HDFS"])
def test_a_store_that_is_stopped_or_cut_off_is_seen(kind: Literal["object store", "HDFS"], tmp_path: Path) -> None:
    with store.started(kind, tmp_path) as place:
        open_objects(place.log).create("a", b"rows")
        open_objects(place.location).create("head", b"not of the log")
        assert place.waiting() == ["eos/location/log/a"]
        assert place.answers()
        place.stop()
        assert not place.answers()
        place.go_on()
        assert soon(place.answers)
        place.link.cut()
        with pytest.raises(OSError, match=r"reset|closed|Broken pipe"):  # as the client reads, or still sends
            urlopen(f"http://127.0.0.1:{place.link.port}/", timeout=5)
        assert place.link.disturbed >= 1


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


def _fates(count: oracle.Count) -> dict[str, int]:
    found = {name: getattr(count, name) for name in count.__slots__ if name != "examples"}
    return {name: number for name, number in found.items() if number}


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
    assert _fates(count) == fates
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
    repeated = [message(row, offset) for offset, row in enumerate([*_ROWS[:2], *_ROWS])]
    assert _fates(oracle.of_messages(_topic(), repeated)) == {"ok": 6, "duplicated": 2, "out_of_order": 1}
    assert _fates(oracle.of_messages(_topic(), repeated, in_order=False)) == {"ok": 6, "duplicated": 2}
    assert oracle.of_merged(_topic(), oracle.frame_of([_ROWS[2], _ROWS[5]])).exact
    assert not oracle.of_merged(_topic(), oracle.frame_of([_ROWS[1], _ROWS[5]])).exact


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([(0, None), (2, 2), (4, 4), (1, None), (3, None), (5, 4)], ""),
        ([(0, None), (2, None), (2, 2), (4, 4), (5, 4)], ""),  # written at-least-once, before and after
        ([(0, None), (2, 2), (4, 4), (5, None)], "1 rows lack a value: ids [5]"),
        ([(2, 2), (4, 4), (5, 2)], "1 rows have another value"),
        ([(0, 4)], "1 rows have another value"),
        ([(0, None)], "no row is of a record"),
    ],
)
def test_the_oracle_sees_columns_that_were_added(rows: list[tuple[int, int | None]], problem: str) -> None:
    found = problem_of_column(2, {"t/0": 1, "t/1": 2}, "t", _topic(), rows)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


@pytest.mark.parametrize(
    ("letters", "fates"),
    [
        ([(0, 3, b"broken 7"), (1, 5, b"broken 9")], {"ok": 2}),
        ([(0, 3, b"broken 7")], {"ok": 1, "lost": 1}),
        ([(0, 3, b"broken 7"), (0, 3, b"broken 7"), (1, 5, b"broken 9")], {"ok": 2, "duplicated": 1}),
        ([(0, 3, b"broken 7"), (1, 5, b"broken"), (1, 6, b"broken 9")], {"ok": 2, "unexpected": 2}),
    ],
)
def test_the_oracle_sees_dead_letters(letters: list[tuple[int, int, bytes]], fates: dict[str, int]) -> None:
    broken = [Record(0, 3, None, b"broken 7", {}, 0), Record(1, 5, None, b"broken 9", {}, 0)]
    assert all(map(oracle.is_broken, broken))
    found = [
        Record(0, 0, None, value, {"eos.partition": b"%d" % partition, "eos.offset": b"%d" % offset}, 0)
        for partition, offset, value in letters
    ]
    assert _fates(oracle.of_dead_letters(broken, found)) == fates


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
        "without_effect": {"disk full": 1},
        "made_with": {"rate": 400.0},
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
    assert found["faults_by_kind"] == {"driver killed": 4, **dict.fromkeys(set(KINDS) - {"driver killed"}, 0)}
    assert found["without_effect"] == {"disk full": 2}
    assert found["recovery_s_by_kind"] == {"driver killed": {"p50": 2.0, "max": 3.0}}
    text = report.written(f"a\n{report.BEGIN}\nold\n{report.END}\nb\n", lines)
    assert "old" not in text
    assert "| driver killed | 4 | 2.0 | 3.0 |" in text
    assert "| two drivers | 0 |  |  |" in text
    assert "2 more did nothing, and are not counted" in text
    assert "20 records" in text
    assert "at-least-once" not in text
    repeats = {"the topic": count, "mysql": {**count, "duplicated": 3}}
    again = {**line, "round": 2, "verdict": "at least once", "setup": {"mode": "at-least-once"}, "counts": repeats}
    found = logs.summed([*lines, again])
    assert (found["verdict"], found["duplicated"], found["repeated"]) == ("exactly once", 0, 3)
    assert "duplicated 0" in report.written(text, [*lines, again])
    assert "3 more rows and messages were repeated at-least-once" in report.written(text, [*lines, again])
    broken = {**line, "round": 2, "verdict": "BROKEN", "counts": {"mysql": {**count, "lost": 1}}}
    found = logs.summed([*lines, broken])
    assert (found["verdict"], found["lost"], found["broken"]) == ("BROKEN", 1, ["seed 3, round 2"])


def test_a_line_that_was_cut_off_takes_no_other_with_it(tmp_path: Path) -> None:
    log = tmp_path / "chaos.jsonl"
    log.write_text('{"seed": 3, "rou')
    logs.append(log, logs.broken(3, 0, "lost"))
    logs.append(log, logs.broken(3, 1, "lost"))
    assert [line["round"] for line in logs.read(log)] == [0, 1]


def test_a_round_that_came_to_no_verdict_is_broken(tmp_path: Path) -> None:
    log = tmp_path / "chaos.jsonl"
    logs.append(log, logs.broken(3, 0, "RuntimeError('the disk stays busy')"))
    assert logs.next_round(logs.read(log), 3) == 1
    found = logs.summed(logs.read(log))
    assert (found["verdict"], found["broken"], found["faults"]) == ("BROKEN", ["seed 3, round 0"], 0)


def test_rounds_of_one_seed_are_made_with_the_same(tmp_path: Path) -> None:
    lines = [{**logs.broken(3, 0, "none"), "made_with": {"rate": 400.0}}]
    assert logs.begun_otherwise(lines, 3, {"rate": 400.0}) is None
    assert logs.begun_otherwise(lines, 4, {"rate": 800.0}) is None
    assert logs.begun_otherwise(lines, 3, {"rate": 800.0}) == {"rate": 400.0}
    assert logs.begun_otherwise([logs.broken(3, 0, "of an earlier version")], 3, {"rate": 400.0}) == {}


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


def test_a_disk_that_is_full_or_forbidden_is_seen(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk")
    if not disk.is_real:
        pytest.skip(f"{Report.NOT_APPLICABLE}: nobody may mount here")
    with disk:
        assert not disk.is_full()
        disk.fill()
        assert disk.is_full()
        disk.free()
        assert not disk.is_full()
        for part in PARTS:
            assert not disk.is_forbidden(part)
            disk.forbid(part)
            assert disk.is_forbidden(part)
            disk.allow(part)
            assert not disk.is_forbidden(part)
        assert not list((tmp_path / "disk" / "head").iterdir())
        for name in ("history", "spark/state"):
            (disk.folder / name).mkdir()
            (disk.folder / name / "file").write_bytes(b"x")
        (disk.folder / "lock").write_bytes(b"")
        disk.lose()
        assert files_in(disk.folder) == []
        assert {each.name for each in disk.folder.iterdir()} == set(PARTS)


def test_a_clock_that_jumps_is_seen(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    if not clock.is_real:
        pytest.skip(f"{Report.NOT_APPLICABLE}: there is no C compiler")
    program = "import time; print(time.time(), flush=True); input(); print(time.time(), time.monotonic())"
    environment = {**os.environ, **clock.environment}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stdin=PIPE, stdout=PIPE, text=True) as own:
        assert own.stdin is not None
        assert own.stdout is not None
        assert abs(float(own.stdout.readline()) - time.time()) < 60
        assert clock.is_of(own.pid)
        assert not clock.is_of(os.getpid())
        clock.jump(-3600)
        wall, monotonic = map(float, own.communicate("\n")[0].split())
    assert abs(wall + 3600 - time.time()) < 60
    assert abs(monotonic - time.monotonic()) < 60


def test_java_goes_by_a_clock_that_jumps(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    if not clock.is_real:
        pytest.skip(f"{Report.NOT_APPLICABLE}: there is no C compiler")
    clock.jump(3600)
    command = ["java", "-Xlog:gc=info:stdout:timemillis", "-version"]  # tells by a line with the time which one it uses
    environment = {**os.environ, **clock.environment}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert abs(int(told.removeprefix("[").partition("ms]")[0]) / 1000 - 3600 - time.time()) < 60


class _KeptLoad(ChangeLoad):
    """Keeps its records instead of producing them."""

    def __init__(self, keys: Keys, changes: int) -> None:
        super().__init__("localhost:1", "never", 3, 1.0, keys=keys, seed=5, breaks=True)
        self.records: list[Record] = []
        for _ in range(changes):
            self._send()

    def _send_record(self, number: int, partition: int, value: bytes | None, key: bytes | None = None) -> None:
        headers: dict[str, bytes | None] = {} if value is not None else {NUMBER: str(number).encode()}
        self.records.append(Record(partition, len(self.records), key, value, headers, 0))
        self.acknowledged.append(number)
        self.produced += 1

    def table(self) -> list[tuple[Any, ...]]:
        """The rows as the copy must have them, in the columns of a table."""
        marks = [(None, key, None, None, self.positions[key], True) for key in self.positions.keys() - self.rows.keys()]
        rows = [(*_stored(row), self.positions[row.k], False) for row in self.rows.values()]
        return [*rows, *marks] if self.has_marks else [row[:4] for row in rows]


def _stored(row: Row) -> tuple[int, ...]:
    return row.id, row.k, 2 * row.n, row.previous


@pytest.mark.parametrize("keys", get_args(Keys))
def test_the_oracle_sees_a_table_that_is_no_copy(keys: Keys) -> None:
    load = _KeptLoad(keys, 5_000)
    table = load.table()
    assert len(load.rows) > 100
    assert len(load.positions) > len(load.rows) + 20
    assert {"inserted", "updated", "deleted", "broken"} <= load.changes.keys()
    assert load.changes["moved"] > 500 or keys == "in place"
    assert _fates(change_oracle.of_table(load, table)) == {"ok": len(table)}
    assert _fates(change_oracle.of_table(load, table[1:])) == {"ok": len(table) - 1, "lost": 1}
    older = (table[0][0] - 1, *table[0][1:])
    assert not change_oracle.of_table(load, [older, *table[1:]]).complete
    deleted = next(key for key in load.positions if key not in load.rows)
    returned = (9_999_999, deleted, 0, -1, load.positions[deleted], False)[: len(table[0])]
    assert not change_oracle.of_table(load, [*(row for row in table if row[1] != deleted), returned]).complete
    if keys == "moving":
        assert _fates(change_oracle.of_table(load, table[:-1])) == {"ok": len(table) - 1, "lost": 1}
        late = [(*row[:4], f"{0:020}:{0:020}:{0:020}", row[5]) for row in table[:1]]
        assert _fates(change_oracle.of_table(load, [*late, *table[1:]]))["unexpected"] == 1


_MERGED = "k INTEGER PRIMARY KEY, id INTEGER, n INTEGER, previous INTEGER, _position TEXT, removed_at TEXT"
_CHANGE = {**dict.fromkeys(("k", "id", "n", "previous"), pa.int64()), "_position": pa.string()}


@pytest.mark.parametrize("keys", get_args(Keys))
def test_events_that_are_merged_in_pieces_are_the_table(keys: Keys, tmp_path: Path) -> None:
    """Partitions lag, so that older events of a key that has moved arrive later."""
    load = _KeptLoad(keys, 2_000)
    row = parse_ddl("id BIGINT, k BIGINT, n BIGINT, previous BIGINT")
    decoded = DebeziumFormat(row, JsonEvents(row)).decode(pa.array([each.value for each in load.records], pa.binary()))
    assert (len(decoded.omitted), len(decoded.bad)) == (load.changes["deleted"], load.changes["broken"])
    assert decoded.rows.num_rows == load.changes["events"] > 2_000
    records = [load.records[at] for at in decoded.record_indices(len(load.records)).tolist()]
    rows = [
        (
            *(event["k"], number_of_deletion(event["id"]) if event["_deleted"] else event["id"]),
            *(2 * event["n"] + event["_deleted"], event["previous"], event["_position"]),
            *(event["_source_ts"].replace(tzinfo=None) if event["_deleted"] else None, event["_deleted"]),
            *(record.partition, record.offset),
        )
        for event, record in zip(decoded.rows.to_pylist(), records, strict=True)
    ]
    moment, place = ("removed_at", pa.timestamp("us")), [("_partition", pa.int32()), ("_offset", pa.int64())]
    schema = pa.schema([*_CHANGE.items(), moment, ("_deleted", pa.bool_()), *place])
    ordered = Upsert(("k",), deleted_at="removed_at", order_by="_position")
    upsert = ordered if load.has_marks else Upsert(("k",), deleted="_deleted")
    merging = Merging(f"sqlite:///{tmp_path / 't.db'}", LogPlace(tmp_path / "log"), _MERGED, upsert, schema)
    merging.start()
    chance = random.Random(3)
    waiting = {partition: [each for each in rows if each[-2] == partition] for partition in range(3)}
    checkpoints = 0
    while any(waiting.values()):
        sizes = {partition: chance.choice([0, 10, 300]) for partition in waiting}
        some = [each for partition, size in sizes.items() for each in waiting[partition][:size]]
        waiting = {partition: left[sizes[partition] :] for partition, left in waiting.items()}
        if some:
            merging.checkpoint(checkpoints, some)
            checkpoints += 1
    found = merging.rows("id, k, n, previous, _position, removed_at IS NOT NULL")
    count = change_oracle.of_table(load, found if load.has_marks else [each[:4] for each in found])
    assert checkpoints > 5
    assert count.exact, count
    assert count.ok == len(load.positions if load.has_marks else load.rows) > 300


@pytest.mark.parametrize("keys", get_args(Keys))
def test_the_oracle_sees_events_that_are_lost_or_come_twice(keys: Keys) -> None:
    load = _KeptLoad(keys, 2_000)
    topic = change_oracle.produced(load.records)
    others = [record for record in load.records if record.value is None or oracle.is_broken(record)]
    assert len(topic) == load.changes["events"]
    assert len(others) == load.changes["deleted"] + load.changes["broken"] > 100
    in_order = keys == "in place"
    assert oracle.of_source(topic, load.acknowledged, others, in_order=in_order).exact
    assert oracle.of_source(topic, load.acknowledged, others).exact == in_order
    assert oracle.of_source(topic, load.acknowledged, others[1:], in_order=in_order).lost == 1
    rows = topic[list(oracle.COLUMNS)]
    assert _fates(oracle.of_rows(topic, rows)) == {"ok": len(topic)}
    assert _fates(oracle.of_rows(topic, pd.concat([rows, rows[:1]]))) == {"ok": len(topic), "duplicated": 1}
    assert _fates(oracle.of_rows(topic, rows[1:])) == {"ok": len(topic) - 1, "lost": 1}


@pytest.mark.parametrize(
    ("surprises", "errors", "produced", "problem"),
    [
        ([], [], 300, ""),
        ([], [], 299, "only 299 records were produced, where an idle machine takes 1,000"),
        ([], ["no leader"], 1000, "the load was not taken: ['no leader']"),
        (["it ended with 1", "and again"], ["no leader"], 0, "it ended with 1; and again"),
    ],
)
def test_a_round_that_tells_nothing(surprises: list[str], errors: list[str], produced: int, problem: str) -> None:
    load = Load("localhost:1", "never", 1, 1.0)
    load.produced, load.errors = produced, errors
    assert problem_of(surprises, load, expected=1000) == problem


def test_what_is_left_or_wrong_breaks_a_round() -> None:
    exact = Outcome(round_of(1, 0, 3), (), 10, 1.0, {}, {}, ())
    assert exact.is_exact
    assert not replace(exact, left=("a branch",)).is_exact
    assert not replace(exact, problem="only 3 records were produced").is_exact


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (oracle.Count(duplicated=1), True),
        (oracle.Count(lost=1), False),
        (oracle.Count(unexpected=1), False),
        (oracle.Count(out_of_order=1), False),
    ],
)
def test_rows_may_be_there_twice_only_where_no_more_is_promised(count: oracle.Count, expected: bool) -> None:
    fought = replace(round_of(1, 0, 3), setup=Setup("two-phase", "two-phase", mode="at-least-once"))
    outcome = Outcome(fought, (), 10, 1.0, {}, {"mysql, two-phase": count}, ())
    assert outcome.is_exact is expected
    assert outcome.facts()["verdict"] == ("at least once" if expected else "BROKEN")
    assert not replace(outcome, fought=replace(fought, setup=Setup("two-phase", "two-phase"))).is_exact
    assert not replace(outcome, counts={logs.TOPIC: count}).is_exact


def test_a_process_that_was_ended_or_stopped_is_seen() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=PIPE) as own:
        process = psutil.Process(own.pid)
        assert session.lives(process)
        own.send_signal(signal.SIGSTOP)
        assert session.is_stopped(process)
        own.send_signal(signal.SIGCONT)
        assert soon(lambda: process.status() != psutil.STATUS_STOPPED)
        own.kill()
        assert soon(lambda: not session.lives(process))
        assert not session.is_stopped(process)


@pytest.mark.parametrize("disturb", ["cut", "stall", "slow"])
def test_connections_that_were_disturbed_are_seen(disturb: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Link("127.0.0.1", server.getsockname()[1]) as link:
        client = socket.create_connection(("127.0.0.1", link.port))
        served, _ = server.accept()
        client.sendall(b"before")
        assert served.recv(100) == b"before"
        assert link.disturbed == 0
        if disturb == "slow":
            link.bytes_per_s = 1000.0
            assert link.disturbed == 0  # nothing was on its way
            served.sendall(bytes(500))
            assert client.recv(1000)
        else:
            getattr(link, disturb)()
        assert link.disturbed == 1
        link.restore()
        assert link.disturbed == 0
        if disturb == "stall":
            link.stall()
            assert link.disturbed == 0  # it carried nothing any more
            link.restore()
        client.close()
        served.close()


def test_a_machine_of_ci_can_do_every_kind(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    missing = set(KINDS) - possible_kinds(tmp_path)
    if missing and not pytestconfig.getoption("--require-all"):
        pytest.skip(f"{Report.NOT_APPLICABLE}: not possible here: {missing}")
    assert not missing


def test_a_node_that_has_ended_is_told(tmp_path: Path) -> None:
    """Its port may be another server's, which answers; or it never was one of the three."""
    with Brokers(tmp_path) as brokers:
        brokers.await_all()
        brokers.kill(1)
        with pytest.raises(ServiceError, match=r"a node has ended, see .*kafka-2\.log"):
            brokers.await_all()
        brokers.start(1)
        brokers.await_all()


def test_ports_of_servers_are_not_those_of_connections() -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert not [port for port in ports if first <= port <= last]


@pytest.mark.any_server
@pytest.mark.alone
@pytest.mark.in_turns
@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("postgres", "_first_run")
@pytest.mark.parametrize("has_changes", [False, True] if (_SEED := seed_of_run()) is None else [_SEED % 3 == 0])
def test_a_short_round(killable: Services, tmp_path: Path, has_changes: bool) -> None:
    """By the command, of a seed of its own for each run that takes it, of which a third has change events."""
    log = tmp_path / "chaos.jsonl"
    of_run = seed_of_run() or 0
    numbers = [number for number, setup in enumerate(SETUPS) if bool(setup.changes) == has_changes]
    seed = of_run * len(SETUPS) + numbers[of_run % len(numbers)]
    options = ["--minutes=0", "--faults=5", f"--rate={_RECORDS_PER_S:g}", f"--seed={seed}", f"--log={log}"]
    command = [sys.executable, "-m", "integration_tests.chaos", "run", f"--kind={killable.kind}", *options]
    done = subprocess.run(command, stdout=PIPE, text=True, check=False)
    print(log.read_text())
    found = json.loads(done.stdout)
    assert (done.returncode, found["verdict"]) == (0, "exactly once"), found
    assert found["faults"] + sum(found["without_effect"].values()) == 5
    assert found["faults"] >= 3
    assert found["records"] > 1000
    (line,) = logs.read(log)
    rows = {place: count["ok"] for place, count in line["counts"].items() if not place.endswith("upsert")}
    letters = rows.pop("dead letters", 0)
    assert rows.pop("the topic") == found["records"]
    changes = line.get("changes", {})
    assert set(rows.values()) == {found["records"] - letters - changes.get("deleted", 0)}
    assert bool(letters) == line["setup"]["has_dead_letters"]
    assert len(line["counts"]) == 4 + line["setup"]["has_dead_letters"]
    assert bool(changes) == has_changes
    if has_changes:
        assert all(changes[kind] > 100 for kind in ("inserted", "updated", "deleted"))
        assert line["setup"]["changes"] == "in place" or changes["moved"] > 100
        assert min(line["counts"][f"{kind}, upsert"]["ok"] for kind in ("mysql", "postgresql")) > 100
    assert line["made_with"] == {
        "faults": 5,
        "rate": _RECORDS_PER_S,
        "kinds": sorted(KINDS),
        "server": str(killable.database),
    }
