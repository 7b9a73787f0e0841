"""The planner's half of a source: where a batch ends, and what it must not pass over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from spark_jobs.failures import TOKEN, CarriedError, translate
from spark_jobs.source import SourceReader
from twophase.errors import OffsetOutOfRangeError
from twophase.values import OffsetRange, StartingPoint


class _Source:
    def __init__(self, latest: dict[str, int]) -> None:
        self._latest = latest

    def latest(self, _identities: Mapping[str, str]) -> dict[str, int]:
        return self._latest


def _end(start: dict[str, int], latest: dict[str, int], initial: dict[str, int] | None = None) -> dict[str, int]:
    reader = SourceReader(cast(Any, _Source(latest)), StartingPoint(initial or {}, {}), None, TOKEN)
    try:
        return reader.latestOffset(start, cast(Any, None))
    except CarriedError as error:
        raise translate(error, "planning") from error


def test_a_new_split_joins_and_one_that_is_no_longer_asked_for_stays() -> None:
    assert _end({"t/0": 5, "old/0": 7}, {"t/0": 5, "t/1": 2}) == {"t/0": 5, "old/0": 7, "t/1": 2}


def test_a_topic_that_was_added_later_starts_where_head_says() -> None:
    assert _end({"t/0": 5}, {"t/0": 5, "new/0": 9}, {"t/0": 0, "new/0": 8}) == {"t/0": 5, "new/0": 9}
    reader = SourceReader(cast(Any, _Source({})), StartingPoint({"t/0": 0, "new/0": 8}, {}), None, TOKEN)
    (planned,) = reader.partitions({"t/0": 5}, {"t/0": 5, "new/0": 9})
    assert cast(Any, planned).offsets == OffsetRange("new/0", 8, 9)


def test_a_topic_that_was_made_again_is_not_passed_over() -> None:
    with pytest.raises(OffsetOutOfRangeError, match="t/1 ends at 3, and the pipeline has read it up to 9"):
        _end({"t/0": 5, "t/1": 9}, {"t/0": 6, "t/1": 3})
