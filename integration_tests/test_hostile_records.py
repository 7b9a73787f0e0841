"""A record of 900 kB that fails wherever it can: the driver goes on, tells of it in some lines, and answers signals."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Final

import pytest

from integration_tests.harness.letters import letters_of
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_CHARS: Final = 900_000
_SHAPES: Final = ("a", "x://a:", "password=", "aError", "Column(")
"""Each took time that grew with the square of its length, somewhere; the first of them hours."""

_ANSWER_S: Final = 1.0
_TOLD_CHARS: Final = 200_000
"""Of all that a run prints, each restart included: some lines, and no record whole."""

_CAST: Final = (
    "SELECT id, IF(length(word) > 1000, CAST(CAST(word AS BIGINT) AS STRING), word) AS word, payload FROM incoming"
)
"""Fails in Spark, whose error quotes the word whole, and is one that a restart may cure."""


def _hostile(shape: str) -> str:
    return shape * (_CHARS // len(shape))


def _await(condition: Callable[[], bool], process: PipelineProcess, timeout_s: float = 240) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert process.exit_code is None, process.output()[-4000:]
        assert time.monotonic() < deadline, process.output()[-4000:]
        time.sleep(0.2)


def _answers(process: PipelineProcess, state: str) -> None:
    """SIGTERM, and the state that the driver tells of then."""
    sent_s = time.monotonic()
    process.terminate()
    process.await_output(state, timeout_s=60)
    took_s = time.monotonic() - sent_s
    process.succeed()
    assert took_s < _ANSWER_S
    assert len(process.output()) < _TOLD_CHARS


@pytest.mark.timeout(1200)
def test_a_record_that_a_step_fails_at_stops_no_signal(pipeline: Pipeline) -> None:
    pipeline.spec["transforms"][0]["sql"] = _CAST
    pipeline.spec["restart"] = {"strategy": "fixed-delay", "attempts": 5, "delay": "120s"}
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=CHECKPOINT_RECORDS)
    pipeline.workload.produce_bad(json.dumps({"id": -1, "word": _hostile("a"), "payload": ""}))
    pipeline.workload.produce(CHECKPOINT_RECORDS)

    process = pipeline.start(until_caught_up=False)
    process.await_output("restarting in 120.0 s")
    assert "CAST_INVALID_INPUT" in process.output()
    _answers(process, "stopped")
    assert pipeline.table.count() == CHECKPOINT_RECORDS  # nothing of the checkpoint with the record
    assert pipeline.prepared() == []

    pipeline.spec["transforms"][0]["sql"] = "SELECT id, word, payload FROM incoming WHERE length(word) < 1000"
    pipeline.catch_up()
    pipeline.assert_exact(at_least=2 * CHECKPOINT_RECORDS)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("shape", ["Column(", "a"])
def test_a_record_that_does_not_decode_stops_the_pipeline_with_a_message(pipeline: Pipeline, shape: str) -> None:
    pipeline.source["format"]["schema"] += ", amount DECIMAL(9, 2)"
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    offset = pipeline.workload.produce_bad(json.dumps({"id": -1, "amount": _hostile(shape)}))
    process = pipeline.start()
    process.fail(f"partition 0, offset {offset}: field amount: The string '{_hostile(shape)[:400]}")
    assert len(process.output()) < _TOLD_CHARS
    assert pipeline.table.count() == 0
    assert pipeline.prepared() == []


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("decides", ["dead-letter", "skip"])
def test_records_that_are_left_out_stop_no_signal(pipeline: Pipeline, postgres_database: str, decides: str) -> None:
    """Each shape is in a record that does not decode; with `dead_letter` also in a row that the sink refuses."""
    pipeline.source["format"]["schema"] += ", amount DECIMAL(9, 2)"
    letters = letters_of(pipeline, postgres_database) if decides == "dead-letter" else None
    pipeline.source["on_bad_record"] = decides
    bad = [json.dumps({"id": -1, "word": "bad", "amount": _hostile(shape)}) for shape in _SHAPES]
    refused = [json.dumps({"id": -2, "word": _hostile(shape)}) for shape in _SHAPES] if letters is not None else []
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    for value in (*bad, *refused):
        pipeline.workload.produce_bad(value)
    pipeline.workload.produce(CHECKPOINT_RECORDS)

    process = pipeline.start(until_caught_up=False)
    _await(lambda: pipeline.table.count() == 2 * CHECKPOINT_RECORDS, process)
    if letters is not None:
        _await(lambda: letters.count() == 2 * len(_SHAPES), process)
    _answers(process, ": stopping")
    pipeline.assert_exact(at_least=2 * CHECKPOINT_RECORDS)
    if letters is None:
        told = re.findall(r"leaves out (\d+) bad records of source incoming", process.output())
        assert sum(map(int, told)) == len(_SHAPES)
        return
    found = letters.execute("SELECT sink, value, error FROM letters")
    by_sink = {sink: sorted(bytes(value) for at, value, _ in found if at == sink) for sink in (None, "warehouse")}
    assert by_sink[None] == sorted(value.encode() for value in bad)
    words = [json.loads(value)["word"] for value in by_sink["warehouse"]]
    assert sorted(words) == sorted(map(_hostile, _SHAPES))
    assert max(len(error) for _, _, error in found) <= 2_100
