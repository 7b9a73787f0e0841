"""A start from a savepoint with real files, head and sink: where the new life begins, and what it asks for first.

Spark would only name the steps of the query, and Kafka only tell what can be read; both are given.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from connectors.registry import build_sink
from connectors.spec import Spec, load_spec
from eos.errors import IdentityError, SavepointError, SparkUnavailableError
from spark_jobs.observe.head_reader import read_head
from spark_jobs.operations import from_savepoint
from spark_jobs.operations.from_savepoint import Allowed, Beginning, begin
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.savepoints.plan import Operator, Plan
from spark_jobs.savepoints.take import take
from tests import savepoint_files as files
from tests.savepoint_files import COUNTED, INCARNATION, NEWEST
from twophase.head_value import HeadValue
from twophase.values import StartingPoint

SPEC = """\
pipeline: orders
checkpoint: {location: %s}
sources: [%s]
transforms: [{name: counted, sql: "SELECT count(*) AS value FROM (%s)", output_mode: update}]
sinks: [{name: out, from: counted, connector: sqlite, path: ./out.db, table: t, commit: write-ahead-log}]
"""
SOURCE = "{name: %s, connector: kafka, bootstrap_servers: a, topics: [%s], format: {type: raw}}"
OTHER = Operator("other", "Aggregate", ": max(int)")


class _Source:
    def __init__(self, name: str) -> None:
        self.name = name

    def starting_point(self, known: StartingPoint) -> StartingPoint:
        assert (self.name, known) == ("u", StartingPoint()), "only a source that is new is asked"
        return StartingPoint({"u/0": 3}, {"u": "id of u"})


class _Pipeline:
    """A pipeline that has run, a savepoint of it, and what may be started from that."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = folder
        self._monkeypatch = monkeypatch
        self.sources = ["s"]
        self.operators: tuple[Operator, ...] = (COUNTED,)
        self.told: list[Beginning] = []
        with closing(sqlite3.connect(folder / "out.db")) as database:
            database.execute("CREATE TABLE t (value INTEGER)")

    def savepoint(self, *, done: int = NEWEST) -> Path:
        files.run_until(self.path / "state", done=done)
        spec = files.spec_in(self.path)
        files.keep_plan(self.path / "state", spec)
        return files.folder_of(take(spec, self.path / "kept"))

    def claim(self, incarnation: str = INCARNATION, *, counted: int = NEWEST) -> None:
        """As the drivers of this life have left the sink."""
        spec = self.spec("state")
        with closing(build_sink(spec, spec.sinks[0]).committer("orders")) as committer:
            committer.inspect(incarnation, ())
            committer.claim(incarnation, 3, begins=counted)

    def spec(self, location: str) -> Spec:
        sources = ", ".join(SOURCE % (name, name) for name in self.sources)
        rows = " UNION ALL ".join(f"SELECT value FROM {name}" for name in self.sources)
        path = self.path / f"{location}.yaml"
        path.write_text(SPEC % (location, sources, rows))
        return load_spec(path, {})

    def begin(self, location: str, savepoint: Path, **allowed: bool) -> HeadValue:
        plan = Plan(tuple(self.sources), self.operators, {}, "")
        for name, replaced in {
            "build_source": lambda entry: _Source(entry.name),
            "root_rows": lambda *_: None,
            "plan_of": lambda *_: plan,
            "check_readable": lambda *_: None,
        }.items():
            self._monkeypatch.setattr(from_savepoint, name, replaced)
        spec = self.spec(location)
        begin(spec, cast(Any, None), Allowed(savepoint, **allowed), self.told.append)
        head = read_head(spec)
        assert head is not None
        return head

    def spark(self, location: str, head: HeadValue) -> Path:
        return LocalSparkLog(self.path / location).folder(head.incarnation)


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Pipeline:
    return _Pipeline(tmp_path, monkeypatch)


def test_a_life_begins_with_the_positions_the_query_and_the_state_of_the_savepoint(pipeline: _Pipeline) -> None:
    head = pipeline.begin("next", pipeline.savepoint())
    assert (head.completed, head.committed, head.query_id) == (NEWEST, NEWEST, "query")
    assert (head.initial, head.positions) == ({"s": {"t/0": 0}}, {"s": {"t/0": 100 * (NEWEST + 1)}})
    folder = pipeline.spark("next", head)
    assert (folder / "offsets" / str(NEWEST)).read_text() == files.offsets(NEWEST)
    tables = [f"state/0/{partition}/SSTs/{NEWEST + 1}.sst" for partition in (0, 1)]
    assert all((folder / path).exists() for path in ("metadata", f"commits/{NEWEST}", *tables))
    assert not (folder / ".lock").exists()


