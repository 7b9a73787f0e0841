"""The command line: exit codes, one clear message per error, JSON for programs, and no secret anywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
import typer

from eos.errors import SinkUnavailableError, link_of
from spark_jobs.cli import run_command_line
from spark_jobs.cli.app import FIRST_STEPS, MOVE, REPAIR, RUN, command_line
from spark_jobs.cli.catalogue import CATALOGUE
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
    assert lines[3] == f"  EOS-SPEC: {link_of('EOS-SPEC')}"
    assert len(lines) == 4
    assert_clean(errors)


def test_a_wrong_spec_as_json_is_one_object_on_stdout(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec.write_text(SPEC.replace("interval: 2s", "intervl: 2s"))
    assert run_command_line(["validate", str(spec), "--json"]) == 2
    shown, errors = capsys.readouterr()
    error = json.loads(shown)["error"]
    assert (error["code"], error["link"]) == ("EOS-SPEC", link_of("EOS-SPEC"))
    (mistake,) = error["mistakes"]
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


def _commands(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, inner in getattr(command, "commands", {}).items():
        yield (*words, name), inner
        yield from _commands((*words, name), inner)


def test_the_help_of_each_command_has_examples_and_no_type_of_a_flag() -> None:
    root = command_line()
    found = dict(_commands((), root))
    assert len(found) > 25
    for words, command in ((), root), *found.items():
        context = typer.Context(command, info_name=" ".join(words), **command.context_settings)
        flags = [each for each in command.get_params(context) if getattr(each, "is_flag", False)]
        assert flags, words
        assert {each.metavar for each in flags} == {""}, words
        assert not words or "Examples:\n" in command.help, words


def test_each_command_is_in_one_group_as_the_reference_lists_them() -> None:
    groups: dict[str, list[str]] = {}
    for name, command in command_line().commands.items():
        groups.setdefault(command.rich_help_panel, []).append(name)
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    sections = dict(re.findall(r"^## (.+)\n\n\| command \|.*\n((?:\|.*\n)+)", page, re.MULTILINE))
    listed = {group: re.findall(r"^\| `eos ([\w-]+)", rows, re.MULTILINE) for group, rows in sections.items()}
    assert list(listed) == [FIRST_STEPS, RUN, MOVE, REPAIR]
    assert {group: sorted(names) for group, names in listed.items()} == {g: sorted(n) for g, n in groups.items()}


@pytest.mark.parametrize(
    ("typed", "completed"), [("eos do", "doctor"), ("eos stop --s", "--savepoint"), ("eos dead-letters re", "replay")]
)
def test_a_shell_completes_commands_and_options(typed: str, completed: str) -> None:
    done = eos(_EOS_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(len(typed.split()) - 1))
    assert (done.stdout.split(), done.stderr) == ([completed], "")


def test_explain_prints_the_section_of_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explain", "eos-unknown-topic"]) == 0
    shown = capsys.readouterr().out
    assert "A topic, or one of its partitions, does not exist." in shown
    assert "Correct `topics` or `bootstrap_servers`." in shown
    assert link_of("EOS-UNKNOWN-TOPIC") in shown
    assert run_command_line(["explain"]) == 0
    assert capsys.readouterr().out.count("EOS-") >= len(CATALOGUE)
    assert run_command_line(["explain", "EOS-UNKNOWN-TOPC"]) == 2
    assert "did you mean EOS-UNKNOWN-TOPIC?" in capsys.readouterr().err
    assert run_command_line(["explain", "EOS-UNKNOWN-TOPIC", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["code"] == "EOS-UNKNOWN-TOPIC"


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


def test_validate_answers_at_once_and_without_spark_a_database_driver_or_another_command(spec: Path) -> None:
    code = (
        "import sys, time; from spark_jobs.cli import run_command_line\n"
        f"code = run_command_line(['validate', {str(spec)!r}])\n"
        "heavy = ('pyspark', 'sqlalchemy', 'pymysql', 'confluent_kafka', 'pandas', 'obstore')\n"
        "others = ('demo', 'doctor', 'run_command', 'status', 'submit', 'ui', 'dead_letters')\n"
        "heavy += tuple(f'spark_jobs.cli.{name}' for name in others)\n"
        "print(time.process_time(), code, [name for name in heavy if name in sys.modules])"
    )
    variables = {**os.environ, **ENVIRON, "PYTHONPATH": str(ROOT)}
    took_s = []
    for _ in range(3):  # a machine that does other things, too, makes a process slower by its own clock
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables, check=True)
        cpu_s, _, rest = done.stdout.splitlines()[-1].partition(" ")
        assert rest == "0 []"
        took_s.append(float(cpu_s))
    assert min(took_s) < 2, "1.1 s are usual, nearly all for imports"


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
        f"  EOS-SINK-UNAVAILABLE: {link_of('EOS-SINK-UNAVAILABLE')}",
        "error: unexpected ValueError: bad ***",
        "  remedy: run it again with --debug, and report what it prints",
        f"  EOS-UNEXPECTED: {link_of('EOS-UNEXPECTED')}",
        "ValueError: bad ***",
    ]
