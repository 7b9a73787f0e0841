"""`eos status` of a pipeline with a history: head's word where the two differ, and everything at 80 columns."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from connectors.spec import load_spec
from eos.errors import BadRowError, SourceError
from spark_jobs.cli import output, run_command_line, status
from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.observe.head_reader import read_head
from spark_jobs.observe.history.database import NAME
from spark_jobs.observe.history.entries import (
    Committed,
    Completed,
    Entry,
    Measured,
    Planned,
    RunEnded,
    SinkCommitted,
    StateMeasured,
)
from spark_jobs.observe.history.model import (
    AbortedAttempt,
    Acknowledgement,
    Event,
    RuleCount,
    SinkCommit,
    SplitLag,
    StateOperator,
    acknowledgements_of,
    failure,
)
from spark_jobs.observe.history.model import of_record as made_of
from spark_jobs.observe.history.recorder import recorded
from spark_jobs.observe.lag import Lag, SourceLag, write_lag
from spark_jobs.observe.overview import Overview
from spark_jobs.observe.run_lock import present
from spark_jobs.observe.withheld import Poll, Withheld
from tests.history_values import PHASES, RUN, writing
from tests.spark_jobs.cli.test_status import INCARNATION, SPEC, record, store
from tests.spark_jobs.observe.test_lag import Ends

ROOT = Path(__file__).parents[3]
NUMBERS = (2, 3, 4)  # that the history has; head has 4 and 5


def entries(number: int) -> Iterator[Entry]:
    """A checkpoint of two tasks."""
    made = record(number)
    acknowledged = (*acknowledgements_of(made), Acknowledgement("out", 1, 2, 0, 0))
    tasks = tuple(replace(each, read_s=0.2, write_s=0.1, prepare_s=0.05) for each in acknowledged)
    sink = SinkCommit("out", 90, 2048, 2, "write-ahead-log")
    yield Completed(replace(made_of(made), sinks=(sink,), session="run1"), made.ranges, acknowledged)
    yield SinkCommitted(INCARNATION, number, "out", made.decided_at + 0.1, 0.04)
    lag = (SplitLag(made.decided_at, "s", "t/0", 1000, 600),)
    yield Measured(INCARNATION, number, PHASES, made.decided_at + 0.2, tasks, lag)
    yield Planned(INCARNATION, number, 0.02)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    path.write_text(SPEC)
    store(tmp_path / "state")
    at = record(4).decided_at
    with writing(tmp_path / "state" / NAME) as writer:
        writer.write([RUN, *(entry for number in NUMBERS for entry in entries(number))], at)
        writer.write([Committed(INCARNATION, 3, None)], at)
        failure = Event(at, "failure", "the disk of the warehouse is full", "PrepareError", "free some", 4)
        aborted = AbortedAttempt(INCARNATION, 4, 3, 1, at - 1, "PrepareError", "no space")
        writer.write([failure, Event(at, "restart", "in 1.0 s", delay_s=1.0), aborted], at)
        writer.write([RunEnded("run1", at + 60, "failed")], at)
    return path


def shown(spec: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert run_command_line(["status", str(spec), *options]) == 0
    return capsys.readouterr().out


def test_everything_for_people(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(spec, capsys)
    assert "orders: not running; its last run ended 2023-11-14 22:14:21: failed" in text
    assert "exactly-once: every record's rows are in each sink once" in text
    assert "lag unknown: not measured yet; `eos status --measure-lag` queries the sources" in text
    assert "3 checkpoints, 300 records, 270 rows (6.0 KiB); 1 aborted try, 1 failure, 1 restart, 1 run" in text
    rows = [line.split() for line in text.splitlines() if "2023-11-14 " in line and "committed" in line[-20:]]
    assert [row[0] for row in rows] == ["4", "3", "2"]
    assert "failure at checkpoint 4: PrepareError: the disk of the warehouse is full" in text
    assert "remedy: free some" in text
    assert "try 1 of checkpoint 4 aborted: no space" in text
    assert [line.split() for line in text.splitlines() if line.startswith("  prepare")] == [["prepare", *["0.050"] * 4]]


def measured(age_s: float, *ends: int, **changes: Any) -> Lag:
    at = time.time() - age_s
    splits = tuple(SplitLag(at, "s", f"t/{number}", end, 600) for number, end in enumerate(ends))
    return Lag((replace(SourceLag("s", at, splits, incarnation=INCARNATION), **changes),))


def test_the_lag_of_a_driver_that_measures_it(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lag(spec.parent / "state", measured(2.0, 25_600, 600))
    assert re.search(r"^lag 25,000 records, \d+ s ago \(t/0 25,000, t/1 0\)$", shown(spec, capsys), re.MULTILINE)
    found = json.loads(shown(spec, capsys, "--json"))["lag"]
    assert (found["records"], found["unknown"], found["measured"]) == (25_000, None, 25_000)
    assert found["age_s"] == pytest.approx(time.time() - found["at"], abs=5)
    assert [(each["split"], each["position"], each["end"], each["records"]) for each in found["splits"]] == [
        ("t/0", 600, 25_600, 25_000),
        ("t/1", 600, 600, 0),
    ]
    output.out.as_json = False
    write_lag(spec.parent / "state", measured(2.0, 600, withheld={"t/0": [600, 1_600]}))
    assert re.search(r"lag 0 records, \d+ s ago \(t/0 0\); 1,000 more cannot be read yet$", shown(spec, capsys), re.M)


def test_the_lag_of_a_driver_that_is_frozen_is_unknown(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lag(spec.parent / "state", measured(5_700.0, 25_600))
    text = " ".join(shown(spec, capsys).split())
    why = "the driver does not measure it: it is stopped, paused or overloaded"
    assert f"lag unknown: {why} (last: 25,000 records, 95 min ago); `eos status --measure-lag` queries" in text
    found = json.loads(shown(spec, capsys, "--json"))["lag"]
    assert (found["records"], found["unknown"], found["measured"]) == (None, why, 25_000)
    assert 5_700 <= found["age_s"] < 5_800


def test_the_lag_of_a_source_that_does_not_answer_is_unknown(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lag(spec.parent / "state", Lag((measured(420.0, 25_600).sources[0].failed("no answer from Kafka at a"),)))
    assert "lag unknown: no answer from Kafka at a (last: 25,000 records, 7 min ago)" in " ".join(
        shown(spec, capsys).split()
    )


def test_another_process_measures_the_lag(
    spec: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    head = read_head(load_spec(spec))
    assert head is not None
    begun = replace(head, initial={"s": {"t/0": 0}}, positions={"s": {"t/0": 600}})
    monkeypatch.setattr(Overview, "head", begun)
    monkeypatch.setattr(status, "build_source", lambda _: Ends({"t/0": 9_600}))
    write_lag(spec.parent / "state", measured(5_700.0, 700))
    assert re.search(r"^lag 9,000 records, \d s ago \(t/0 9,000\)$", shown(spec, capsys, "--measure-lag"), re.M)
    assert "last: 100 records" in " ".join(shown(spec, capsys).split()), "it writes nothing"
    monkeypatch.setattr(status, "build_source", lambda _: Ends(error=SourceError("no answer from Kafka at a")))
    text = " ".join(shown(spec, capsys, "--measure-lag").split())
    assert "lag unknown: no answer from Kafka at a (last: 100 records, 95 min ago)" in text
    for other in ("--follow", "--checkpoint=4"):
        assert run_command_line(["status", str(spec), "--measure-lag", other]) == 2


def test_records_that_were_left_out(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "left out" not in shown(spec, capsys)
    with writing(spec.parent / "state" / NAME) as writer:
        writer.write([Measured(INCARNATION, 3, PHASES, None, (), None, {"s": 1200})], record(4).decided_at)
    text = " ".join(shown(spec, capsys).split())
    assert "left out by on_bad_record: skip: 1,200 records, 1,200 in the newest 4 checkpoints (300.00% of" in text
    assert "committed, 1,200 left out" in text
    assert "1,200 bad records left out" in shown(spec, capsys, "--checkpoint", "3")
    facts = json.loads(shown(spec, capsys, "--json"))
    summary = facts["summary"]
    assert (facts["totals"]["skipped"], summary["skipped"], summary["skipped_share"]) == (1200, 1200, 3)
    assert [each["skipped"] for each in facts["checkpoints"]] == [0, 0, 1200, 0]


def test_rows_that_fail_an_expectation(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "expectation" not in shown(spec, capsys)
    rules = (RuleCount("big", "positive", "skip", 1200, 3),)
    with writing(spec.parent / "state" / NAME) as writer:
        writer.write([Measured(INCARNATION, 3, PHASES, None, (), None, {}, rules)], record(4).decided_at)
    for more in ((), ("--checkpoint", "3")):
        assert "big.positive skip 1,200 3 0.25%" in " ".join(shown(spec, capsys, *more).split())
    facts = json.loads(shown(spec, capsys, "--json"))
    expected = {"step": "big", "rule": "positive", "action": "skip", "rows": 1200, "failed": 3}
    assert facts["expectations"] == [expected]


def test_the_state_of_each_operator(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "stateStoreSave" not in shown(spec, capsys)
    assert json.loads(shown(spec, capsys, "--json"))["state"] is None
    output.out.as_json = False
    operators = (
        StateOperator(0, "totals", "stateStoreSave", 12_000, 300, 20, 7, 5_000_000, 41),
        StateOperator(1, "once", "dedupe", 500, 5, 0, 0, 1_000_000, 1_002),
    )
    with writing(spec.parent / "state" / NAME) as writer:
        writer.write([StateMeasured(INCARNATION, 3, operators)], record(4).decided_at)
    for more in ((), ("--checkpoint", "3")):
        text = " ".join(shown(spec, capsys, *more).split())
        assert "totals stateStoreSave 12,000 300 7 4.8 MiB 41 once dedupe 500 5 0 976.6 KiB 1,002" in text
        assert "all 12,500 5.7 MiB" in text
    state = json.loads(shown(spec, capsys, "--json"))["state"]
    assert (state["checkpoint_id"], state["rows"], state["memory_bytes"]) == (3, 12_500, 6_000_000)
    assert state["operators"][0] == asdict(operators[0])
    (_, once) = json.loads(shown(spec, capsys, "--checkpoint", "3", "--json"))["state_operators"]
    assert once == asdict(operators[1])


def test_records_that_cannot_be_read_yet(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(shown(spec, capsys, "--json"))["withheld"] is None
    output.out.as_json = False
    poll = Poll("s", 1_700_000_000.0, "an open transaction", {"t/0": (1000, 2000), "t/1": (5, 6)})
    Withheld(spec.parent / "state", {}).observe([poll])
    text = " ".join(shown(spec, capsys).split())
    assert "1,001 records behind: waiting for an open transaction since 2023-11-14 22:13:20 UTC (" in text
    assert "): t/0 1,000 offsets from 1000, t/1 1 offsets from 5" in text
    found = json.loads(shown(spec, capsys, "--json"))["withheld"]
    assert (found["records"], found["since"], found["at"]) == (1_001, 1_700_000_000, 1_700_000_000)
    assert [(each["split"], each["begin"], each["end"]) for each in found["splits"]] == [
        ("t/0", 1000, 2000),
        ("t/1", 5, 6),
    ]


def test_everything_for_programs(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(shown(spec, capsys, "--json"))
    found = facts["checkpoints"]
    assert [each["checkpoint_id"] for each in found] == [5, 4, 3, 2]
    assert [each["state"] for each in found] == ["completed", "committed", "committed", "committed"], "head says so"
    assert [each["run"] for each in found] == [None, "run1", "run1", "run1"]
    assert found[1]["phases_s"] == {**dict(PHASES.items()), "plan": 0.02}
    assert found[1]["duration_s"] == pytest.approx(1.5 + 0.2 + 0.02)
    assert (found[0]["phases_s"]["read"], found[0]["duration_s"]) == (None, None)
    assert facts["summary"]["duration_s"]["count"] == 3
    assert facts["summary"]["phases"]["commit"]["p99"] == pytest.approx(0.09)
    assert facts["totals"]["records"] == 300
    unknown = {"records": None, "unknown": "not measured yet", "at": None, "age_s": None, "measured": None}
    assert facts["lag"] == {**unknown, "withheld": 0, "splits": []}
    assert [each["lag"] for each in found] == [None, 400, 400, 400]
    assert [each["kind"] for each in facts["incidents"]] == ["restart", "failure"]
    assert facts["runs"][0]["ended"] == "failed"
    assert (facts["running"], facts["history_unread"]) == (None, None)


def test_one_checkpoint_with_every_writer_and_sink(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(spec, capsys, "--checkpoint", "4")
    assert "checkpoint 4: committed" in text
    assert "took 1.72 s: plan 0.020, start 0.10, read 0.20, write 0.050, prepare 0.050, decide 0.010" in text
    assert [line.split()[:2] for line in text.splitlines() if line.startswith("out/")] == [
        ["out/0", "1"],
        ["out/1", "2"],
    ]
    assert "write-ahead-log" in text
    assert ["s", "t/0", "400", "500", "400"] in [line.split() for line in text.splitlines()]
    facts = json.loads(shown(spec, capsys, "--checkpoint", "4", "--json"))
    assert [(each["task"], each["read_s"]) for each in facts["acknowledgements"]] == [(0, 0.2), (1, 0.2)]
    assert facts["ranges"] == {"s": [{"split": "t/0", "start": 400, "end": 500}]}
    assert facts["sinks"][0]["commit_s"] == 0.04
    assert [each["reason"] for each in facts["aborted"]] == ["no space"]


def test_one_that_only_head_knows_and_one_that_nobody_knows(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "where its time went was not measured" in shown(spec, capsys, "--checkpoint", "5")
    assert run_command_line(["status", str(spec), "--checkpoint", "17"]) == 1
    assert "checkpoint 17 of orders is not known" in capsys.readouterr().err


def test_what_a_record_holds_does_not_reach_the_terminal(
    spec: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error names the key that a record has brought: in the history, in the log, in the last message."""
    key = "Key (name)=(\x1b]0;owned\x07\x1b[2J\x9b31m) already exists\n2026-11-22 INFO eos.runner: all is well"
    error = BadRowError(key, remedy="see \x1b[1m")
    with recorded(load_spec(spec, {}), "run9", lambda: "stopped") as recorder:
        recorder.on_event(failure(error, time.time()))
    assert run_command_line(["status", str(spec)]) == 0
    output.out.error(error)
    for name in ("handlers", "propagate", "level"):  # as they are now, afterwards
        monkeypatch.setattr(logging.getLogger("eos"), name, getattr(logging.getLogger("eos"), name))
    log_to_stderr()
    logging.getLogger("eos.runner").warning("%s", key)
    shown = capsys.readouterr()
    for said in (shown.out, shown.err):
        assert r"Key (name)=(\x1b]0;owned\x07\x1b[2J\x9b31m) already exists" in said
        assert not set(said) & {*map(chr, range(9)), "\x1b", "\x9b"}
    assert not [line for line in shown.err.splitlines() if line.startswith("2026-11-22 INFO")]


