"""Where the flow of a pipeline divides."""

from __future__ import annotations

import pytest

from connectors.spec.flow import behind, names_in, trunk_of

_JOINED = {"orders": [], "users": [], "joined": ["orders", "users"], "big": ["joined"], "small": ["joined"]}


@pytest.mark.parametrize(
    ("wanted", "trunk", "later"),
    [
        (["big"], "big", []),
        (["big", "big"], "big", []),
        (["big", "small"], "joined", ["big", "small"]),
        (["joined", "small"], "joined", ["small"]),
        (["orders", "small"], None, []),
    ],
)
def test_the_trunk_is_the_last_that_all_rows_pass(wanted: list[str], trunk: str | None, later: list[str]) -> None:
    assert trunk_of(_JOINED, ["orders", "users"], wanted) == trunk
    if trunk is not None:
        assert behind(_JOINED, trunk, wanted) == later


def test_what_lies_between_the_trunk_and_the_sinks_is_needed_and_nothing_else() -> None:
    inputs = {"in": [], "a": ["in"], "b": ["a"], "unused": ["a"], "c": ["b", "a"], "d": ["a"]}
    assert trunk_of(inputs, ["in"], ["c", "d"]) == "a"
    assert behind(inputs, "a", ["c", "d"]) == ["b", "c", "d"]


def test_a_step_that_no_source_feeds_is_in_nobodys_way() -> None:
    inputs = {"in": [], "rows": ["in"], "dim": [], "j": ["rows", "dim"]}
    assert trunk_of(inputs, ["in"], ["rows", "j"]) == "rows"
    assert behind(inputs, "rows", ["rows", "j"]) == ["dim", "j"]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM Orders", ["orders"]),
        ("SELECT * FROM `orders`", ["orders"]),
        ("SELECT 'orders', \"or'ders\", 'it''s orders', 'a\\'orders' FROM users", ["users"]),
        ("SELECT 1 -- orders\nFROM users /* orders\n */", ["users"]),
        ("SELECT r'\\' AS a, id FROM orders WHERE b = ''", ["orders"]),
        ("SELECT `o'clock` FROM orders WHERE w <> 'x'", ["orders"]),
        ("SELECT 1 AS `--` FROM orders", ["orders"]),
        ("SELECT `/*` FROM orders -- */", ["orders"]),
        ("SELECT * FROM IDENTIFIER('orders')", ["orders"]),
        ('SELECT * FROM "orders"', ["orders"]),
        ("SELECT orders_2, xorders FROM users", ["users"]),
        ("SELECT ünï FROM `odd name` JOIN ünï", ["odd name", "ünï"]),
        ("SELECT id FROM a WHERE id IN (SELECT id FROM orders)", ["orders"]),
        ("SELECT orders.id FROM t AS orders", ["orders"]),
    ],
)
def test_a_query_names_what_stands_in_it_as_a_word(sql: str, names: list[str]) -> None:
    assert names_in(sql, ["orders", "users", "odd name", "ünï"]) == names
