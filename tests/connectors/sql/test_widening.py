"""Wider types: each holds all values of the column and of the rows, and a column that is fixed keeps its type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.sql.exact_numbers import ExactNumbers
from connectors.sql.mysql import target as mysql_target
from connectors.sql.mysql import widening as mysql
from connectors.sql.mysql.fit import plan_columns as mysql_fit
from connectors.sql.mysql.types import TYPES as MYSQL_TYPES
from connectors.sql.postgres import target as postgres_target
from connectors.sql.postgres import widening as postgres
from connectors.sql.postgres.types import TYPES as POSTGRES_TYPES
from connectors.sql.schema_match import RowColumn, row_columns
from connectors.sql.schema_migration import DeclaredTypes, SchemaMigrator
from connectors.sql.statements import StatementError
from connectors.sql.widening import TableWidening, Widener
from eos.errors import ConnectorError, SinkUnavailableError, TargetError


def in_mysql(declared: str, **facts: Any) -> mysql_target.TargetColumn:
    name, digits = re.fullmatch(r"(\w+)(?:\(([\d,]+)\))?.*", declared).groups()  # type: ignore[union-attr]
    precision, _, scale = (digits or "").partition(",")
    found = mysql_target.TargetColumn("v", name, declared, True, False, False)
    return replace(found, precision=int(precision or 0), scale=int(scale or 0), **facts)


_NAMES = {"smallint": "int2", "integer": "int4", "bigint": "int8", "real": "float4", "double precision": "float8"}


def in_postgres(shown: str, **facts: Any) -> postgres_target.TargetColumn:
    found = postgres_target.TargetColumn("v", _NAMES.get(shown, shown), shown, True, False, False, False)
    if digits := re.fullmatch(r"numeric\((\d+),(-?\d+)\)", shown):
        found = replace(found, type="numeric", precision=int(digits[1]), scale=int(digits[2]))
    return replace(found, **facts)


D = pa.decimal128
MYSQL = [
    ("tinyint(4)", pa.int16(), "smallint"),
    ("smallint(6)", pa.int32(), "int"),
    ("mediumint(9)", pa.int32(), "int"),
    ("int(11)", pa.int64(), "bigint"),
    ("int", pa.int64(), "bigint"),
    ("int", pa.uint16(), None),
    ("int", pa.uint32(), "bigint"),
    ("smallint", pa.int8(), None),
    ("bigint", pa.uint64(), None),  # no whole number holds both, and the rows are whole
    ("tinyint unsigned", pa.int8(), "smallint"),
    ("int unsigned", pa.int32(), "bigint"),
    ("int unsigned", pa.uint64(), "bigint unsigned"),
    ("bigint unsigned", pa.int64(), None),
    ("int", D(9, 0), None),
    ("int", D(10, 0), "bigint"),
    ("int", D(18, 0), "bigint"),
    ("int", D(19, 0), "decimal(19,0)"),
    ("int", D(9, 2), "decimal(12,2)"),
    ("tinyint", D(1, 1), "decimal(4,1)"),
    ("bigint unsigned", D(20, 0), "decimal(20,0)"),
    ("bigint", D(38, 30), "decimal(49,30)"),
    ("bigint", D(38, 31), None),
    ("decimal(10,2)", D(10, 2), None),
    ("decimal(10,2)", D(12, 2), "decimal(12,2)"),
    ("decimal(10,2)", D(10, 4), "decimal(12,4)"),
    ("decimal(10,2)", D(5, 4), "decimal(12,4)"),
    ("decimal(10,2)", pa.int32(), "decimal(12,2)"),
    ("decimal(12,2)", pa.int32(), None),
    ("decimal(2,2)", D(3, 3), "decimal(3,3)"),
    ("decimal(10,2) unsigned", D(10, 2), "decimal(10,2)"),
    ("decimal(9,2) unsigned", pa.uint32(), "decimal(12,2) unsigned"),
    ("decimal(60,20)", pa.decimal256(70, 2), None),
    ("decimal(40,30)", D(38, 0), None),
    ("float", pa.float64(), "double"),
    ("float", pa.float32(), None),
    ("float", pa.int16(), None),
    ("float", pa.int32(), "double"),
    ("float", pa.int64(), None),
    ("float unsigned", pa.float32(), "double"),
    ("double unsigned", pa.float64(), "double"),
    ("double", pa.float64(), None),
    ("float(7,4)", pa.float64(), None),
    ("double(7,4)", pa.float64(), None),
    # What is of another family, or fixed.
    ("tinyint(1)", pa.int64(), None),
    ("int(8) unsigned zerofill", pa.int64(), None),
    ("int", pa.float64(), None),
    ("int", pa.string(), None),
    ("int", pa.bool_(), None),
    ("decimal(10,2)", pa.float64(), None),
    ("float", D(9, 2), None),
    ("varchar(80)", pa.string(), None),
    ("varchar(80)", pa.int64(), None),
    ("bit(8)", pa.int64(), None),
    ("datetime", pa.timestamp("us"), None),
]
POSTGRES = [
    ("smallint", pa.int32(), "integer"),
    ("smallint", pa.uint16(), "integer"),
    ("integer", pa.int64(), "bigint"),
    ("integer", pa.uint32(), "bigint"),
    ("bigint", pa.uint64(), None),
    ("bigint", pa.int8(), None),
    ("integer", D(18, 0), "bigint"),
    ("integer", D(19, 0), "numeric(19,0)"),
    ("integer", D(9, 2), "numeric(12,2)"),
    ("bigint", pa.decimal256(76, 38), "numeric(76,38)"),
    ("numeric(10,2)", D(10, 4), "numeric(12,4)"),
    ("numeric(10,2)", pa.int32(), "numeric(12,2)"),
    ("numeric(10,2)", pa.uint64(), "numeric(22,2)"),
    ("numeric(1000,2)", pa.decimal256(76, 38), None),
    ("numeric", D(38, 10), None),
    ("numeric(3,-2)", pa.int8(), None),
    ("numeric(3,5)", D(9, 2), None),
    ("real", pa.float64(), "double precision"),
    ("real", pa.float32(), None),
    ("real", pa.int16(), None),
    ("real", pa.int32(), "double precision"),
    ("real", pa.int64(), None),
    ("double precision", pa.float64(), None),
    ("integer", pa.float64(), None),
    ("integer", pa.string(), None),
    ("numeric(10,2)", pa.float64(), None),
    ("real", D(9, 2), None),
    ("character varying(80)", pa.string(), None),
]


@pytest.mark.parametrize(("declared", "kind", "expected"), MYSQL, ids=str)
def test_wider_types_of_mysql(declared: str, kind: pa.DataType, expected: str | None) -> None:
    found = mysql.wider(kind, in_mysql(declared))
    assert (found and found.declared) == expected
    if found is not None:
        assert found == in_mysql(found.declared) or found.type != "decimal"
        assert mysql.wider(kind, in_mysql(found.declared)) is None, "a second start has nothing to do"
        rows = row_columns("s", pa.schema([("v", kind)]), {}, None)
        assert mysql_fit(rows, mysql_target.Target("d", "t", "InnoDB", (found,), ())).problems == []


@pytest.mark.parametrize(("declared", "kind", "expected"), POSTGRES, ids=str)
def test_wider_types_of_postgresql(declared: str, kind: pa.DataType, expected: str | None) -> None:
    found = postgres.wider(kind, in_postgres(declared))
    assert (found and found.declared) == expected
    if found is not None:
        assert found == in_postgres(found.declared)
        assert postgres.wider(kind, found) is None


@pytest.mark.parametrize("fact", ["generated", "automatic"])
def test_a_column_that_the_server_fills_keeps_its_type(fact: str) -> None:
    assert mysql.wider(pa.int64(), in_mysql("int", **{fact: True})) is None
    assert postgres.wider(pa.int64(), in_postgres("integer", **{fact: True})) is None


def test_a_domain_keeps_its_type() -> None:
    assert postgres.wider(pa.int64(), in_postgres("integer", declared="shop.positive")) is None
    assert postgres.wider(D(12, 2), in_postgres("numeric(10,2)", declared="money_of_ours")) is None


@pytest.mark.parametrize(
    ("declared", "kind", "expected"),
    [
        ("int", pa.int64(), "bigint"),
        ("int", D(18, 0), "bigint"),
        ("int", D(19, 0), None),
        ("decimal(9,2)", D(12, 2), None),
        ("float", pa.float64(), None),
    ],
)
def test_in_a_unique_index_a_whole_number_becomes_another_one(
    declared: str, kind: pa.DataType, expected: str | None
) -> None:
    found = mysql.wider(kind, in_mysql(declared), True)
    assert (found and found.declared) == expected
    of_postgres = {"int": "integer", "decimal(9,2)": "numeric(9,2)", "float": "real"}[declared]
    other = postgres.wider(kind, in_postgres(of_postgres), True)
    assert (other and other.declared) == expected


# Every value of both types is one of the wider type: by a reading of the types that the product does not share.

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "integer": 32, "bigint": 64}


def holds(declared: str, value: Fraction) -> bool:
    unsigned = declared.endswith(" unsigned")
    base, _, digits = declared.removesuffix(" unsigned").partition("(")
    if unsigned and value < 0:
        return False
    if base in _BITS:
        least, most = (0, 2 ** _BITS[base] - 1) if unsigned else (-(2 ** (_BITS[base] - 1)), 2 ** (_BITS[base] - 1) - 1)
        return value == int(value) and least <= value <= most
    precision, scale = map(int, digits.rstrip(")").split(","))
    shifted = value * 10**scale
    return bool(shifted == int(shifted) and abs(shifted) < 10**precision)


def edges(declared: str) -> list[Fraction]:
    """The extremes of a type, and its finest step."""
    unsigned = declared.endswith(" unsigned")
    base, _, digits = declared.removesuffix(" unsigned").partition("(")
    if base in _BITS:
        bits = _BITS[base]
        return [
            *map(Fraction, (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)),
            Fraction(1),
        ]
    precision, scale = map(int, digits.rstrip(")").split(","))
    found = [Fraction(10**precision - 1, 10**scale), Fraction(1, 10**scale)]
    return found if unsigned else [*found, *(-each for each in found)]


def edges_of(kind: pa.DataType) -> list[Fraction]:
    if pa.types.is_decimal(kind):
        return edges(f"decimal({kind.precision},{kind.scale})")
    signed = pa.types.is_signed_integer(kind)
    bits = kind.bit_width
    return list(map(Fraction, (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)))


def decimals(most: int, deepest: int) -> st.SearchStrategy[tuple[int, int]]:
    digits = st.integers(1, most)
    return digits.flatmap(lambda p: st.tuples(st.just(p), st.integers(0, min(p, deepest))))


WHOLE = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
KINDS = st.sampled_from(WHOLE) | decimals(38, 38).map(lambda digits: D(*digits))
MYSQL_COLUMNS = st.tuples(
    st.sampled_from(["tinyint", "smallint", "mediumint", "int", "bigint"])
    | decimals(65, 30).map(lambda digits: f"decimal({digits[0]},{digits[1]})"),
    st.sampled_from(["", " unsigned"]),
).map("".join)
POSTGRES_COLUMNS = st.sampled_from(["smallint", "integer", "bigint"]) | decimals(1000, 40).map(
    lambda digits: f"numeric({digits[0]},{digits[1]})"
)


def _check(declared: str, kind: pa.DataType, found: str | None) -> None:
    values = [*edges(declared), *edges_of(kind)]
    if found is not None:
        assert all(holds(found, value) for value in values)
        assert not all(holds(declared, value) for value in values), "it was wide enough"


@given(declared=MYSQL_COLUMNS, kind=KINDS, in_key=st.booleans())
def test_mysql_loses_no_value(declared: str, kind: pa.DataType, in_key: bool) -> None:
    found = mysql.wider(kind, in_mysql(declared), in_key)
    _check(declared, kind, None if found is None else found.declared)
    if found is None and declared.startswith("decimal") and not in_key:
        whole, scale = max(_whole(declared), _whole_of(kind)), max(_scale(declared), _scale_of(kind))
        fits = all(holds(declared, value) for value in edges_of(kind))
        assert fits or whole + scale > 65 or scale > 30


@given(declared=POSTGRES_COLUMNS, kind=KINDS, in_key=st.booleans())
def test_postgresql_loses_no_value(declared: str, kind: pa.DataType, in_key: bool) -> None:
    found = postgres.wider(kind, in_postgres(declared), in_key)
    _check(declared, kind, None if found is None else found.declared)


def _whole(declared: str) -> int:
    precision, scale = map(int, re.findall(r"\d+", declared))
    return precision - scale


def _scale(declared: str) -> int:
    return int(re.findall(r"\d+", declared)[1])


def _whole_of(kind: pa.DataType) -> int:
    if pa.types.is_decimal(kind):
        return int(kind.precision - kind.scale)
    return max(len(str(abs(int(value)))) for value in edges_of(kind))


def _scale_of(kind: pa.DataType) -> int:
    return kind.scale if pa.types.is_decimal(kind) else 0


def test_a_decimal_of_only_a_fraction_has_a_sign() -> None:
    assert not ExactNumbers.decimal(2, 2, unsigned=True).holds(ExactNumbers.decimal(2, 2))
    assert ExactNumbers.decimal(2, 2).joined(ExactNumbers.decimal(3, 3)).digits == (3, 3)


# MODIFY COLUMN replaces a whole definition.

DEFINITIONS = """\
CREATE TABLE `t` (
  `a` int(11) NOT NULL DEFAULT 7 COMMENT 'of 100%, a `b` int\\n\\'s',
  `b` int(11) DEFAULT NULL,
  `c%``d` decimal(10,2) unsigned NOT NULL DEFAULT 1.50 CHECK (`c%``d` > 0),
  `e` bigint(20) DEFAULT (`a` + 1) /*!80023 INVISIBLE */,
  PRIMARY KEY (`a`)
) ENGINE=InnoDB"""


def test_a_definition_keeps_all_but_its_type() -> None:
    def changed(name: str, declared: str, new: str) -> str:
        return mysql.with_type(DEFINITIONS, replace(in_mysql(declared), name=name), new) % ()

    assert changed("a", "int(11)", "bigint") == "`a` bigint NOT NULL DEFAULT 7 COMMENT 'of 100%, a `b` int\\n\\'s'"
    assert changed("b", "int(11)", "bigint") == "`b` bigint DEFAULT NULL"
    found = changed("c%`d", "decimal(10,2) unsigned", "decimal(12,4) unsigned")
    assert found == "`c%``d` decimal(12,4) unsigned NOT NULL DEFAULT 1.50 CHECK (`c%``d` > 0)"
    found = changed("e", "bigint(20)", "decimal(20,0)")
    assert found == "`e` decimal(20,0) DEFAULT (`a` + 1) /*!80023 INVISIBLE */"


@pytest.mark.parametrize(("name", "declared"), [("a", "int"), ("x", "int(11)"), ("b", "bigint(20)")])
def test_a_definition_that_does_not_show_the_type_is_refused(name: str, declared: str) -> None:
    """Also if the type is only the beginning of the type that is shown."""
    column = replace(in_mysql(declared), name=name)
    with pytest.raises(TargetError, match="SHOW CREATE TABLE does not show column"):
        mysql.with_type(DEFINITIONS, column, "bigint")


# The step of a start.


class Refusal(StatementError):
    """An error of a server."""

    def __init__(self, text: str, *, later: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self._later = later

    def connector_error(self, doing: str) -> ConnectorError:
        """See StatementError."""
        return SinkUnavailableError(doing) if self._later else TargetError(doing)

    disconnected = lock_wait = duplicate_key = in_doubt = rolled_back = False
    missing_table = access_denied = False


ROWS = pa.schema([("id", pa.int64()), ("price", D(12, 4)), ("note", pa.string())])


@dataclass
class Place:
    """A table that statements change, and other drivers between them."""

    columns: tuple[mysql_target.TargetColumn, ...]
    ran: list[str] = field(default_factory=list)
    locked: bool = False
    refusal: Refusal | None = None
    before_lock: Callable[[Place], None] | None = None

    @property
    def table(self) -> mysql_target.Target:
        return mysql_target.Target("d", "t", "InnoDB", self.columns, ())

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        del values
        if self.refusal is not None:
            raise self.refusal
        self.ran.append(statement)
        for name, declared in re.findall(r"MODIFY `(\w+)` (\w+(?:\(\d+,\d+\))?)", statement):
            assert self.locked
            self.columns = tuple(
                replace(in_mysql(declared), name=name) if each.name == name else each for each in self.columns
            )
        for name, declared in re.findall(r"ADD COLUMN `(\w+)` (\w+)", statement):
            self.columns += (replace(in_mysql(declared.lower()), name=name),)
        return []

    def widened(self, table: mysql_target.Target, rows: list[RowColumn]) -> mysql_target.Target:
        return mysql.MySqlWidener(None).widened(table, rows)  # type: ignore[arg-type]  # sends no query

    def statement(self, table: mysql_target.Target, wider: mysql_target.Target) -> str:
        changes = [
            f"MODIFY `{new.name}` {new.declared}"
            for old, new in zip(table.columns, wider.columns, strict=True)
            if old != new
        ]
        return f"ALTER TABLE {table.quoted} {', '.join(changes)}"

    @contextmanager
    def lock(self, table: mysql_target.Target) -> Iterator[None]:
        del table
        if self.before_lock is not None:
            self.before_lock(self)
        self.locked = True
        yield
        self.locked = False


def column(name: str, declared: str, **facts: Any) -> mysql_target.TargetColumn:
    return replace(in_mysql(declared, **facts), name=name)


NARROW = (column("id", "int"), column("price", "decimal(10,2)"))
ALTER = "ALTER TABLE `d`.`t` MODIFY `id` bigint, MODIFY `price` decimal(12,4)"


def migrator(
    place: Place, schema: pa.Schema = ROWS, declared: DeclaredTypes | None = None
) -> SchemaMigrator[mysql_target.Target, Any]:
    rows = row_columns("s", schema, {}, None)
    declared = declared or DeclaredTypes()
    widener: Widener[mysql_target.Target] = place  # type: ignore[assignment]
    widening: TableWidening[mysql_target.Target, Any] = TableWidening(
        widener, rows, declared.types, lambda table, rows: mysql_fit(rows, table)
    )

    def look() -> Any:
        return place.table, mysql_fit(rows, place.table)

    return SchemaMigrator("s", False, True, MYSQL_TYPES, "t", rows, (), look, declared, widening)


def test_columns_are_widened_by_one_statement_and_then_added() -> None:
    place = Place(NARROW)
    planned = migrator(place).plan()
    assert planned == [ALTER, "ALTER TABLE `d`.`t` ADD COLUMN `note` LONGTEXT"]
    ahead = migrator(place).dry_run()
    assert ahead is not None
    assert (ahead[1].problems, place.ran) == ([], [])
    found, _ = migrator(place).make(place)  # type: ignore[arg-type]
    assert found is not None
    assert [each.declared for each in found[0].columns] == ["bigint", "decimal(12,4)", "longtext"]
    assert found[1].problems == []
    assert place.ran == planned
    assert migrator(place).plan() == []


def test_a_type_that_the_spec_declares_stays() -> None:
    place = Place(NARROW)
    planned = migrator(place, declared=DeclaredTypes({"price": "DECIMAL(10,2)"})).plan()
    assert planned[0] == "ALTER TABLE `d`.`t` MODIFY `id` bigint"


def test_nothing_changes_where_that_would_not_be_enough() -> None:
    place = Place((*NARROW, column("note", "int", nullable=False)))
    schema = pa.schema([*[*ROWS][:2], ("note", pa.list_(pa.int8()))])
    assert migrator(place, schema).plan() == []
    found, _ = migrator(place, schema).make(place)  # type: ignore[arg-type]
    assert found is not None
    assert len(found[1].wrong) == 1
    place = Place(NARROW)
    with pytest.raises(TargetError, match="no type of this database holds"):
        migrator(place, pa.schema([*[*ROWS][:2], ("note", pa.duration("s"))])).make(place)  # type: ignore[arg-type]
    assert place.ran == []


def test_another_driver_that_widened_more_is_not_undone() -> None:
    """Its rows have decimals where ours are whole numbers. Our statement would round them."""

    def other(place: Place) -> None:
        place.columns = (column("id", "decimal(20,4)"), place.columns[1])

    place = Place(NARROW, before_lock=other)
    found, _ = migrator(place, pa.schema([*[*ROWS][:2]])).make(place)  # type: ignore[arg-type]
    assert found is not None
    assert [each.declared for each in found[0].columns] == ["decimal(23,4)", "decimal(12,4)"]


@pytest.mark.parametrize("later", [False, True])
def test_a_driver_that_fails_has_failed_only_if_a_column_is_still_narrow(later: bool) -> None:
    def other(place: Place) -> None:
        place.columns = (column("id", "bigint"), column("price", "decimal(12,4)"))
        raise Refusal("lost", later=later)

    beaten = Place(NARROW, before_lock=other)
    schema = pa.schema([*[*ROWS][:2]])
    found, _ = migrator(beaten, schema).make(beaten)  # type: ignore[arg-type]
    assert found is not None
    assert (found[1].problems, beaten.ran) == ([], [])
    failed = Place(NARROW, refusal=Refusal("no right", later=later))
    with pytest.raises(SinkUnavailableError if later else TargetError) as caught:
        migrator(failed, schema).make(failed)  # type: ignore[arg-type]
    assert ALTER in str(caught.value)


def test_without_a_widener_no_type_changes() -> None:
    place = Place(NARROW)
    found, _ = replace(migrator(place), widening=None).make(place)  # type: ignore[arg-type]
    assert found is not None
    assert [each.declared for each in found[0].columns] == ["int", "decimal(10,2)", "longtext"]


def test_names_of_the_types_are_those_that_a_start_creates() -> None:
    for kind in (pa.int16(), pa.int32(), pa.int64(), D(12, 4)):
        ours = MYSQL_TYPES.of(kind)
        assert ours is not None
        assert mysql.wider(kind, in_mysql("tinyint")) == in_mysql(ours.lower()) or kind == D(12, 4)
        theirs = POSTGRES_TYPES.of(kind)
        assert theirs is not None
        assert postgres.wider(kind, in_postgres(theirs.lower())) is None