def test_a_version_that_runs_no_state_is_refused_before_head_changes(
    pipeline: _Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise SparkUnavailableError("a query with state cannot run", remedy="use another")

    savepoint = pipeline.savepoint()
    monkeypatch.setattr(from_savepoint, "check_version", refuse)
    with pytest.raises(SparkUnavailableError):
        pipeline.begin("next", savepoint)
    assert read_head(pipeline.spec("next")) is None


def test_a_source_that_is_new_begins_where_it_says_and_the_others_where_they_were(pipeline: _Pipeline) -> None:
    savepoint = pipeline.savepoint()
    pipeline.sources = ["s", "u"]
    head = pipeline.begin("next", savepoint)
    assert head.positions == {"s": {"t/0": 100 * (NEWEST + 1)}, "u": {"u/0": 3}}
    assert head.identities["u"] == {"u": "id of u"}
    lines = (pipeline.spark("next", head) / "offsets" / str(NEWEST)).read_text().split("\n")
    assert lines[2:] == [files.offsets(NEWEST).split("\n")[2], "-"]


def test_state_is_left_behind_on_purpose_alone_and_positions_stay(pipeline: _Pipeline) -> None:
    savepoint = pipeline.savepoint()
    pipeline.operators = (OTHER,)
    with pytest.raises(SavepointError, match="the new spec cannot take over state of"):
        pipeline.begin("next", savepoint)
    assert not (pipeline.path / "next" / "spark").exists(), "a refused start has made a folder"
    head = pipeline.begin("next", savepoint, non_restored_state=True)
    assert (head.completed, head.query_id) == (-1, None)
    assert head.positions == {"s": {"t/0": 100 * (NEWEST + 1)}}
    assert not (pipeline.spark("next", head) / "state").exists()


def test_rows_are_written_twice_on_purpose_alone(pipeline: _Pipeline) -> None:
    """The savepoint is one checkpoint older than the pipeline."""
    savepoint = pipeline.savepoint(done=NEWEST - 1)
    pipeline.claim()
    with pytest.raises(IdentityError, match="the sinks hold rows of that already"):
        pipeline.begin("state", savepoint)
    (again,) = pipeline.told[-1].repeated.splits
    assert (again.source, again.split, again.start, again.end) == ("s", "t/0", 100 * NEWEST, 100 * (NEWEST + 1))
    before = read_head(pipeline.spec("state"))
    assert before is not None
    assert (before.incarnation, before.epoch, before.completed) == (INCARNATION, 3, NEWEST), "nothing was changed"
    head = pipeline.begin("state", savepoint, duplicates=True)
    assert (head.completed, head.positions) == (NEWEST - 1, {"s": {"t/0": 100 * NEWEST}})
    assert head.incarnation != INCARNATION
    assert not LocalSparkLog(pipeline.path / "state").folder(INCARNATION).exists(), "nobody needs the old one's"


def test_a_pipeline_that_is_where_the_savepoint_is_goes_on_as_it_is(pipeline: _Pipeline) -> None:
    savepoint = pipeline.savepoint()
    pipeline.claim()
    assert pipeline.begin("state", savepoint).incarnation == INCARNATION
    assert pipeline.told[-1].goes_on


def test_a_pipeline_whose_state_is_lost_gets_that_of_the_savepoint(pipeline: _Pipeline) -> None:
    savepoint = pipeline.savepoint()
    pipeline.claim()
    shutil.rmtree(pipeline.path / "state" / "spark")
    head = pipeline.begin("state", savepoint)
    assert head.incarnation != INCARNATION
    assert (pipeline.spark("state", head) / "state" / "0" / "0" / "SSTs" / f"{NEWEST + 1}.sst").exists()


def test_a_sink_that_was_set_back_to_before_the_savepoint_is_refused(pipeline: _Pipeline) -> None:
    """Without a head nothing else tells that rows of the checkpoints in between are gone."""
    savepoint = pipeline.savepoint()
    pipeline.claim(counted=NEWEST - 1)
    with pytest.raises(IdentityError, match=f"sink out was set back to checkpoint {NEWEST - 1}, and the savepoint"):
        pipeline.begin("next", savepoint, take_over=True, duplicates=True)
    assert read_head(pipeline.spec("next")) is None


def test_a_head_that_was_set_back_to_before_the_savepoint_is_refused(pipeline: _Pipeline) -> None:
    savepoint = pipeline.savepoint()
    pipeline.claim(counted=NEWEST - 1)
    files.set_head_back(pipeline.path / "state")
    with pytest.raises(IdentityError, match=f"orders was set back to checkpoint {NEWEST - 1}, and the savepoint"):
        pipeline.begin("state", savepoint, duplicates=True)


def test_a_folder_that_a_start_was_killed_over_is_taken_away(pipeline: _Pipeline) -> None:
    savepoint = pipeline.savepoint()
    half = pipeline.path / "next" / "spark" / ("h" * 20)
    half.mkdir(parents=True)
    (half / ".lock").touch()  # whoever held it is dead
    (half / "metadata").write_text('{"id":')
    head = pipeline.begin("next", savepoint)
    assert [path.name for path in (pipeline.path / "next" / "spark").iterdir()] == [head.incarnation]
