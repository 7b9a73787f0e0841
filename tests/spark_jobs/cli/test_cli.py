"""The command line: exit codes, one clear message per error, JSON for programs, and no secret anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from eos.errors import SinkUnavailableError
from spark_jobs.cli import run_command_line
from spark_jobs.cli.output import Output

PASSWORD = "correct-horse-battery"
SPEC = """\
pipeline: orders
checkpoint: {location: state, interval: 2s}
sources:
  - {name: s, connector: kafka, bootstrap_servers: "${BROKER}", topics: [t], format: {type: json, schema: "a INT"}}
transforms: [{name: "b", sql: "SELECT '${PASSWORD}' AS `[bold]` FROM s"}]
sinks:
  - {name: out, from: b, connector: mysql, url: "mysql+pymysql://u:${PASSWORD}@h/d", table: t, commit: two-phase}
"""
ROOT = Path(__file__).parents[3]
ENVIRON = {"BROKER": "broker-1.internal:9092", "PASSWORD": PASSWORD}
EOS = [sys.executable, "-c", "from spark_jobs.cli import main; main()"]


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "orders.yaml"
    path.write_text(SPEC)
    return path


def eos(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as a user calls it."""
    variables = {**os.environ, **ENVIRON, "PYTHONPATH": str(ROOT), **environ}
    return subprocess.run(
        [*EOS, *map(str, arguments)], capture_output=True, text=True, env=variables, timeout=60, check=False
    )


def assert_clean(*texts: str) -> None:
    for text in texts:
        assert PASSWORD not in text, text


def test_validate_prints_plan_and_guarantee(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["validate", str(spec)]) == 0
    shown, errors = capsys.readouterr()
    assert errors == ""
    for part in ("orders: exactly-once", "source s: kafka", "step b: sql", "[bold]", "sink out from b", "guarantee"):
        assert part in shown
    assert "mysql+pymysql://u:***@h/d" in shown
    assert_clean(shown)


def test_validate_reads_stdin(spec: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(SPEC.encode())))
    assert run_command_line(["validate", "-"]) == 0
    assert "checkpoint every 2 s" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(SPEC.replace("commit:", "comit:").encode())))
    assert run_command_line(["validate", "-"]) == 2
    shown = capsys.readouterr().err
    assert "error: -:7: sinks[0].comit: unknown key 'comit'; did you mean 'commit'?" in shown
    assert_clean(shown)


def test_validate_prints_the_same_facts_as_json(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["validate", str(spec), "--json"]) == 0
    shown = capsys.readouterr().out
    facts = json.loads(shown)
    assert (facts["ok"], facts["pipeline"], facts["sinks"][0]["commit"]) == (True, "orders", "two-phase")
    assert facts["guarantees"][0]["promise"].startswith("exactly-once")
    assert_clean(shown)


def test_a_wrong_spec_is_exit_code_2_with_every_mistake_on_a_line(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec.write_text(SPEC.replace("interval: 2s", "intervl: 2s").replace("table: t", "table: 7"))
    assert run_command_line(["validate", str(spec)]) == 2
    shown, errors = capsys.readouterr()
    assert shown == ""
    lines = errors.splitlines()
    assert lines[1].startswith(
        f"{spec}:2: checkpoint.intervl: unknown key 'intervl'; did you mean 'interval'? allowed: "
    )
    assert lines[2] == f"{spec}:7: sinks[0].table: wrong type: 7 (a number); write it in quotes; allowed: text"
    assert len(lines) == 3
    assert_clean(errors)


def test_a_wrong_spec_as_json_is_one_object_on_stdout(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec.write_text(SPEC.replace("interval: 2s", "intervl: 2s"))
    assert run_command_line(["validate", str(spec), "--json"]) == 2
    shown, errors = capsys.readouterr()
    (mistake,) = json.loads(shown)["error"]["mistakes"]
    assert (mistake["path"], mistake["line"], mistake["suggestion"]) == ("checkpoint.intervl", 2, "interval")
    assert errors == ""


@pytest.mark.parametrize("command", ["validate", "doctor", "run", "status"])
def test_every_command_refuses_a_missing_file_alike(
    spec: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line([command, str(spec.with_name("none.yaml"))]) == 2
    errors = capsys.readouterr().err
    assert "none.yaml: cannot be read: No such file or directory" in errors
    assert "remedy: " in errors


@pytest.mark.parametrize("arguments", [["valid"], ["validate"], ["validate", "a", "b"], ["validate", "a", "--what"]])
def test_wrong_usage_is_exit_code_2(spec: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["validate", "--help"], ["doctor", "-h"], ["run", "-h"]])
def test_help_teaches_by_example(spec: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(arguments) == 0
    assert "eos " in capsys.readouterr().out


def test_debug_adds_the_stack_trace_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(SPEC.replace("table: t", "table: 7"))
    for arguments, environ in ((["validate", path, "--debug"], {}), (["validate", path], {"EOS_DEBUG": "1"})):
        done = eos(*arguments, **environ)
        assert done.returncode == 2
        assert "Traceback" in done.stderr
        assert_clean(done.stdout, done.stderr)
    plain = eos("validate", path)
    assert (plain.returncode, "Traceback" in plain.stderr) == (2, False)


def test_validate_answers_at_once_and_without_spark_or_a_database_driver(spec: Path) -> None:
    code = (
        "import sys, time; from spark_jobs.cli import run_command_line\n"
        f"code = run_command_line(['validate', {str(spec)!r}])\n"
        "heavy = ('pyspark', 'sqlalchemy', 'pymysql', 'confluent_kafka', 'pandas', 'obstore')\n"
        "print(time.process_time(), code, [name for name in heavy if name in sys.modules])"
    )
    variables = {**os.environ, **ENVIRON, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables, check=True)
    cpu_s, _, rest = done.stdout.splitlines()[-1].partition(" ")
    assert rest == "0 []"
    assert float(cpu_s) < 2, "0.4 s on an idle machine; a clock would count what others do there"


def test_a_terminal_of_another_alphabet_is_no_reason_to_fail(spec: Path) -> None:
    spec.write_text(SPEC.replace("pipeline: orders", "pipeline: 注文 → ☂"))
    done = eos("validate", spec, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 0, done.stderr


def test_an_error_is_masked_also_where_nobody_foresaw_it(
    spec: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Output()
    out.load(spec)
    out.error(SinkUnavailableError(f"cannot log in with {PASSWORD}", remedy=f"not with {PASSWORD}"))
    out.unexpected(ValueError, ValueError(f"bad {PASSWORD}"), None)
    monkeypatch.setattr(out, "debug", True)
    out.unexpected(ValueError, ValueError(f"bad {PASSWORD}"), None)
    out.console().print(f"{PASSWORD} [x]")
    shown, errors = capsys.readouterr()
    assert shown == "*** [x]\n"
    assert errors.splitlines() == [
        "error: cannot log in with ***",
        "  remedy: not with ***",
        "error: unexpected ValueError: bad ***",
        "  remedy: run it again with --debug, and report what it prints",
        "ValueError: bad ***",
    ]
