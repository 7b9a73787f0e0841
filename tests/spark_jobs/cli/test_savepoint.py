"""`eos savepoint` for people and for programs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.cli import command_line, output, run_command_line
from spark_jobs.observe.head_reader import read_head
from spark_jobs.observe.run_lock import present
from tests import savepoint_files as files
from tests.object_store import Bucket


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    files.run_until(tmp_path / "state")
    files.keep_plan(tmp_path / "state", files.spec_in(tmp_path))
    return tmp_path / "orders.yaml"


def facts(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> dict[str, Any]:
    assert run_command_line(["savepoint", *map(str, arguments), "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_taken_shown_looked_into_and_deleted(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert facts(capsys, "list", spec)["savepoints"] == []
    taken = facts(capsys, spec)
    folder = Path(taken["folder"])
    assert folder.parent == spec.parent / "state" / "savepoints"
    assert (taken["checkpoint_id"], taken["pipeline"], taken["later"]) == (5, "orders", 0)
    elsewhere = facts(capsys, "take", spec, spec.parent / "elsewhere")
    assert Path(elsewhere["folder"]).parent == spec.parent / "elsewhere"
    listed = facts(capsys, "list", spec)["savepoints"]
    assert [(each["folder"], each["id"], each["bytes"]) for each in listed] == [
        (taken["folder"], taken["id"], taken["bytes"])
    ]
    found = facts(capsys, "inspect", folder)
    assert (found["ok"], found["damage"], found["positions"]) == (True, [], {"s": {"t/0": 600}})
    assert found["operators"] == [{"step": "counted", "kind": "Aggregate", "state": ": count(int)"}]
    assert (found["versions"]["spark"], "geheim" in json.dumps(found)) == ("4.3.0", False)
    assert facts(capsys, "dispose", folder)["id"] == taken["id"]
    assert not folder.exists()
    assert facts(capsys, "list", spec)["savepoints"] == []


def test_no_value_of_a_savepoint_looks_like_a_line_of_ours(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(facts(capsys, spec)["folder"])
    files.forge(folder, lambda manifest: manifest.update(pipeline="o\nerror: forged"))
    assert facts(capsys, "inspect", folder)["pipeline"] == "o\nerror: forged"
    output.out.as_json = False
    run_command_line(["savepoint", "inspect", str(folder)])
    shown = capsys.readouterr().out
    assert r"o\nerror: forged: checkpoint 5" in shown
    assert not any(line.startswith("error: forged") for line in shown.splitlines())


def test_damage_is_shown_and_is_exit_code_1(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(facts(capsys, spec)["folder"])
    (folder / "head.json").write_bytes(b"{")
    found = facts(capsys, "inspect", folder, code=1)
    assert (found["ok"], len(found["damage"])) == (False, 1)
    output.out.as_json = False
    assert run_command_line(["savepoint", "inspect", str(folder)]) == 1
    assert "DAMAGED  head.json" in capsys.readouterr().out


def test_a_place_that_does_not_exist_is_no_spec(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["savepoint", "list", str(tmp_path / "nowhere")]) == 2
    assert "give a spec, or a folder or URL with savepoints" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("head", ["", ", head: 'postgresql+psycopg://u@127.0.0.1:1/d'"])
def test_a_job_of_the_users_own_takes_no_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], head: str
) -> None:
    """With head in a database the command would wait ten minutes for an answer."""
    spec = tmp_path / "sink.yaml"
    spec.write_text(files.JOB_SPEC.replace("location: state", f"location: state{head}"))
    assert run_command_line(["stop", str(spec)]) == 1
    shown = " ".join(capsys.readouterr().err.split())
    assert (
        "the spec of orders names no sources, and its job takes no requests remedy: stop its query in the job" in shown
    )


def test_a_pipe_in_the_place_of_head_is_not_waited_for(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(facts(capsys, spec)["folder"])
    (folder / "head.json").unlink()
    os.mkfifo(folder / "head.json")
    found = facts(capsys, "inspect", folder, code=1)
    assert (found["positions"], found["damage"]) == (None, ["head.json: not a file"])


def test_for_people(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["savepoint", str(spec)]) == 0
    shown = capsys.readouterr().out
    assert "Savepoint of orders, checkpoint 5" in shown
    folder = next((spec.parent / "state" / "savepoints").iterdir())
    assert str(folder) in shown.replace("\n", "")
    assert run_command_line(["savepoint", "inspect", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "source s goes on at t/0=600" in shown
    assert "state of counted (Aggregate)" in shown
    assert run_command_line(["savepoint", "list", str(spec)]) == 0
    assert folder.name in capsys.readouterr().out.replace("│", "").replace("\n", "").replace(" ", "")


def test_a_savepoint_names_the_checkpoint_that_it_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The pipeline was killed between its last commit and Spark's `commits/5`; or it runs, and goes on."""
    files.run_until(tmp_path / "state", done=files.NEWEST - 1)
    path, loaded = tmp_path / "orders.yaml", files.spec_in(tmp_path)
    assert run_command_line(["savepoint", str(path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Savepoint of orders, checkpoint 4" in shown
    assert "does not hold checkpoint 5: committed in the sinks, and the pipeline ended before Spark marked it" in shown
    assert "run `eos run SPEC --until-caught-up`, and take another one" in shown
    (folder,) = (tmp_path / "state" / "savepoints").iterdir()
    assert run_command_line(["savepoint", "inspect", str(folder)]) == 0
    assert "it does not hold checkpoint 5, decided before it was taken" in capsys.readouterr().out
    with present(loaded, "session"):
        assert run_command_line(["savepoint", str(path)]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "does not hold checkpoint 5: decided, and not yet done everywhere when it was taken" in shown
        assert "until-caught-up" not in shown
        found = facts(capsys, path)
    assert (found["checkpoint_id"], found["later"], found["was_running"]) == (4, 1, True)
    found = facts(capsys, path)
    assert (found["checkpoint_id"], found["later"], found["was_running"]) == (4, 1, False)


def test_options_of_a_start_from_a_savepoint_stand_with_one(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["run", str(spec), "--accept-duplicates"]) == 2
    assert "--from-savepoint" in capsys.readouterr().err


def test_what_the_page_says_to_type(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line of its first block, in order: what needs neither Spark nor a running pipeline is done."""
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "savepoints.md").read_text()
    block = page.partition("```\n")[2].partition("```")[0]
    lines = [line.partition("#")[0].split() for line in block.splitlines()]
    backup, done, named = spec.parent / "backup", [], []
    for _eos, command, *arguments in lines:
        folder = next(backup.iterdir(), backup) if backup.is_dir() else backup
        places = {"orders.yaml": str(spec), "/backup/orders": str(backup), "DIR": str(folder)}
        if command != "savepoint":
            options = {option for each in _command(command).params for option in each.opts}
            assert {each for each in arguments if each.startswith("--")} <= options
            named.append(command)
            continue
        assert run_command_line([command, *(places.get(each, each) for each in arguments)]) == 0, arguments
        done.append(arguments[0])
    assert (done, named) == (["orders.yaml", "list", "inspect", "dispose"], ["stop", "run"])
    assert list(backup.iterdir()) == []
    assert "Deleted" in capsys.readouterr().out


def _command(name: str) -> Any:
    return command_line().commands[name]


def test_in_an_object_store(spec: Path, bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    """With the options that the spec has for its log; by commands that have no spec, with --spec."""
    options = ", ".join(f"{name}: '{value}'" for name, value in bucket.address().options)
    log = f"log: 's3://{bucket.name}/log', log_options: {{{options}}}"
    spec.write_text(files.SPEC.replace("location: state", f"location: state, {log}"))
    url, by = f"s3://{bucket.name}/kept", ("--spec", spec)
    assert facts(capsys, "list", url, *by)["savepoints"] == []
    taken = facts(capsys, spec, f"{url}/")
    assert taken["folder"].startswith(f"{url}/savepoint-bbbbbb-5-")
    assert not any(path.name.endswith(":") for path in spec.parent.iterdir())
    (listed,) = facts(capsys, "list", url, *by)["savepoints"]
    assert (listed["folder"], listed["id"], listed["bytes"]) == (taken["folder"], taken["id"], taken["bytes"])
    found = facts(capsys, "inspect", taken["folder"], *by)
    assert (found["ok"], found["damage"], found["positions"]) == (True, [], {"s": {"t/0": 600}})
    assert run_command_line(["savepoint", "dispose", taken["folder"], "--unfinished", *map(str, by)]) == 1
    assert "it is not unfinished" in capsys.readouterr().out
    assert facts(capsys, "dispose", taken["folder"], *by)["id"] == taken["id"]
    assert bucket.listed() == []
    bucket.write("kept/savepoint-bbbbbb-5-0123456789abcdef/head.json", b"{}")
    (listed,) = facts(capsys, "list", url, *by)["savepoints"]
    assert (listed["is_savepoint"], "unfinished" in listed["why"]) == (False, True)
    facts(capsys, "dispose", listed["folder"], "--unfinished", *by)
    assert bucket.listed() == ["kept/savepoint-bbbbbb-5-0123456789abcdef/manifest.json"]


def test_progress_of_a_transfer_is_shown_beside_the_facts(
    spec: Path, bucket: Bucket, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.savepoints.store_requests._INTERVAL_S", 0.0)
    options = ", ".join(f"{name}: '{value}'" for name, value in bucket.address().options)
    spec.write_text(
        files.SPEC.replace(
            "location: state", f"location: state, log: 's3://{bucket.name}/log', log_options: {{{options}}}"
        )
    )
    assert run_command_line(["savepoint", str(spec), f"s3://{bucket.name}/kept", "--json"]) == 0
    shown = capsys.readouterr()
    taken = json.loads(shown.out)
    assert f"writing {taken['folder']}: " in shown.err
    assert shown.err.count(" bytes\n") > 10
    assert run_command_line(["savepoint", "inspect", taken["folder"], "--spec", str(spec), "--json"]) == 0
    shown = capsys.readouterr()
    assert f"reading {taken['folder']}: {taken['bytes']:,} of {taken['bytes']:,} bytes" in shown.err
    assert json.loads(shown.out)["damage"] == []


def test_one_in_a_store_has_the_options_of_the_spec(
    spec: Path, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ", ".join(f"{name}: '{value}'" for name, value in bucket.address().options)
    log = f"log: 's3://{bucket.name}/log', log_options: {{{options}}}"
    spec.write_text(files.SPEC.replace("location: state", f"location: state, {log}"))
    taken = facts(capsys, "take", spec, f"s3://{bucket.name}/kept")
    assert taken["folder"].startswith(f"s3://{bucket.name}/kept/savepoint-")


@pytest.mark.parametrize(
    "arguments",
    [
        ("savepoint", "SPEC", "s3a://bucket/kept"),
        ("stop", "SPEC", "az://bucket/kept", "--savepoint"),
        ("run", "SPEC", "--from-savepoint", "az://bucket/kept/savepoint-b-5-0"),
        ("savepoint", "list", "http://bucket/kept"),
        ("savepoint", "inspect", "file:/bucket/kept"),
        ("savepoint", "dispose", "az://bucket/kept"),
    ],
    ids=lambda arguments: "-".join(arguments[:2]),
)
def test_a_url_that_is_wrong_is_refused_before_anything_is_done(
    spec: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is stopped or started. As a path it would be a folder of this machine."""
    monkeypatch.chdir(spec.parent)
    assert run_command_line([str(spec) if each == "SPEC" else each for each in arguments]) == 2
    assert "EOS-SPEC" in capsys.readouterr().err
    assert not any(path.name.endswith(":") for path in spec.parent.iterdir())


def test_a_job_is_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, _ = files.run_job(tmp_path)
    taken = facts(capsys, tmp_path / "sink.yaml", tmp_path / "kept")
    assert taken["was_running"] is None, "nothing shows whether a job runs"
    to = ["--checkpoint", f"file://{tmp_path}/spark2"]
    arguments = ["savepoint", "restore", str(tmp_path / "sink.yaml"), taken["folder"], *to]
    assert run_command_line([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["folder"], found["checkpoint_id"]) == (str(tmp_path / "spark2"), files.NEWEST)
    assert found["ended"] == files.INCARNATION
    head = read_head(spec)
    assert head is not None
    assert found["incarnation"] == head.incarnation
    for folder, code, said in ((to[1], 1, "is not empty"), ("s3a://bucket/spark", 2, "is not on a local disk")):
        assert run_command_line([*arguments[:-1], folder, "--json"]) == code
        assert said in json.loads(capsys.readouterr().out)["error"]["message"]
