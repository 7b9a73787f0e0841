"""Lines of the log: their time is in UTC, and each is of a pipeline, whichever thread logs it."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextvars import copy_context
from functools import partial
from io import StringIO
from pathlib import Path
from threading import Thread

import pytest

from spark_jobs.observe.log_lines import JsonLines, TextLines, of_pipeline
from twophase.gather import at_once

_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"

_log = logging.getLogger("eos.of_a_test")


@pytest.fixture(params=[TextLines, JsonLines])
def lines(request: pytest.FixtureRequest) -> Iterator[StringIO]:
    written = StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(request.param())
    _log.addHandler(handler)
    yield written
    _log.removeHandler(handler)


def of(line: str) -> tuple[str | None, str]:
    """Pipeline and message of a line."""
    if line.startswith("{"):
        document = json.loads(line)
        assert re.fullmatch(_TIME, document["time"])
        assert (document["level"], document["logger"]) == ("WARNING", "eos.of_a_test")
        return document.get("pipeline"), document["message"]
    found = re.fullmatch(rf"{_TIME} WARNING eos\.of_a_test(?: \[(.*?)\])?: (.*)", line)
    assert found is not None, line
    return found[1], found[2]


def test_each_line_is_of_the_pipeline_of_its_thread(lines: StringIO) -> None:
    def pipeline(name: str) -> None:
        with of_pipeline(name):
            at_once({sink: partial(_log.warning, "%s of %s", sink, name) for sink in ("a", "b")})

    threads = [Thread(target=copy_context().run, args=(pipeline, f"p{number}")) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    _log.warning("nobody's")
    found = [of(line) for line in lines.getvalue().splitlines()]
    assert found.pop() == (None, "nobody's")
    assert sorted(found) == sorted((f"p{number}", f"{sink} of p{number}") for number in range(8) for sink in "ab")


def test_a_message_of_several_lines_with_its_trace_is_one_object(lines: StringIO) -> None:
    try:
        raise ValueError("a\nb")
    except ValueError:
        _log.warning('says "x"\nand y', exc_info=True)
    text = lines.getvalue()
    assert "ValueError: a" in text
    if text.startswith("{"):
        document = json.loads(text)
        assert text.count("\n") == 1
        assert document["message"] == 'says "x"\nand y'
        assert document["trace"].startswith("Traceback")


@pytest.mark.parametrize("way", ["option", "variable"])
def test_all_that_a_command_says_on_stderr_is_json(tmp_path: Path, way: str) -> None:
    program = [sys.executable, "-c", "from spark_jobs.cli import main; main()", "run", "nothing.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    environment |= {"EOS_LOG_FORMAT": "json"} if way == "variable" else {}
    options = ["--log-format", "json"] if way == "option" else []
    done = subprocess.run(
        [*program, *options], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    documents = [json.loads(line) for line in done.stderr.splitlines()]
    assert documents
    assert "nothing.yaml" in documents[0]["message"]
    assert {each["level"] for each in documents} == {"ERROR"}
