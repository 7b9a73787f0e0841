"""What every head register must do (`twophase.head.HeadStore`). A test module subclasses this with a fixture `again`.

It opens an empty head, and the same one each time, as another process would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from eos.errors import HeadFormatError
from twophase.head import HeadStore, Versioned
from twophase.head_value import HeadValue
from twophase.messages import HeadSnapshot
from twophase.parted_head import PartedHead


class HeadStoreSuite:
    """Give `again` as a fixture."""

    @pytest.fixture
    def store(self, again: Callable[[], HeadStore]) -> Iterator[HeadStore]:
        """The first that opens it."""
        opened = again()
        yield opened
        opened.close()

    def test_an_empty_head_reads_as_none(self, store: HeadStore) -> None:
        assert store.read() is None
        assert store.list_records() == []

    def test_versions_count_the_swaps_that_landed(self, store: HeadStore) -> None:
        for version in range(40):
            assert store.swap(store.read(), b"value %d" % version)
            assert store.read() == Versioned(version + 1, b"value %d" % version)

    def test_a_swap_of_another_version_is_refused(self, store: HeadStore) -> None:
        assert store.swap(None, b"one")
        assert store.swap(Versioned(1, b"one"), b"two")
        assert not store.swap(None, b"other")
        assert not store.swap(Versioned(1, b"one"), b"other")
        assert store.read() == Versioned(2, b"two")

    def test_everybody_sees_what_landed(self, store: HeadStore, again: Callable[[], HeadStore]) -> None:
        other = again()
        assert store.swap(None, b"one")
        assert other.read() == Versioned(1, b"one")
        assert other.swap(Versioned(1, b"one"), b"two")
        assert not store.swap(Versioned(1, b"one"), b"late")
        assert store.read() == Versioned(2, b"two")
        other.close()

    @pytest.mark.parametrize("expected", [0, 1, 5])
    def test_a_swap_that_comes_very_late_is_refused(self, store: HeadStore, expected: int) -> None:
        late = Versioned(expected, b"value %d" % (expected - 1)) if expected else None
        for version in range(60):
            assert store.swap(store.read(), b"value %d" % version)
        assert not store.swap(late, b"late")
        assert store.read() == Versioned(60, b"value 59")
        assert store.swap(Versioned(60, b"value 59"), b"goes on")
        assert not store.swap(late, b"late again")
        assert store.read() == Versioned(61, b"goes on")

    def test_any_bytes(self, store: HeadStore) -> None:
        value = bytes(range(256)) * 400
        assert store.swap(None, value)
        assert store.read() == Versioned(1, value)
        store.put_record("all bytes.json", value)
        assert store.get_record("all bytes.json") == value

    def test_a_record_is_stored_once(self, store: HeadStore, again: Callable[[], HeadStore]) -> None:
        store.put_record("b.json", b"content")
        store.put_record("a.json", b"")
        store.put_record("b.json", b"content")
        other = again()
        assert other.get_record("b.json") == b"content"
        assert other.get_record("a.json") == b""
        assert other.list_records() == ["a.json", "b.json"]
        with pytest.raises(HeadFormatError, match=r"b\.json"):
            other.put_record("b.json", b"other")
        assert store.get_record("b.json") == b"content"
        other.close()

    def test_names_are_compared_to_the_letter(self, store: HeadStore) -> None:
        store.put_record("a.json", b"small")
        store.put_record("A.json", b"large")
        assert (store.get_record("a.json"), store.get_record("A.json")) == (b"small", b"large")

    def test_a_missing_record_is_an_error_that_names_it(self, store: HeadStore) -> None:
        with pytest.raises(HeadFormatError, match=r"gone\.json") as caught:
            store.get_record("gone.json")
        assert caught.value.remedy
        assert not caught.value.retriable

    def test_a_record_is_deleted_once_or_twice(self, store: HeadStore) -> None:
        store.put_record("a.json", b"content")
        store.delete_record("a.json")
        store.delete_record("a.json")
        assert store.list_records() == []

    def test_records_do_not_disturb_head(self, store: HeadStore) -> None:
        store.put_record("00000000000000000009.json", b"content")
        assert store.read() is None
        assert store.swap(None, b"one")
        assert store.list_records() == ["00000000000000000009.json"]

    def test_a_swap_lands_only_with_the_records_that_it_needs(self, store: HeadStore) -> None:
        store.put_record("a.json", b"content")
        assert not store.swap(None, b"one", ["a.json", "b.json"])
        assert store.read() is None
        assert store.swap(None, b"one", ["a.json"])
        assert not store.swap(Versioned(1, b"one"), b"two", ["b.json"])
        store.put_record("b.json", b"content")
        assert store.swap(Versioned(1, b"one"), b"two", ["b.json", "a.json"])
        assert store.read() == Versioned(2, b"two")

    def test_the_head_of_ten_thousand_splits_is_swapped_as_a_small_value(
        self, store: HeadStore, again: Callable[[], HeadStore]
    ) -> None:
        splits = {"orders": {f"orders/{number}": number for number in range(10_000)}}
        head = HeadValue("p", "0123456789abcdefghij", 1, ("a.1",), initial=splits, positions=splits)
        parted, other = PartedHead(store), again()
        assert parted.swap(None, head)
        assert parted.swap(HeadSnapshot(1, head), replace(head, epoch=2))
        seen = PartedHead(other).read()
        assert seen is not None
        assert (seen.version, seen.head) == (2, replace(head, epoch=2))
        assert len(seen.content or b"") < 1_000
        assert len(store.list_records()) == 2
        other.close()

    def test_it_says_where_it_is(self, store: HeadStore) -> None:
        assert store.describe()
