"""Positions of any source: their order, their distance, and what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eos.errors import IdentityError
from twophase.positions import check_position, check_positions, distance, is_before, least, total
from twophase.values import OffsetRange


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 2),
        ("a", "b"),
        ("", "a"),
        (["a", 2], ["a", 10]),
        (["a", 9], ["b", 1]),
        (["a"], ["a", 0]),
        ([], [0]),
        ([["a"]], [["b"]]),
    ],
)
def test_the_order_is_that_of_values_of_one_type(left: Any, right: Any) -> None:
    assert is_before(left, right)
    assert not is_before(right, left)
    assert not is_before(left, left)
    assert not OffsetRange("s", left, right).is_empty
    assert OffsetRange("s", right, left).is_empty


@pytest.mark.parametrize(
    ("left", "right"), [(1, "1"), ([1], 1), ([1, "a"], [1, 2]), (True, 2), (None, None), ((1,), (2,))]
)
def test_positions_of_two_sources_do_not_compare(left: Any, right: Any) -> None:
    with pytest.raises(IdentityError, match="do not compare"):
        is_before(left, right)


@pytest.mark.parametrize("position", [0, "", "é", [], ["f", 3, ["x"]]])
def test_a_position_is_json(position: Any) -> None:
    assert check_position(position, "s") == json.loads(json.dumps(position)) == position
    assert not is_before(position, least(position))


@pytest.mark.parametrize("value", [1.5, True, None, (1,), {"a": 1}, [1, None], ["a", (2,)], b"x", float("nan")])
def test_what_json_changes_is_no_position(value: Any) -> None:
    with pytest.raises(IdentityError, match="is not a position"):
        check_position(value, "source s, split a")


def test_only_integers_count() -> None:
    assert distance(3, 10) == 7
    assert distance(10, 3) == 0
    assert distance(["a", 1], ["b", 1]) is None
    assert distance(["a", 1], ["a", 1]) == 0
    assert total([1, 2]) == 3
    assert total([1, None]) is None


class _Text(str):
    def __repr__(self) -> str:
        raise AssertionError("code of a position is run")


_DEEP: list[Any] = []
for _ in range(5_000):
    _DEEP = [_DEEP]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\ud800", r"'a\ud800' is"),
        (["file", "\udfff"], r"'\udfff' is"),
        (2**63, "an integer of 64 bits is"),
        (-(10**5_000), "an integer of 16610 bits is"),
        ([10**5_000], "an integer of 16610 bits is"),
        (float("nan"), "nan is"),
        (_DEEP, "a list is"),
        (_Text("a"), "a _Text is"),
        (b"x" * 10_000_000, "b'xxx"),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_what_head_cannot_store_is_no_position(value: object, shown: str) -> None:
    """The decision would stop otherwise, after the rows were prepared."""
    with pytest.raises(IdentityError) as refused:
        check_position(value, "source s, split a")
    assert refused.value.message.startswith(f"source s, split a: {shown}")
    assert refused.value.message.endswith(" is not a position")
    assert len(refused.value.message) < 300
    refused.value.message.encode()


@pytest.mark.parametrize("position", [2**63 - 1, -(2**63), "\U0001f600", [["a"], [[[0]]]]])
def test_limits_of_positions_are_positions(position: Any) -> None:
    assert check_position(position, "s") == position


@pytest.mark.parametrize("found", [None, ["a"], {1: 0}, {"a\ud800": 0}, {None: 0}], ids=ascii)
def test_splits_have_names_that_head_can_store(found: object) -> None:
    with pytest.raises(IdentityError, match=r"^source s: .* is not (the name of a split|a mapping)"):
        check_positions(found, "source s")
