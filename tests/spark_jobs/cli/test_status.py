"""`eos status` reads what the protocol stored, and makes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_jobs.cli import run_command_line
from twophase.codec import encode_head, encode_record, sha256_of
from twophase.head_value import HeadValue, RecordRef
from twophase.ids import Scope, TransactionId, sink_key
from twophase.local_head import LocalHead
from twophase.values import CheckpointRecord, Committable, OffsetRange

INCARNATION = "a" * 20
SPEC = """\
pipeline: orders
checkpoint: {location: state}
sources: [{name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}}]
sinks: [{name: out, from: s, connector: sqlite, path: x.db, table: t, commit: write-ahead-log}]
"""


def record(checkpoint_id: int) -> CheckpointRecord:
    scope = Scope(INCARNATION, 3, checkpoint_id)
    start = checkpoint_id * 100
    committable = Committable(TransactionId(scope, sink_key("out"), 0, 1), rows=90)
    return CheckpointRecord(
        scope=scope,
        ranges={"s": (OffsetRange("t/0", start, start + 100),)},
        offsets_log="{}",
        committables={"out": (committable,)},
        started_at=1_700_000_000.0,
        decided_at=1_700_000_001.5,
    )


def store(location: Path) -> None:
    """Checkpoints 4 and 5, of which only 4 is committed."""
    head, refs = LocalHead(location), []
    for checkpoint_id in (4, 5):
        content = encode_record(record(checkpoint_id))
        digest = sha256_of(content)
        refs.append(RecordRef(checkpoint_id, f"{checkpoint_id}-{digest}", digest))
        head.put_record(refs[-1].name, content)
    value = HeadValue("orders", INCARNATION, 3, ("n",), completed=5, committed=4, records=tuple(refs))
    assert head.swap(None, encode_head(value))


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    path.write_text(SPEC)
    return path


def test_the_history_newest_first(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(spec.parent / "state")
    assert run_command_line(["status", str(spec)]) == 0
    shown = capsys.readouterr().out
    assert "orders: not running" in shown
    assert "epoch 3" in shown
    assert "completed up to checkpoint 5, committed up to checkpoint 4" in shown
    rows = [line for line in shown.splitlines() if "2023-11-14" in line]
    assert [row.split()[0] for row in rows] == ["5", "4"]
    assert ["completed" in rows[0], "committed" in rows[1]] == [True, True]


def test_where_no_history_is_kept_it_says_so(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As it is for a query by format("eos")."""
    store(spec.parent / "state")
    assert run_command_line(["status", str(spec)]) == 0
    assert "no history is kept here: the pipeline ran on another machine" in capsys.readouterr().out


def test_the_same_facts_as_json(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(spec.parent / "state")
    assert run_command_line(["status", str(spec), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["completed"], facts["committed"], facts["epoch"]) == (5, 4, 3)
    assert [(c["checkpoint_id"], c["state"], c["rows"], c["records"]) for c in facts["checkpoints"]] == [
        (5, "completed", 90, 100),
        (4, "committed", 90, 100),
    ]
    assert facts["checkpoints"][0]["ranges"] == {"s": [{"split": "t/0", "start": 500, "end": 600}]}


def test_a_pipeline_that_never_ran_and_looking_makes_nothing(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["status", str(spec)]) == 0
    assert "orders has not run yet." in capsys.readouterr().out
    assert [path.name for path in spec.parent.iterdir()] == ["orders.yaml"]


def test_a_damaged_record_is_one_clear_error(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(spec.parent / "state")
    damaged = next((spec.parent / "state" / "records").glob("5-*"))
    damaged.chmod(0o644)
    damaged.write_bytes(b"{}")
    assert run_command_line(["status", str(spec)]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert "Traceback" not in errors
