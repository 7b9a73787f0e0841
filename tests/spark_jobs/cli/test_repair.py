"""`eos repair` before it does anything: it says what is lost, of a real database and log, and changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from connectors.log.segments import committable, segment_name
from connectors.spec import load_spec
from spark_jobs.cli import output, run_command_line
from spark_jobs.operations import repair
from spark_jobs.session.settings import kept_batches
from tests.spark_jobs.cli.test_status import INCARNATION, SPEC, record, store
from twophase.codec import encode_head, encode_record, sha256_of
from twophase.head_value import HeadValue, RecordRef
from twophase.local_head import LocalHead
from twophase.messages import Failed
from twophase.status import read_status
from twophase.values import INSTEAD_OF, Committable
from wal.segment import SegmentRef


def decide(folder: Path, *, committed: int = 4, data: dict[str, str] | None = None) -> Committable:
    """Checkpoint 5, with a segment that is not there."""
    made = record(5)
    (named,) = made.committables["out"]
    ref = SegmentRef(segment_name(named.transaction), 90, 1000, "0" * 64)
    waiting = committable(named.transaction, 1, 90, ref)
    waiting = replace(waiting, data={**waiting.data, **(data or {})})
    content = encode_record(replace(made, committables={"out": (waiting,)}))
    head, digest = LocalHead(folder / "state"), sha256_of(content)
    head.put_record("record", content)
    value = HeadValue(
        "orders", INCARNATION, 3, ("n",), completed=5, committed=committed, records=(RecordRef(5, "record", digest),)
    )
    assert head.swap(None, encode_head(value))
    return waiting


def run(capsys: pytest.CaptureFixture[str], spec: Path, *options: str) -> tuple[int, dict[str, object]]:
    code = run_command_line(["repair", str(spec), "--json", *options])
    return code, json.loads(capsys.readouterr().out)


def test_what_is_lost(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = decide(spec.parent)
    code, facts = run(capsys, spec)
    assert (code, facts["ok"], facts["done"]) == (0, True, False)
    transaction = {"sink": "out", "task": 0, "rows": 90, "transaction": str(lost.transaction)}
    ranges = {"s": [{"split": "t/0", "start": 500, "end": 600}]}
    assert facts["losses"] == [{"checkpoint_id": 5, "rows": 90, "lost": [transaction], "ranges": ranges}]
    assert len(list((spec.parent / "state" / "head").iterdir())) == 1, "nothing was changed"


def test_what_is_lost_for_people(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = decide(spec.parent)
    assert run_command_line(["repair", str(spec)]) == 0
    shown = capsys.readouterr().out
    assert "Lost of checkpoint 5, which is completed: 1 transaction with 90 rows." in shown
    assert "Its records are t/0[500, 600)" in shown
    assert str(lost.transaction) in shown
    assert "Nothing was changed. Add --yes" in shown


def test_nothing_is_lost(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a pipeline that never ran, and of one whose checkpoints are committed; nor is Spark started."""
    nothing = {"ok": True, "pipeline": "orders", "done": False, "losses": []}
    assert run(capsys, spec, "--yes") == (0, nothing)
    assert not (spec.parent / "state").exists()
    decide(spec.parent, committed=5)
    assert run(capsys, spec, "--yes") == (0, nothing)
    assert len(list((spec.parent / "state" / "head").iterdir())) == 1


def test_a_sink_that_the_spec_no_longer_names(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    decide(spec.parent)
    spec.write_text(SPEC.replace("name: out", "name: another"))
    code, facts = run(capsys, spec, "--yes")
    assert (code, facts["ok"]) == (1, False)
    assert "was decided for sink out" in facts["error"]["message"]  # type: ignore[index]


def test_what_another_commit_variant_has_prepared(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(spec.parent / "state")
    code, facts = run(capsys, spec)
    assert (code, facts["ok"]) == (1, False)
    assert "set the sink's `commit` back" in facts["error"]["remedy"]  # type: ignore[index]


def test_a_job_of_ones_own(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec.write_text(
        "\n".join(line for line in SPEC.splitlines() if not line.startswith("sources")).replace("from: s, ", "")
    )
    code, facts = run(capsys, spec, "--yes")
    assert (code, facts["ok"]) == (2, False)
    assert "for a job of your own" in facts["error"]["message"]  # type: ignore[index]


def test_a_folder_that_cannot_be_read_or_written_fails_the_repair(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has claimed and permitted is then ended, as after any other failure."""
    decide(spec.parent)
    history = read_status(LocalHead(spec.parent / "state"))
    assert history is not None
    monkeypatch.setattr(repair, "build", lambda *_, **__: SimpleNamespace(stateful=False))  # it would start Spark
    history = replace(history, head=replace(history.head, initial={"s": {}}, identities={"s": {}}))
    (record,) = history.checkpoints
    answer = repair.Rerun(load_spec(spec, {}), None, history)(record.scope, record, {})  # type: ignore[arg-type]
    assert isinstance(answer, Failed)
    assert "checkpoint 5 failed: [Errno 2]" in answer.error.message
    assert str(spec.parent / "state" / "spark" / INCARNATION / "metadata") in answer.error.message


def test_the_history_tells(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    decide(spec.parent, committed=5, data={INSTEAD_OF: "x"})
    assert run_command_line(["status", str(spec), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["checkpoints"]
    assert (told["state"], told["repaired"]) == ("committed", 1)
    output.out.as_json = False
    assert run_command_line(["status", str(spec)]) == 0
    assert "committed, repaired" in capsys.readouterr().out


def test_state_is_kept_from_before_all_that_a_sink_may_be_behind_by(spec: Path) -> None:
    assert kept_batches(load_spec(spec, {})) == {}  # Spark's own hundred are enough
    spec.write_text(SPEC.replace("log}", "log, max_backlog: {checkpoints: 500}}"))
    assert kept_batches(load_spec(spec, {})) == {"spark.sql.streaming.minBatchesToRetain": "600"}
    spec.write_text(spec.read_text().replace("{location: state}", "{location: state, mode: at-least-once}"))
    assert kept_batches(load_spec(spec, {})) == {}
