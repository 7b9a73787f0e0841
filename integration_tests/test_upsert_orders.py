"""`commit: upsert` with an order of its own, with deletions that keep the row, and with rows that stay."""

from __future__ import annotations

import datetime
import random
from dataclasses import replace

import pyarrow as pa
import pytest

from eos.errors import BadRowError, TargetError
from integration_tests.merging import EVERY, LONG, Make, Merging
from integration_tests.merging import make as make

TIME = pa.timestamp("us")
TIMES = {"mysql": "DATETIME(6)", "postgresql": "TIMESTAMP", "sqlite": "TEXT"}
LATER = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)


def _without_deletions(made: Merging) -> Merging:
    made.schema = made.schema.remove(made.schema.get_field_index("gone"))
    made.upsert = replace(made.upsert, deleted=None)
    return made


def ordered(make: Make, definitions: str = "k BIGINT PRIMARY KEY, v BIGINT, n BIGINT") -> Merging:
    """Rows of a key `k`, a value `v` and an order `n`."""
    made = _without_deletions(make(definitions, [("k", LONG), ("v", LONG), ("n", LONG)], "k"))
    made.upsert = replace(made.upsert, order_by="n")
    return made


@EVERY
def test_the_greatest_order_wins_from_whatever_partition(make: Make) -> None:
    made = ordered(make).start()
    made.checkpoint(0, [(1, 10, 5, 0, 7), (1, 11, 6, 3, 1)], [(2, 20, 5, 1, 9)])
    assert made.rows() == [(1, 11, 6), (2, 20, 5)]
    made.checkpoint(1, [(1, 12, 4, 0, 8), (2, 21, 5, 2, 1), (3, 30, 1, 2, 2)])
    assert made.rows() == [(1, 11, 6), (2, 21, 5), (3, 30, 1)], (
        "an older row is left out, and one that is as new is not"
    )
    made.checkpoint(2, [(1, 13, 7, 2, 3)])
    assert made.rows() == [(1, 13, 7), (2, 21, 5), (3, 30, 1)]


@EVERY
def test_a_stored_row_without_an_order_is_the_oldest(make: Make) -> None:
    made = ordered(make)
    made.execute("INSERT INTO merged VALUES (1, 7, NULL)")
    made.start().checkpoint(0, [(1, 8, -5, 0, 1)])
    assert made.rows() == [(1, 8, -5)]


@EVERY
def test_a_row_without_an_order_is_a_bad_row(make: Make) -> None:
    made = ordered(make).start()
    with pytest.raises(BadRowError, match="row 2, column 'n': NULL"):
        made.decide(0, [(1, 8, 5, 0, 1), (2, 8, None, 0, 2)])


TEXTS = {"mysql": "VARCHAR(40) COLLATE utf8mb4_general_ci", "postgresql": "TEXT", "sqlite": "TEXT COLLATE NOCASE"}
LINGUISTIC = {"postgresql": ' COLLATE "und-x-icu"'}


@EVERY
def test_text_is_an_order_byte_by_byte(make: Make, kind: str) -> None:
    """In any collation of the column. In the order of the bytes, B is before a."""
    made = ordered(make, f"k BIGINT PRIMARY KEY, v BIGINT, n {TEXTS[kind]}{LINGUISTIC.get(kind, '')}")
    made.schema = made.schema.set(2, pa.field("n", pa.string()))
    made.start().checkpoint(0, [(1, 10, "a", 0, 1), (2, 20, "B", 0, 2), (3, 30, "a", 0, 3), (4, 40, "0010", 0, 4)])
    made.checkpoint(1, [(1, 11, "B", 0, 5), (2, 21, "a", 0, 6), (3, 31, "a ", 0, 7), (4, 41, "0009", 0, 8)])
    assert made.rows("k, v") == [(1, 10), (2, 21), (3, 31), (4, 40)]
    made.checkpoint(2, [(1, 12, "A", 0, 9), (1, 13, "\u017c", 0, 10), (1, 14, "b", 0, 11)])
    assert made.rows("k, v") == [(1, 13), (2, 21), (3, 31), (4, 40)]