def test_who_runs_it(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with present(load_spec(spec, {}), "run2", page="http://localhost:1234"):
        text = shown(spec, capsys)
        facts = json.loads(shown(spec, capsys, "--json"))
    assert f"orders: running for 0 s (pid {os.getpid()} on " in text
    assert "page http://localhost:1234" in text
    assert facts["running"]["pid"] == os.getpid()


def test_who_runs_it_by_a_later_version(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with present(load_spec(spec, {}), "run9"):
        (path,) = (spec.parent / "state" / "run").glob("*.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), "later": 1}))  # its lock stays
        assert f"pid {os.getpid()}" in shown(spec, capsys)


def test_a_damaged_history_is_told_and_head_still_speaks(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = spec.parent / "state" / NAME
    path.write_bytes(b"not a database" * 1000)
    text = shown(spec, capsys)
    said = f"warning: the history {path} cannot be used: file is not a database"
    assert "".join(said.split()) in "".join(text.split()), "wrapped where it must be"
    assert "move it away" in text
    assert "completed up to checkpoint 5" in text
    facts = json.loads(shown(spec, capsys, "--json"))
    assert "file is not a database" in facts["history_unread"]
    assert [each["checkpoint_id"] for each in facts["checkpoints"]] == [5, 4]


@pytest.mark.parametrize("options", [[], ["--checkpoint", "4"]])
def test_it_fits_a_narrow_terminal(spec: Path, options: list[str]) -> None:
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    command = [sys.executable, "-m", "tests.eos", "status", str(spec), *options]
    done = subprocess.Popen(command, stdout=follower, cwd=ROOT, env=environment)
    os.close(follower)
    lines = _all(leader).splitlines()
    assert done.wait(60) == 0
    assert len(lines) > 10
    assert [line for line in lines if len(line) > 80 or "…" in line] == []


def _all(descriptor: int) -> str:
    found = b""
    while True:
        try:
            more = os.read(descriptor, 65536)
        except OSError:  # the other end is closed
            more = b""
        if not more:
            os.close(descriptor)
            return found.decode()
        found += more


def test_it_follows_what_changes_until_it_is_interrupted(spec: Path) -> None:
    command = [sys.executable, "-m", "tests.eos", "status", str(spec), "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        _await_line(process.stdout, "orders: not running")
        with writing(spec.parent / "state" / NAME) as writer:
            writer.write([Event(time.time(), "failure", "something new", "PrepareError")], time.time())
        _await_line(process.stdout, "something new")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def _await_line(lines: Iterator[str], part: str) -> None:
    assert any(part in line for line in lines)
