"""The merge of rows in the metadata of their segment."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connectors.log.merge import Merge, merge_of


@pytest.mark.parametrize(
    "merge",
    [Merge(("a", 'b"')), Merge(("a",), order_by="n"), Merge(("a",), "n", True, "d"), Merge(("a",), keep=True)],
)
def test_a_merge_is_read_as_it_was_written(merge: Merge) -> None:
    assert merge_of(pa.schema([], metadata=merge.metadata())) == merge


def test_rows_without_a_merge_are_appended() -> None:
    assert merge_of(pa.schema([])) is None


def test_segments_of_older_versions_are_merged_by_their_key_alone() -> None:
    assert merge_of(pa.schema([], metadata={b"key": b'["a", "b"]'})) == Merge(("a", "b"))
    assert Merge(("a", "b")).metadata() == {b"key": b'["a", "b"]'}


def test_an_older_version_finds_no_key_in_a_segment_with_an_order() -> None:
    """It would merge the rows without the order. Now it appends them, and the table has no column for deletions."""
    assert b"key" not in Merge(("a",), order_by="n").metadata()


def test_a_deletion_writes_its_key_its_time_and_its_order() -> None:
    assert Merge(("a", "b"), "n", deleted_at="d").marked == ("a", "b", "d", "n")
    assert Merge(("a",)).marked == ("a",)
