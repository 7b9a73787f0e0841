"""`state_ttl`: a variable of `transformWithState` expires, also where a checkpoint runs again after a kill."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from integration_tests.harness.pipeline import TABLE, Pipeline

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_TTL_S = 8
_COUNT = """
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor


class Count(StatefulProcessor):
    def __init__(self, state_ttl_ms):
        self.state_ttl_ms = state_ttl_ms

    def init(self, handle):
        self.count = handle.getValueState("count", "n long", self.state_ttl_ms)

    def handleInputRows(self, key, rows, timerValues):
        before = self.count.get()
        count = before[0] if before else 0
        for row in sorted(rows, key=lambda each: each.id):
            count += 1
            yield Row(id=row.id, word=key[0], payload=str(count))
        self.count.update((count,))

    def close(self):
        pass


def counted(records, state_ttl_ms):
    columns = "id long, word string, payload string"
    return records.groupBy("word").transformWithState(Count(state_ttl_ms), columns, "append", "ProcessingTime")


def forgets(records, state_ttl_ms):
    return records.groupBy("word").transformWithState(
        Count(None), "id long, word string, payload string", "append", "none"
    )
"""


def _step(pipeline: Pipeline, function: str = "counted") -> None:
    (pipeline.folder / "counts.py").write_text(_COUNT)
    pipeline.spec["transforms"] = [
        {"name": "rows", "python": f"counts:{function}", "from": "incoming", "state_ttl": f"{_TTL_S}s"}
    ]


def _counts(pipeline: Pipeline) -> Counter[tuple[str, int]]:
    found = pipeline.table.execute(f"SELECT word, CAST(payload AS SIGNED) FROM `{TABLE}`")
    return Counter((str(word), int(count)) for word, count in found)


@pytest.mark.timeout(900)
def test_a_variable_expires_and_the_same_rows_come_of_a_checkpoint_that_runs_again(pipeline: Pipeline) -> None:
    _step(pipeline)
    pipeline.workload.produce_words("kept", "lost", "lost")
    pipeline.catch_up()
    assert _counts(pipeline) == Counter({("kept", 1): 1, ("lost", 1): 1, ("lost", 2): 1})
    pipeline.workload.produce_words("kept")
    time.sleep(_TTL_S + 1)
    pipeline.workload.produce_words("lost")
    process = pipeline.start(arm=["after-decide"])  # the next start commits it, and Spark runs it again
    process.await_point("after-decide")
    process.kill()
    time.sleep(_TTL_S + 1)
    pipeline.catch_up()
    found = _counts(pipeline)
    assert found[("lost", 1)] == 2, found
    assert sum(found.values()) == 5
    pipeline.workload.produce_words("lost")
    pipeline.catch_up()
    assert sum(_counts(pipeline).values()) == 6


@pytest.mark.timeout(300)
def test_a_step_whose_state_cannot_expire_is_refused(pipeline: Pipeline) -> None:
    _step(pipeline, "forgets")
    pipeline.workload.produce_words("kept")
    pipeline.start().fail("step rows: state_ttl has no effect", "transformWithState with timeMode", code=2)
