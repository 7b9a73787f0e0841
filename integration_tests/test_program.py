"""`eos.run` in a program: several runs in one process, each continues after the last one, and a stop from outside."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from integration_tests.harness.pipeline_process import child_environment
from spark_jobs.demo.broker import running

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_PROGRAM = Path(__file__).parent / "jobs" / "program.py"
_SPEC = """\
pipeline: program
checkpoint: {location: ./checkpoints, interval: 0s}
spark: {master: "local[2]"}
sources:
  - name: words
    connector: kafka
    bootstrap_servers: ${env:KAFKA}
    topics: [words]
    starting_offsets: earliest
    format: {type: string}
transforms: [{name: values, sql: SELECT value FROM words}]
sinks: [{name: table, from: values, connector: sqlite, path: "${env:DATABASE}", table: words, commit: write-ahead-log}]
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    with running(tmp_path / "broker.log") as address:
        assert address, (tmp_path / "broker.log").read_text()
        yield address


def _produce(broker: str, words: range) -> None:
    producer = Producer({"bootstrap.servers": broker})
    for word in words:
        producer.produce("words", str(word).encode())
    assert producer.flush(60) == 0


def _rows(database: Path) -> list[int]:
    with closing(sqlite3.connect(database)) as connection:
        return sorted(int(word) for (word,) in connection.execute("SELECT value FROM words"))


@pytest.mark.timeout(600)
def test_runs_of_a_program(broker: str, tmp_path: Path) -> None:
    database = tmp_path / "words.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE words (value TEXT)")
    spec = tmp_path / "words.yaml"
    spec.write_text(_SPEC)
    _produce(broker, range(100))
    with (tmp_path / "program.log").open("w") as log:
        program = subprocess.Popen(
            [sys.executable, str(_PROGRAM), str(spec), str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=tmp_path,
            env=child_environment({"KAFKA": broker, "DATABASE": str(database)}),
        )
    assert program.stdin is not None
    assert program.stdout is not None
    said = tmp_path / "program.log"
    try:
        for number in (1, 2, 3):
            if number == 3:
                program.stdin.write("\n")
                program.stdin.flush()
                _produce(broker, range(200, 300))
                while len(_rows(database)) < 300 and program.poll() is None:
                    time.sleep(0.1)
                (tmp_path / "stop").touch()
            assert program.stdout.readline() == f"{number}\n", said.read_text()  # nothing else is printed
            assert _rows(database) == list(range(100 * number)), said.read_text()
            if number == 1:
                _produce(broker, range(100, 200))
            if number != 2:
                program.stdin.write("\n")
                program.stdin.flush()
        assert program.wait(60) == 0, said.read_text()
    finally:
        program.kill()
        program.communicate()
