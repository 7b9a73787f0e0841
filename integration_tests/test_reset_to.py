"""`eos reset --to` on real servers: what is announced for each split is what is then in the table, to the row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.kafka.splits import as_offset
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_FIRST, _UNREAD, _LATER = 2 * CHECKPOINT_RECORDS, 300, 100


@pytest.fixture
def eos(tmp_path: Path) -> Iterator[CommandLine]:
    folder = tmp_path / "command-line"
    folder.mkdir()
    with CommandLine(folder) as command_line:
        yield command_line


def _facts(pipeline: Pipeline, eos: CommandLine, *arguments: str) -> dict[str, Any]:
    ended = eos.run(["reset", str(pipeline.write_spec()), *arguments, "--json"], pipeline.environment)
    assert ended.code == 0, ended.output
    facts: dict[str, Any] = json.loads(ended.output[ended.output.index("{\n") :])
    return facts


def _sums(facts: dict[str, Any]) -> tuple[int, int]:
    return sum(s["written_again"] for s in facts["splits"]), sum(s["never_written"] for s in facts["splits"])


def _run(pipeline: Pipeline, eos: CommandLine) -> None:
    ended = eos.run(["run", str(pipeline.write_spec()), "--until-caught-up"], pipeline.environment)
    assert ended.code == 0, ended.output
    assert pipeline.prepared() == []


def _surplus(pipeline: Pipeline) -> tuple[int, int, int]:
    verdict = pipeline.verdict()
    return verdict.duplicated, verdict.lost, verdict.unexpected


@pytest.mark.timeout(900)
def test_rows_after_a_reset_are_as_announced(pipeline: Pipeline, eos: CommandLine) -> None:
    topic, workload = pipeline.workload.topic, pipeline.workload
    workload.produce(_FIRST)
    _run(pipeline, eos)
    assert _surplus(pipeline) == (0, 0, 0)
    workload.produce(_UNREAD)

    # To the beginning. Only said at first; then done, and records come before the next run.
    before = pipeline.head
    said = _facts(pipeline, eos, "--to", "earliest")
    assert (said["done"], _sums(said)) == (False, (_FIRST, 0))
    assert pipeline.head == before, "saying has changed something"
    done = _facts(pipeline, eos, "--to", "earliest", "--yes")
    assert (done["done"], done["splits"], done["warning"]) == (True, said["splits"], "")
    pipeline.source["starting_offsets"] = "latest"  # the new life's beginning stands, whatever this says
    workload.produce(_LATER)
    _run(pipeline, eos)
    assert _surplus(pipeline) == (_FIRST, 0, 0)

    # To the end: what is there and was not read is never written, what comes after is.
    written = Counter(workload.expected)
    workload.produce(_UNREAD)
    left_out = workload.expected - written
    done = _facts(pipeline, eos, "--to", "latest", "--yes")
    assert _sums(done) == (0, _UNREAD)
    workload.produce(_LATER)
    _run(pipeline, eos)
    assert _surplus(pipeline) == (_FIRST, _UNREAD, 0)
    assert not pipeline.table.rows() & left_out

    # One split back by 40, the other forward over 20 of the records that are still to come to it.
    position = {split: as_offset(at) for split, at in pipeline.head.positions["incoming"].items()}
    workload.produce(_LATER)
    to = f"{topic}/0={position[f'{topic}/0'] - 40},{topic}/1={position[f'{topic}/1'] + 20}"
    done = _facts(pipeline, eos, "--to", to, "--yes")
    assert [(s["written_again"], s["never_written"]) for s in done["splits"]] == [(40, 0), (0, 20)]
    _run(pipeline, eos)
    assert _surplus(pipeline) == (_FIRST + 40, _UNREAD + 20, 0)

    # What cannot be is one error, and changes nothing.
    before = pipeline.head
    for to, expected in ((f"{topic}/0=999999", "it has [0, "), (f"{topic}x/0=1", "no source reads"), ("now", "'now'")):
        refused = eos.run(["reset", str(pipeline.write_spec()), "--to", to, "--yes"], pipeline.environment)
        assert (refused.code, expected in refused.output, "remedy: " in refused.output) == (2, True, True), refused
    assert pipeline.head == before


@pytest.mark.timeout(600)
def test_a_pipeline_that_never_ran_may_be_given_its_beginning(pipeline: Pipeline, eos: CommandLine) -> None:
    topic = pipeline.workload.topic
    pipeline.workload.produce(_FIRST)
    done = _facts(pipeline, eos, "--to", f"{topic}/0=100", "--yes")
    assert [(s["was_at"], s["start"], s["never_written"]) for s in done["splits"]] == [(None, 100, 100), (None, 0, 0)]
    _run(pipeline, eos)
    assert _surplus(pipeline) == (0, 100, 0)