@EVERY
def test_an_order_that_databases_compare_differently_is_refused(make: Make) -> None:
    made = ordered(make)
    made.schema = made.schema.set(2, pa.field("n", pa.float64()))
    with pytest.raises(TargetError, match=r"column n of the rows is .*, not a whole number, a decimal, a date"):
        made.start()


@pytest.mark.parametrize("kind", ["sqlite"])
def test_sqlite_compares_long_decimals_as_text(make: Make) -> None:
    made = ordered(make, "k INTEGER PRIMARY KEY, v INTEGER, n TEXT")
    made.schema = made.schema.set(2, pa.field("n", pa.decimal128(30, 0)))
    with pytest.raises(TargetError, match="in column n SQLite compares numbers as text"):
        made.start()


def _marked(make: Make, kind: str, more: str = "", *, ordered: bool = False) -> Merging:
    fields = [("k", LONG), ("v", LONG), *([("n", LONG)] if ordered else []), ("d", TIME)]
    order = ", n BIGINT" if ordered else ""
    made = _without_deletions(make(f"k BIGINT PRIMARY KEY, v BIGINT {more}{order}, d {TIMES[kind]}", fields, "k"))
    made.upsert = replace(made.upsert, deleted_at="d", order_by="n" if ordered else None)
    return made


def _times(made: Merging, columns: str) -> list[tuple[object, ...]]:
    """Return the rows, with true instead of a time."""
    return [(*row[:-1], row[-1] is not None and str(row[-1])[:26] == str(LATER)) for row in made.rows(columns)]


@EVERY
def test_a_deletion_keeps_the_row_and_its_values(make: Make, kind: str) -> None:
    made = _marked(make, kind, "NOT NULL").start()
    made.checkpoint(0, [(key, key * 10, None, 0, key) for key in range(1, 5)])
    deleted = [(1, None, LATER, 0, 11), (9, None, LATER, 0, 12)]
    changed_first = [(2, 21, None, 0, 13), (2, None, LATER, 0, 14)]
    and_again = [(3, None, LATER, 0, 15), (3, 31, None, 0, 16)]
    made.checkpoint(1, [*deleted, *changed_first, *and_again])
    assert _times(made, "k, v, d") == [(1, 10, True), (2, 21, True), (3, 31, False), (4, 40, False)]
    made.checkpoint(2, [(1, 12, None, 0, 17)])
    assert _times(made, "k, v, d") == [(1, 12, False), (2, 21, True), (3, 31, False), (4, 40, False)]


@EVERY
def test_a_row_older_than_a_deletion_is_not_put_back(make: Make, kind: str) -> None:
    made = _marked(make, kind, ordered=True).start()
    made.checkpoint(0, [(1, 10, 1, None, 0, 1)], [(2, None, 5, LATER, 1, 1)])
    made.checkpoint(1, [(1, None, 3, LATER, 1, 2)])
    made.checkpoint(2, [(1, 11, 2, None, 0, 2), (2, 20, 4, None, 0, 3)])
    assert _times(made, "k, v, n, d") == [(1, 10, 3, True), (2, None, 5, True)]
    made.checkpoint(3, [(1, 12, 4, None, 0, 4), (2, None, 3, LATER, 0, 5)])
    assert _times(made, "k, v, n, d") == [(1, 12, 4, False), (2, None, 5, True)]


@EVERY
def test_a_deletion_that_cannot_be_stored_is_refused_at_the_start(make: Make, kind: str) -> None:
    """It would be found only once rows are decided."""
    with pytest.raises(TargetError, match="a deletion of a key that the table lacks gives v no value"):
        _marked(make, kind, "NOT NULL", ordered=True).start()


