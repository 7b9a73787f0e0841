"""`eos reset` for programs, and what it clears away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from spark_jobs.cli import run_command_line
from spark_jobs.observe.history.store import History
from spark_jobs.query.spark_log import LocalSparkLog
from tests.spark_jobs.cli.test_status import INCARNATION, store


def run(capsys: pytest.CaptureFixture[str], spec: Path, *options: str) -> tuple[int, dict[str, object]]:
    code = run_command_line(["reset", str(spec), "--json", *options])
    return code, json.loads(capsys.readouterr().out)


def test_what_would_happen(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(spec.parent / "state")
    code, facts = run(capsys, spec)
    assert (code, facts["ok"], facts["done"], facts["pipeline"]) == (0, True, False, "orders")
    assert "completed checkpoint 5" in str(facts["consequence"])
    assert len(list((spec.parent / "state" / "head").iterdir())) == 1, "nothing was changed"


def test_what_would_happen_where_the_pipeline_never_ran(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = run(capsys, spec)
    assert (code, facts["ok"], facts["done"]) == (0, True, False)
    assert "never ran here" in str(facts["consequence"])
    assert not (spec.parent / "state").exists(), "looking has created a folder"


def test_a_new_life_and_nothing_left_of_the_old_one(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = run(capsys, spec, "--yes")
    assert (code, facts["done"], facts["epoch"], facts["ended"], facts["abandoned"]) == (0, True, 1, None, [])
    state = spec.parent / "state"
    folder = state / "spark" / str(facts["incarnation"])
    (folder / "offsets").mkdir(parents=True)
    code, after = run(capsys, spec, "--yes")
    assert (code, after["ended"], after["left"]) == (0, facts["incarnation"], None)
    assert not folder.exists()
    second, first = History.at(state).events(kinds=["reset"])
    assert "it never ran here" in first.message
    assert f"incarnation {facts['incarnation']} ended at checkpoint -1" in second.message
    assert second.message.endswith(f"{after['incarnation']} begins at starting_offsets")


def test_damage_in_sparks_checkpoint_is_what_a_reset_cures(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(spec.parent / "state")
    folder = spec.parent / "state" / "spark" / INCARNATION
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text("{half")
    assert LocalSparkLog(spec.parent / "state").state(INCARNATION).query_id == (
        f"unknown, since {folder / 'metadata'} is damaged: "
        "JSONDecodeError('Expecting property name enclosed in double quotes: line 1 column 2 (char 1)')"
    )
    next((spec.parent / "state" / "records").glob("5-*")).unlink()
    assert run(capsys, spec, "--yes", "--abandon-lost")[0] == 0


def test_what_is_given_up(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = spec.parent / "state"
    store(state)
    next((state / "records").glob("5-*")).unlink()
    (state / "spark" / INCARNATION / "offsets").mkdir(parents=True)
    code, facts = run(capsys, spec, "--yes")
    error = facts["error"]
    assert isinstance(error, dict)
    assert (code, facts["ok"], error["kind"]) == (1, False, "LostCommittableError")
    assert "checkpoint 5 in out" in error["message"]
    assert "--abandon-lost" in error["remedy"]

    code, facts = run(capsys, spec, "--yes", "--abandon-lost")
    assert (code, facts["ended"], facts["left"]) == (0, INCARNATION, str(state / "spark" / INCARNATION))
    given_up = cast("list[dict[str, object]]", facts["abandoned"])  # the sink knows nothing of this pipeline
    (abandoned,) = (each for each in given_up if each["checkpoint_id"] == 5)
    assert (abandoned["checkpoint_id"], abandoned["sinks"], abandoned["is_exact"]) == (5, ["out"], False)
    assert not list((state / "records").iterdir())
    (told,) = History.at(state).events(kinds=["reset"])
    assert f"{facts['incarnation']} begins at starting_offsets; given up: checkpoint 0 in out: " in told.message
    assert "; given up: checkpoint 5 in out: " in told.message


def test_what_is_given_up_is_told_to_people_too(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(spec.parent / "state")
    next((spec.parent / "state" / "records").glob("5-*")).unlink()
    assert run_command_line(["reset", str(spec), "--yes", "--abandon-lost"]) == 0
    printed = capsys.readouterr()
    assert "Given up: checkpoint 5 in out" in printed.out.replace("\n", " ")
    assert "WARNING eos.protocol: given up: checkpoint 5 in out" in printed.err, "said before it is done"
