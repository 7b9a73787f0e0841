"""No secret in a log line, from whichever thread, and whoever has set up logging."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from io import StringIO
from pathlib import Path

import pytest

from eos.errors import BadRowError
from spark_jobs.adapters.exactly_once import ExactlyOnce
from spark_jobs.cli import logs, output
from spark_jobs.observe.log_lines import MASKING

PASSWORD = "s3cr$t-p4ss"
SPEC = """\
pipeline: p
checkpoint: {location: state}
sinks: [{name: s, connector: mysql, url: "mysql+pymysql://u:${env:PASSWORD}@h/d", table: t, commit: two-phase}]
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PASSWORD", PASSWORD)
    ours = logging.getLogger("eos")
    monkeypatch.setattr(ours, "handlers", [])
    monkeypatch.setattr(ours, "propagate", True)
    monkeypatch.setattr(ours, "level", logging.INFO)
    monkeypatch.setattr(MASKING, "secrets", frozenset())
    path = tmp_path / "sink.yaml"
    path.write_text(SPEC)
    return path


def _tell() -> None:
    """As a thread does that commits in a sink."""
    try:
        raise ValueError(PASSWORD)
    except ValueError as error:
        logging.getLogger("eos.backlog").warning("sink s: %s refuses %s", "h", error, exc_info=True)


def _tell_in_a_thread() -> None:
    thread = threading.Thread(target=_tell)
    thread.start()
    thread.join()


def _check(shown: str) -> None:
    assert "sink s: h refuses ***" in shown
    assert "ValueError: ***" in shown
    assert PASSWORD not in shown


def test_of_a_job_of_ones_own_with_its_own_logging(spec: Path) -> None:
    stream, root = StringIO(), logging.getLogger()
    handler = logging.StreamHandler(stream)
    root.addHandler(handler)
    try:
        ExactlyOnce(spec)
        ExactlyOnce(spec)
        _tell_in_a_thread()
    finally:
        root.removeHandler(handler)
    _check(stream.getvalue())
    assert stream.getvalue().count("sink s:") == 1


def test_of_a_job_without_any_logging_it_is_said_as_python_says_it(spec: Path) -> None:
    """pytest has handlers of its own: a process without."""
    module = "from tests.spark_jobs.observe import test_masked_log as it"
    lines = f"{module}; it.ExactlyOnce('sink.yaml'); it._tell_in_a_thread()"
    project = str(Path(__file__).parents[3])
    environment = {"PASSWORD": PASSWORD, "PYTHONPATH": project}
    command = [sys.executable, "-c", lines]
    done = subprocess.run(command, cwd=spec.parent, env=environment, capture_output=True, text=True, check=True)
    _check(done.stderr)
    assert done.stderr.count("sink s:") == 1


def test_of_a_command(spec: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.out, "_secrets", frozenset())
    output.out.load(spec)
    logs.log_to_stderr()
    _tell_in_a_thread()
    shown = capsys.readouterr().err
    _check(shown)
    assert " WARNING eos.backlog: sink s: " in shown


def test_no_line_of_a_stack_trace_looks_like_one_of_the_log(
    spec: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.out, "_secrets", frozenset())
    output.out.load(spec)
    logs.log_to_stderr()
    error = ValueError("bad value '\n2026-11-22 10:00:00,000 INFO eos.runner: all is well'")
    logging.getLogger("eos.savepoint").error("the savepoint failed", exc_info=error)
    first, *others = capsys.readouterr().err.splitlines()
    assert first.endswith(" ERROR eos.savepoint: the savepoint failed")
    assert others[-1] == "    2026-11-22 10:00:00,000 INFO eos.runner: all is well'"
    assert all(line.startswith(("Traceback", "ValueError", "    ")) for line in others)


@pytest.mark.parametrize("kind", [BadRowError, RuntimeError])
@pytest.mark.parametrize("debug", [False, True])
def test_no_line_of_an_error_that_a_command_prints_looks_like_one_of_the_log(
    kind: type[Exception], debug: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL quotes a value as it is: a record could tell of a checkpoint that there never was."""
    monkeypatch.setattr(output.out, "debug", debug)
    forged = "2026-11-22T10:00:00.000Z INFO eos.checkpoint [orders]: pipeline=orders state=committed"
    error = kind(f"the server refused row 1: invalid input: 'a\n{forged}\nerror: b'")
    if isinstance(error, BadRowError):
        output.out.error(error)
    else:
        output.out.unexpected(kind, error, None)
    lines = capsys.readouterr().err.splitlines()
    assert f"    {forged}" in lines
    assert "    error: b'" in lines
    begun = [line.partition(":")[0] for line in lines if not line.startswith("  ")]
    assert set(begun) <= {"error", "RuntimeError", "eos.errors.BadRowError"}, lines


def test_a_second_spec_leaves_the_secrets_of_the_first_masked(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`eos run a.yaml b.yaml` has one log for both."""
    monkeypatch.setattr(output.out, "_secrets", frozenset())
    output.out.load(spec)
    monkeypatch.setenv("PASSWORD", "another-p4ss")
    output.out.load(spec)
    stream, root = StringIO(), logging.getLogger()
    root.addHandler(handler := logging.StreamHandler(stream))
    try:
        _tell_in_a_thread()
        logging.getLogger("eos.backlog").warning("and %s", "another-p4ss")
    finally:
        root.removeHandler(handler)
    _check(stream.getvalue())
    assert "and ***" in stream.getvalue()


_RAISE = """
import sys
from types import SimpleNamespace
from pyspark.errors import PySparkException
from spark_jobs.cli.program import _levels_kept
from spark_jobs.session.spark_session import silence_pyspark

class Captured(PySparkException):
    def __init__(self, kind):
        of = SimpleNamespace(name=kind)
        call = dict(contextType=lambda: of, callSite=lambda: "a:1", fragment=lambda: "f")
        super().__init__(f"{kind}: s3cr$t-p4ss", contexts=[SimpleNamespace(**call)])
        self._log_exception()

if "program" in sys.argv:
    with _levels_kept():
        silence_pyspark(debug=False)
if "silent" in sys.argv:
    silence_pyspark(debug="debug" in sys.argv)
Captured("SQL"), Captured("DataFrame")
"""


@pytest.mark.parametrize(
    ("arguments", "lines"), [((), 2), (("silent",), 0), (("silent", "debug"), 0), (("program",), 2)]
)
def test_spark_shows_no_error_by_itself(tmp_path: Path, arguments: tuple[str, ...], lines: int) -> None:
    """Without that it does: with the statement, whose text holds what `${…}` stood for, and with the record's value.

    After `eos.run`, queries of the program's own show their errors.
    """
    environment = {"PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", _RAISE, *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.count(PASSWORD) == lines