@EVERY
def test_the_first_row_of_a_key_stays(make: Make) -> None:
    made = _without_deletions(make("k BIGINT PRIMARY KEY, v BIGINT", [("k", LONG), ("v", LONG)], "k"))
    made.upsert = replace(made.upsert, keep=True)
    made.execute("INSERT INTO merged VALUES (1, 7)")
    made.start().checkpoint(0, [(2, 21, 0, 5), (2, 20, 0, 4), (1, 10, 0, 6)])
    assert made.rows() == [(1, 7), (2, 20)]
    made.checkpoint(1, [(2, 22, 0, 7), (3, 30, 0, 8)])
    assert made.rows() == [(1, 7), (2, 20), (3, 30)]


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
@pytest.mark.parametrize("how", ["order", "keep"])
def test_a_trigger_that_leaves_rows_out_is_found(make: Make, kind: str, how: str) -> None:
    """Although the server reports fewer rows in any case."""
    made = ordered(make)
    if how == "keep":
        made.upsert = replace(made.upsert, order_by=None, keep=True)
    made.start().checkpoint(0, [(1, 7, 5, 0, 1)])
    if kind == "sqlite":
        made.execute("CREATE TRIGGER skips BEFORE INSERT ON merged WHEN NEW.k = 2 BEGIN SELECT RAISE(IGNORE); END")
    else:
        body = "BEGIN IF NEW.k = 2 THEN RETURN NULL; END IF; RETURN NEW; END"
        made.execute(
            f"CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS '{body}'",
            "CREATE TRIGGER skips BEFORE INSERT ON merged FOR EACH ROW EXECUTE FUNCTION skip()",
        )
    made.decide(1, [(1, 6, 4, 0, 2), (2, 8, 4, 0, 3)])
    with pytest.raises(BadRowError, match=r"1 of 2 rows"):
        made.commit(1)
    made.execute("DROP TRIGGER skips" + (" ON merged" if kind == "postgresql" else ""))
    made.commit(1)
    assert made.rows() == [(1, 7, 5), (2, 8, 4)]


@pytest.mark.parametrize("kind", ["mysql"])
def test_texts_that_the_server_alone_takes_for_one_key(make: Make) -> None:
    """Two tasks have them, and two slots apply them at once: the server compares their order."""
    definitions = "k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v BIGINT, n BIGINT"
    made = _without_deletions(make(definitions, [("k", pa.string()), ("v", LONG), ("n", LONG)], "k"))
    made.upsert = replace(made.upsert, order_by="n")
    made.start()
    assert made.sink.partition_by == ("k",)
    number = 1000
    lower = [(f"key {at}", at, at % 2, 0, at) for at in range(number)]
    upper = [(f"KEY {at}", -at, 1 - at % 2, 1, at) for at in range(number)]
    made.checkpoint(0, lower, upper)
    found = {key.lower(): (value, order) for key, value, order in made.rows()}
    assert found == {f"key {at}": (at if at % 2 else -at, 1) for at in range(number)}
    made.checkpoint(1, [("Key 7", 70, 2, 5, 1), ("kEY 7", 69, 1, 6, 2)])
    assert ("Key 7", 70, 2) in made.rows("k, v, n")
    assert len(made.rows()) == number


@EVERY
@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_changes_leaves_the_newest(make: Make, kind: str, seed: int) -> None:
    """Changes of 30 keys in partitions that lag differently: the table ends as if they had come in their own order."""
    chance = random.Random(seed)
    made = _marked(make, kind, ordered=True).start()
    changes = [(chance.randrange(30), order, chance.random() < 0.3) for order in range(400)]
    expected: dict[int, tuple[int | None, int, bool]] = {}
    for key, order, gone in changes:
        before = expected.get(key)
        expected[key] = (before[0] if gone and before else None if gone else order * 10, order, gone)
    late = sorted(changes, key=lambda change: change[1] + chance.randrange(0, 150))
    partitions = [chance.randrange(4) for _ in late]
    for checkpoint_id in range(8):
        part = list(enumerate(late))[checkpoint_id * 50 : (checkpoint_id + 1) * 50]
        rows = [
            (key, None if gone else order * 10, order, LATER if gone else None, partitions[at], at)
            for at, (key, order, gone) in part
        ]
        made.checkpoint(checkpoint_id, [row for row in rows if row[0] % 2], [row for row in rows if not row[0] % 2])
    found = {row[0]: row[1:] for row in _times(made, "k, v, n, d")}
    assert {key: (order, gone) for key, (_, order, gone) in found.items()} == {
        key: (order, gone) for key, (_, order, gone) in expected.items()
    }
    there = {key: value for key, (value, _, gone) in expected.items() if not gone}
    assert {key: found[key][0] for key in there} == there
    assert len(found) > 20
