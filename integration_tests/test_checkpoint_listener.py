"""A listener in Python is called for each checkpoint of a real run, also after a kill between visible and called."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from integration_tests.harness.faults import Faults
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_PROGRAM = """
import sys
import eos

class Listener:
    def on_checkpoint_completed(self, checkpoint):
        with open(sys.argv[2], "a") as file:
            print(checkpoint.checkpoint_id, checkpoint.rows["warehouse"], file=file, flush=True)

eos.run(sys.argv[1], until_caught_up=True, listener=Listener())
"""


def _called(file: Path) -> list[tuple[int, int]]:
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(number), int(rows)) for number, rows in map(str.split, lines)]


def _start(pipeline: Pipeline, file: Path, *arm: str) -> PipelineProcess:
    """Start a program that runs the pipeline with a listener."""
    number = len(pipeline.processes)
    faults = Faults(pipeline.folder / f"faults-{number}")
    for stem in arm:
        faults.arm(stem)
    arguments = [str(pipeline.write_spec()), str(file)]
    log = pipeline.folder / f"program-{number}.log"
    program = ("-c", _PROGRAM)
    process = PipelineProcess(arguments, pipeline.folder, log, faults, pipeline.environment, program)
    pipeline.processes.append(process)
    return process


@pytest.mark.timeout(900)
def test_a_kill_between_visible_and_called(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.workload.produce(4 * CHECKPOINT_RECORDS)
    file = tmp_path / "called"
    process = _start(pipeline, file, "listening@1")
    process.await_point("listening@1")
    assert pipeline.head.committed >= 1
    assert pipeline.table.count() >= 2 * CHECKPOINT_RECORDS
    assert [number for number, _ in _called(file)] == [0]
    process.kill()
    _start(pipeline, file).succeed()
    pipeline.assert_exact(at_least=4 * CHECKPOINT_RECORDS)
    called = dict(_called(file))
    assert sorted(called) == [*range(pipeline.head.completed + 1)]
    assert sum(called.values()) == 4 * CHECKPOINT_RECORDS


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/secretpath", got
        server.shutdown()
        thread.join()


@pytest.mark.timeout(900)
def test_a_run_sends_its_failure_and_a_change_of_schema(
    pipeline: Pipeline, endpoint: tuple[str, list[dict[str, Any]]]
) -> None:
    url, got = endpoint
    pipeline.spec["restart"] = {"strategy": "none"}
    pipeline.spec["notifications"] = [{"name": "chat", "url": url}]
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    assert got == []
    (step,) = pipeline.spec["transforms"]
    step["sql"] = "SELECT id, word FROM incoming"
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    process = pipeline.start()
    process.wait()
    assert got[0]["event"] == "schema-change"
    assert "column payload string is missing" in got[0]["message"]
    pipeline.workload.produce_bad("no JSON")
    process = pipeline.start()
    process.wait()
    assert got[-1]["event"] == "failure"
    assert got[-1]["facts"]["error"] == "BadRecordError"
    assert "secretpath" not in process.output()
