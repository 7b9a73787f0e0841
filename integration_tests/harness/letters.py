"""Dead letters in a table of PostgreSQL, as tests read them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from integration_tests.harness.oracle import PostgresTable
from integration_tests.harness.pipeline import Pipeline


def letters_of(pipeline: Pipeline, url: str, commit: str = "two-phase") -> PostgresTable:
    """Give the pipeline a table for its dead letters, which its start makes."""
    entry = {"connector": "postgresql", "url": url, "table": "letters", "create": "if-missing", "commit": commit}
    pipeline.spec["dead_letter"] = entry
    return PostgresTable(url, "letters")


def rows_of(letters: PostgresTable) -> dict[str, Counter[Any]]:
    """By sink, the rows in letters that have the row as their value; under "" the bytes of bad records."""
    found: dict[str, Counter[Any]] = {}
    for sink, value in letters.execute("SELECT sink, value FROM letters"):
        if sink is None:
            found.setdefault("", Counter())[bytes(value)] += 1
        else:
            row = json.loads(bytes(value))
            found.setdefault(sink, Counter())[int(row["id"]), row["word"], row["payload"]] += 1  # text from a log
    return found
