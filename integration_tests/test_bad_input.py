"""Whatever is wrong, it is one clear error that names the place and the remedy, and after the fix the run goes on."""

from __future__ import annotations

import pytest
from sqlalchemy.engine import make_url

from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline

pytestmark = pytest.mark.in_turns

_RECORDS = 2 * CHECKPOINT_RECORDS
_WRONG_PASSWORD = "not-the-password"


def test_a_wrong_spec_is_told_all_at_once(pipeline: Pipeline) -> None:
    pipeline.spec["checkpoint"]["intervall"] = "2s"
    pipeline.spec["checkpoint"]["retained"] = "many"
    pipeline.spec["sinks"][0]["url"] = "${env:NO_SUCH_VARIABLE}"
    process = pipeline.start()
    process.fail(
        "checkpoint.intervall: unknown key 'intervall'; did you mean 'interval'?",
        "checkpoint.retained: ",
        "sinks[0].url: ",
        "NO_SUCH_VARIABLE",
        code=2,
    )
    # Each mistake begins with file and line, as editors read it.
    assert process.output().count(f"{pipeline.folder / 'pipeline.yaml'}:") == 3
    assert not pipeline.location.exists()


@pytest.mark.timeout(1200)
@pytest.mark.any_server
def test_a_failed_run_says_why_and_goes_on_after_the_fix(pipeline: Pipeline, eos: CommandLine) -> None:
    """One pipeline meets one obstacle after another; each fix brings it to the next one."""
    pipeline.spec["restart"] = {"strategy": "none"}
    pipeline.workload.produce(_RECORDS)
    pipeline.workload.produce_without_word()
    bad_offset = pipeline.workload.produce_bad('{"id": "seven"')
    pipeline.workload.produce(_RECORDS)
    pipeline.table.execute(f"DROP TABLE {pipeline.table.name}")
    source = pipeline.source

    right_url = pipeline.environment["SINK_URL"]
    wrong_url = make_url(right_url).set(password=_WRONG_PASSWORD)
    pipeline.environment["SINK_URL"] = wrong_url.render_as_string(hide_password=False)
    _fails(pipeline, eos, "sink warehouse at 127.0.0.1:", "Access denied")
    pipeline.environment["SINK_URL"] = right_url

    right_servers, source["bootstrap_servers"] = source["bootstrap_servers"], "127.0.0.1:1"
    _fails(pipeline, eos, "127.0.0.1:1")
    source["bootstrap_servers"] = right_servers

    right_topics, source["topics"] = source["topics"], [f"{source['topics'][0]}-x"]
    _fails(pipeline, eos, f"topic {source['topics'][0]} does not exist", f"nearest: {right_topics[0]}")
    source["topics"] = right_topics

    _fails(pipeline, eos, f"there is no table '{pipeline.table.name}' in database")

    pipeline.table.create(word="VARCHAR(8) NOT NULL")
    _fails(pipeline, eos, "sink warehouse", "row ", "'word'")

    pipeline.table.execute(f"ALTER TABLE {pipeline.table.name} MODIFY word VARCHAR(40) NOT NULL")
    _fails(pipeline, eos, "sink warehouse", "'word'", "NULL")

    pipeline.table.execute(f"ALTER TABLE {pipeline.table.name} MODIFY word VARCHAR(40)")
    _fails(pipeline, eos, f"topic {right_topics[0]}, partition 0, offset {bad_offset}: ", "on_bad_record")

    source["on_bad_record"] = "skip"
    ended = eos.run(["run", str(pipeline.write_spec()), "--until-caught-up"], pipeline.environment)
    assert ended.code == 0, ended.output
    pipeline.assert_exact(at_least=2 * _RECORDS + 1)


def _fails(pipeline: Pipeline, eos: CommandLine, *fragments: str) -> None:
    ended = eos.run(["run", str(pipeline.write_spec()), "--until-caught-up"], pipeline.environment)
    errors = [line for line in ended.output.splitlines() if line.startswith("error: ")]
    assert ended.code == 1, ended.output
    assert len(errors) == 1, ended.output
    for fragment in (*fragments, "  remedy: "):
        assert fragment in ended.output, (fragment, ended.output)
    assert "Traceback" not in ended.output, ended.output
    assert _WRONG_PASSWORD not in ended.output
    assert pipeline.prepared() == []
