"""What tests of state share: a pipeline that counts, so that a row shows all that was before it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from integration_tests.harness.pipeline import TABLE, Pipeline

_WORDS = 10  # that a workload has; each checkpoint has records of all of them


def count_words(pipeline: Pipeline) -> dict[str, Any]:
    """Have it write a row for each word and checkpoint, with the number of records so far. Returns the step."""
    counted = "SELECT max(id) AS id, word, CAST(count(*) AS STRING) AS payload FROM incoming GROUP BY word"
    step = {"name": "rows", "sql": counted, "output_mode": "update"}
    pipeline.spec["transforms"] = [step]
    return step


def assert_counted(pipeline: Pipeline, checkpoints: int) -> None:
    """Each word's newest count is of all its records, and no count of before is there twice or missing."""
    rows = pipeline.table.execute(f"SELECT word, payload, id FROM `{TABLE}`")
    assert len(rows) == checkpoints * _WORDS
    counts: dict[str, list[tuple[int, int]]] = {}
    for word, count, last in rows:
        counts.setdefault(word, []).append((int(count), last))
    produced = Counter(str(word) for _, word, _ in pipeline.workload.expected)
    newest = {word: max(number for number, other, _ in pipeline.workload.expected if other == word) for word in counts}
    assert {word: max(found) for word, found in counts.items()} == {
        word: (produced[word], newest[word]) for word in produced
    }
    assert all(len({count for count, _ in found}) == checkpoints for found in counts.values())
    assert pipeline.prepared() == []
