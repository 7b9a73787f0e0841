"""`eos rescale` before it starts Spark: what it says of a real checkpoint location, and what it refuses."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from connectors.registry import open_requests
from connectors.spec import load_spec
from eos.errors import IdentityError
from spark_jobs.cli import rescale, run_command_line
from spark_jobs.observe.head_reader import read_head
from spark_jobs.observe.run_lock import alone, present
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.run.known_sinks import KnownSink, KnownSinks
from tests.project.test_golden_location import LOCATION, SPEC
from tests.twophase_values import head
from twophase.documents import LocalDocuments


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """Checkpoint 2 is completed, with state in 2 partitions, and Spark has not committed it."""
    shutil.copytree(LOCATION, tmp_path / "checkpoints")
    path = tmp_path / "pipeline.yaml"
    path.write_text(SPEC)
    return path


def _spark(spec: Path) -> Path:
    (folder,) = (spec.parent / "checkpoints" / "spark").iterdir()
    return folder


def _begin(spec: Path, partitions: int) -> None:
    """What Spark writes first."""
    offsets = _spark(spec) / "offsets"
    before = (offsets / "2").read_text()
    after = before.replace('"spark.sql.shuffle.partitions":"2"', f'"spark.sql.shuffle.partitions":"{partitions}"')
    assert after != before
    (offsets / "3").write_text(after)


def _said(spec: Path, partitions: int, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    code = run_command_line(["rescale", str(spec), "--state-partitions", str(partitions), "--json"])
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == (0 if facts["ok"] else 1), facts
    return facts


def test_a_path_that_spark_does_not_find_is_told_beforehand(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (spec.parent / "checkpoints").rename(spec.parent / "check points")
    spec.write_text(SPEC.replace("location: checkpoints", "location: check points"))
    assert run_command_line(["rescale", str(spec), "--state-partitions", "4"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert ("it does not find a path with ' '" in told, "--from-savepoint" in told) == (True, True)


@pytest.mark.parametrize(
    ("begun", "wanted", "what"),
    [(None, 4, "rescale"), (None, 1, "rescale"), (None, 2, "nothing"), (4, 4, "finish"), (4, 2, "take back")],
)
def test_it_says_what_it_would_do_and_does_nothing(
    spec: Path, capsys: pytest.CaptureFixture[str], begun: int | None, wanted: int, what: str
) -> None:
    if begun is not None:
        _begin(spec, begun)
    before = sorted((path, path.read_bytes()) for path in LocalSparkLog(spec.parent).location.rglob("*.json"))
    facts = _said(spec, wanted, capsys)
    assert {key: facts[key] for key in ("what", "before", "after", "completed", "done")} == {
        "what": what,
        "before": 2,
        "after": wanted,
        "completed": 2,
        "done": False,
    }
    assert facts["state_bytes"] == sum(p.stat().st_size for p in (_spark(spec) / "state").rglob("*") if p.is_file())
    after = sorted((path, path.read_bytes()) for path in LocalSparkLog(spec.parent).location.rglob("*.json"))
    assert after == before


def test_it_is_refused_while_the_pipeline_runs_or_another_one_is_under_way(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = load_spec(spec, {})
    with present(loaded, "session"):
        facts = _said(spec, 4, capsys)
    assert "eos-golden runs, as process" in facts["error"]["message"]
    with alone(loaded, "rescale"):
        facts = _said(spec, 4, capsys)
        assert "another `eos rescale` of eos-golden is under way" in facts["error"]["message"]
        with pytest.raises(IdentityError), alone(loaded, "rescale"):
            pass
    assert _said(spec, 4, capsys)["ok"]


def test_a_pause_that_keeps_the_interrupted_batch_from_its_end(
    spec: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run would take the pause up, and never end."""
    monkeypatch.setattr(rescale, "_rescale", lambda *_: pytest.fail("it would hang"))
    loaded = load_spec(spec, {})
    with open_requests(loaded) as channel:
        channel.pause("ann")
        assert run_command_line(["rescale", str(spec), "--state-partitions", "4", "--yes"]) == 1
        told = capsys.readouterr().err
        assert ("is paused, and its interrupted batch" in told, "eos resume" in told) == (True, True)
        assert _said(spec, 2, capsys)["what"] == "nothing"
        (_spark(spec) / "commits" / "2").write_text("v2\n{}")  # no batch is interrupted
        assert _said(spec, 4, capsys)["what"] == "rescale"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "sources:",
            "spark: {conf: {spark.sql.shuffle.partitions: 3}}\nsources:",
            "has spark.sql.shuffle.partitions: 3",
        ),
        ("location: checkpoints", "location: elsewhere", "has completed no checkpoint yet"),
    ],
)
def test_a_spec_that_does_not_fit_is_refused(
    spec: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    spec.write_text(SPEC.replace(old, new))
    assert run_command_line(["rescale", str(spec), "--state-partitions", "4"]) == 2
    assert said in capsys.readouterr().err
    assert not (spec.parent / "elsewhere").exists(), "looking has made a folder"


def test_state_that_cannot_be_divided_is_refused_before_spark_plans(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = _spark(spec) / "state" / "0" / "_metadata" / "metadata"
    metadata.write_text(metadata.read_text().replace("stateStoreSave", "globalLimit"))
    assert run_command_line(["rescale", str(spec), "--state-partitions", "4"]) == 2
    assert "a step has a LIMIT" in capsys.readouterr().err
    shutil.rmtree(_spark(spec) / "state")
    assert run_command_line(["rescale", str(spec), "--state-partitions", "4"]) == 2
    assert "the pipeline keeps no state" in capsys.readouterr().err


def test_only_a_rescale_that_spark_has_not_committed_is_taken_back(spec: Path) -> None:
    log, life = LocalSparkLog(spec.parent / "checkpoints"), _spark(spec).name
    log.drop_plan(life, 2)
    assert log.state(life).newest_planned == 2, "a plan of a batch that reads was dropped"
    _begin(spec, 4)
    (_spark(spec) / "commits" / "3").write_text("v2\n{}")
    log.drop_plan(life, 3)
    assert log.state(life).rescaled_to == 4
    (_spark(spec) / "commits" / "3").unlink()
    log.drop_plan(life, 3)
    assert (log.state(life).newest_planned, log.state(life).rescaled_to) == (2, None)


class _Gone:
    """Spark, whose JVM has gone away."""

    def stop(self) -> None:
        """Nothing is left of it."""

    @property
    def _jsparkSession(self) -> object:  # noqa: N802 Spark's name
        raise ConnectionError("no JVM")


def test_a_sink_may_have_the_slots_of_the_spec_before_a_rescale_claims_it(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H32: its permit gives the sink as many. A start without the sink, of a spec with the number of before, would
    write for slots that the sink has no more: some of its slots would stand still, and no start could follow."""
    location, life = spec.parent / "checkpoints", _spark(spec).name
    (_spark(spec) / "commits" / "2").write_text("v1\n{}")  # at rest
    with closing(sqlite3.connect(spec.parent / "sink.db")) as database:
        database.execute("CREATE TABLE records (id INTEGER)")
    kept = KnownSinks(LocalDocuments(location))
    kept.keep(life, "warehouse", KnownSink(1, frozenset({3}), "its columns"))
    monkeypatch.setattr("spark_jobs.session.spark_session.spark_session", lambda *_, **__: _Gone())
    assert run_command_line(["rescale", str(spec), "--state-partitions", "4", "--yes"]) == 1
    both = KnownSink(2, frozenset({1, 3}), "its columns")  # a sink of SQLite has one slot
    assert kept.read(life, "warehouse") == both
    now = read_head(load_spec(spec))
    assert now is not None
    assert not kept.finding(now, "warehouse").ok
    kept.keep(life, "warehouse", KnownSink(1, frozenset({3}), "a start that was held up"))
    assert kept.read(life, "warehouse") == both


def test_of_a_sink_that_each_start_needs_a_rescale_keeps_nothing(tmp_path: Path) -> None:
    kept, following = KnownSinks(LocalDocuments(tmp_path)), head()
    kept.announce_slots(following, "warehouse", frozenset({4}))
    assert kept.read(following.incarnation, "warehouse") is None
    kept.keep(following.incarnation, "warehouse", KnownSink(1, frozenset({2}), "x"))
    (path,) = (tmp_path / "sinks" / following.incarnation).iterdir()
    path.write_bytes(b"{}")
    kept.announce_slots(following, "warehouse", frozenset({4}))
    assert [path.read_bytes()] == [each.read_bytes() for each in path.parent.iterdir()]
