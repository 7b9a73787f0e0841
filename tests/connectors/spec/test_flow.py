"""Where the flow of a pipeline divides."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.spec import load_spec
from connectors.spec.flow import behind, groups_of, root_of, roots_of, sources_of, trunk_of
from connectors.spec.table_names import names_in
from eos.errors import SpecError

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
        assert behind(_JOINED, [trunk], wanted) == later


def test_what_lies_between_the_trunk_and_the_sinks_is_needed_and_nothing_else() -> None:
    inputs = {"in": [], "a": ["in"], "b": ["a"], "unused": ["a"], "c": ["b", "a"], "d": ["a"]}
    assert trunk_of(inputs, ["in"], ["c", "d"]) == "a"
    assert behind(inputs, ["a"], ["c", "d"]) == ["b", "c", "d"]


def test_a_step_that_no_source_feeds_is_in_nobodys_way() -> None:
    inputs = {"in": [], "rows": ["in"], "dim": [], "j": ["rows", "dim"]}
    assert trunk_of(inputs, ["in"], ["rows", "j"]) == "rows"
    assert behind(inputs, ["rows"], ["rows", "j"]) == ["dim", "j"]


_APART = {
    "orders": [],
    "users": [],
    "clicks": [],
    "big": ["orders"],
    "small": ["orders"],
    "dim": [],
    "named": ["users", "dim"],
    "both": ["users", "clicks"],
}


@pytest.mark.parametrize(
    ("wanted", "groups", "roots"),
    [
        (["big"], [["big"]], ["big"]),
        (["named", "big"], [["big"], ["named"]], ["big", "named"]),
        (["clicks", "small", "big"], [["small", "big"], ["clicks"]], ["orders", "clicks"]),
        (["clicks", "big", "users"], [["big"], ["users"], ["clicks"]], ["big", "users", "clicks"]),
        (["clicks", "users", "both"], [["clicks", "users", "both"]], []),
        (["users", "named", "orders"], [["orders"], ["users", "named"]], ["orders", "users"]),
        (["big", "dim"], [["big"], ["dim"]], []),
        (["both", "both"], [["both"]], ["both"]),
    ],
)
def test_names_that_read_a_common_source_have_one_root(
    wanted: list[str], groups: list[list[str]], roots: list[str]
) -> None:
    sources = ["orders", "users", "clicks"]
    assert groups_of(_APART, sources, wanted) == groups
    assert roots_of(_APART, sources, wanted) == roots
    for name in wanted if roots else ():
        root = root_of(_APART, roots, name)
        assert root is not None
        assert sources_of(_APART, sources, name) >= sources_of(_APART, sources, root) > set()


def test_a_pipeline_with_a_trunk_has_no_other_root() -> None:
    """Else a query that runs would get another plan."""
    for wanted in (["big"], ["big", "small"], ["joined", "small"]):
        assert roots_of(_JOINED, ["orders", "users"], wanted) == [trunk_of(_JOINED, ["orders", "users"], wanted)]


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
        ("SELECT * FROM a, orders, b JOIN users ON a.id = b.id", ["orders", "users"]),
        ("SELECT * FROM (orders) JOIN LATERAL (SELECT 1)", ["orders"]),
        ("SELECT * FROM a WHERE EXISTS (TABLE orders)", ["orders"]),
        ("FROM /* all */ orders SELECT id", ["orders"]),
        ("SELECT orders.id FROM orders AS orders", ["orders"]),
        # What is called as a source, and is none.
        ("SELECT orders.id FROM t AS orders", []),
        ("SELECT orders.id, `orders`.at FROM t orders", []),
        ("SELECT o.users FROM orders AS o WHERE o.users > 1 AND users < 2", ["orders"]),
        ("SELECT id AS users FROM orders ORDER BY users", ["orders"]),
        ("WITH users AS (SELECT id FROM orders) SELECT * FROM users", ["orders"]),
        ("WITH orders AS (SELECT id FROM orders) SELECT * FROM orders", ["orders"]),
        ("WITH orders AS (SELECT id FROM users) SELECT * FROM orders", ["users"]),
        ("WITH a AS (SELECT 1), orders (id) AS (SELECT 2), b AS (TABLE orders) SELECT * FROM b, orders", []),
        ("WITH RECURSIVE orders AS (SELECT 1 UNION ALL SELECT id FROM orders) TABLE orders", []),
        ("WITH a AS (SELECT * FROM IDENTIFIER('t')), orders AS (SELECT 1) SELECT * FROM orders", []),
        ("SELECT * FROM (WITH orders AS (SELECT 1) SELECT * FROM orders) JOIN orders", ["orders"]),
        ("SELECT sum(a) OVER w FROM t WINDOW v AS (ORDER BY a), orders AS (ORDER BY b) UNION TABLE orders", ["orders"]),
    ],
)
def test_a_query_names_the_tables_that_it_reads(sql: str, names: list[str]) -> None:
    assert names_in(sql, ["orders", "users", "odd name", "ünï"]) == names


_TWO_SINKS = """\
pipeline: p
checkpoint: {location: ./checkpoints}
sources:
  - {name: orders, connector: kafka, bootstrap_servers: "k:1", topics: [orders], format: {type: string}}
  - {name: users, connector: kafka, bootstrap_servers: "k:1", topics: [users], format: {type: string}}
transforms:
  - {name: small, sql: "SQL"}
sinks:
  - {name: all, from: orders, connector: sqlite, path: ./rows.db, table: orders, commit: write-ahead-log}
  - {name: some, from: small, connector: sqlite, path: ./rows.db, table: small, commit: write-ahead-log}
"""


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT users.value FROM orders AS users",
        "WITH users AS (SELECT value FROM orders) SELECT * FROM users",
        "SELECT value AS users FROM orders",
    ],
)
def test_a_spec_whose_step_calls_its_rows_as_another_source_is_valid(sql: str, tmp_path: Path) -> None:
    """Were `users` taken for the source, the sinks would have none in common."""
    path = tmp_path / "spec.yaml"
    path.write_text(_TWO_SINKS.replace("SQL", sql))
    assert load_spec(path, {}).trunk == "orders"
    path.write_text(_TWO_SINKS.replace("SQL", "SELECT orders.value FROM orders, users"))
    with pytest.raises(SpecError, match="no source or step in common"):
        load_spec(path, {})
