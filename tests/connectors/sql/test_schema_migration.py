"""The statements of tables that a start makes, and that every type in them takes what it is made for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from connectors.log.keyed import Upsert
from connectors.spark_types import spark_type
from connectors.sql.mysql import fit as mysql_fit
from connectors.sql.mysql import target as mysql_target
from connectors.sql.mysql.dialect import Dialect
from connectors.sql.mysql.types import types_of
from connectors.sql.postgres import fit as postgres_fit
from connectors.sql.postgres import target as postgres_target
from connectors.sql.postgres.types import TYPES as POSTGRES
from connectors.sql.schema_match import SchemaMatch, row_columns
from connectors.sql.schema_migration import DeclaredTypes, SchemaMigrator, Types
from connectors.sql.sqlite.types import TYPES as SQLITE
from connectors.sql.statements import StatementError
from eos.errors import ConnectorError, SinkUnavailableError, TargetError

MARIADB, MYSQL = types_of(Dialect("5.5.5-10.11.2-MariaDB")), types_of(Dialect("9.7.0"))

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("Group By", pa.string()),
        pa.field("price", pa.decimal128(12, 4), nullable=False),
        ("at", pa.timestamp("us", "UTC")),
        ("100%", pa.binary()),
        ("gone", pa.bool_()),
        pa.field("_partition", pa.int32(), nullable=False),
        pa.field("_offset", pa.int64(), nullable=False),
    ]
)


def maker(types: Types, schema: pa.Schema = SCHEMA, table: str = "orders", **facts: Any) -> SchemaMigrator[Any, Any]:
    upsert = facts.get("upsert")
    rows = row_columns("s", schema, facts.get("renamed", {}), upsert)
    key = upsert.key if upsert else ()
    declared = facts.get("declared", DeclaredTypes())
    return SchemaMigrator("s", True, True, types, table, rows, key, facts.get("look", lambda: None), declared)


def created(types: Types, schema: pa.Schema = SCHEMA, table: str = "orders", **facts: Any) -> str:
    (statement,) = maker(types, schema, table, **facts).plan()
    return statement % ()


def test_a_table_of_rows_that_are_added() -> None:
    assert created(POSTGRES, table='shop.or"ders') == (
        'CREATE TABLE IF NOT EXISTS "shop"."or""ders" ("id" BIGINT NOT NULL, "Group By" TEXT,'
        ' "price" NUMERIC(12,4) NOT NULL, "at" TIMESTAMP(6) WITH TIME ZONE, "100%" BYTEA, "gone" BOOLEAN)'
    )
    assert created(MARIADB, table="shop.or`ders") == (
        "CREATE TABLE IF NOT EXISTS `shop`.`or``ders` (`id` BIGINT NOT NULL, `Group By` LONGTEXT,"
        " `price` DECIMAL(12,4) NOT NULL, `at` DATETIME(6), `100%` LONGBLOB, `gone` BOOLEAN)"
        " ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
    )
    assert created(SQLITE, table="shop.orders") == (
        'CREATE TABLE IF NOT EXISTS "shop.orders" ("id" INTEGER NOT NULL, "Group By" TEXT,'
        ' "price" DECIMAL(12,4) NOT NULL, "at" TEXT, "100%" BLOB, "gone" INTEGER)'
    )


def test_a_key_is_the_primary_key_and_what_only_merging_needs_has_no_column() -> None:
    upsert = Upsert(("Group By", "id"), "gone")
    found = created(MYSQL, upsert=upsert, renamed={"region": "Group By", "at_offset": "_offset"})
    assert "`id` BIGINT NOT NULL, `region` VARCHAR(255) NOT NULL, `price`" in found
    assert "`at_offset` BIGINT NOT NULL, PRIMARY KEY (`region`, `id`)) ENGINE=InnoDB" in found
    assert "COLLATE utf8mb4_0900_bin" in found
    assert "gone" not in found
    assert "_partition" not in found
    assert 'PRIMARY KEY ("Group By", "id")' in created(POSTGRES, upsert=upsert)
    assert '"Group By" VARCHAR(255) NOT NULL' in created(POSTGRES, upsert=upsert)


def test_the_types_that_a_spec_declares() -> None:
    declared = DeclaredTypes({"price": "NUMERIC(10,2)", "_offset": "INT"}, 80)
    assert "`Group By` VARCHAR(80), `price` NUMERIC(10,2) NOT NULL" in created(MYSQL, declared=declared)
    assert '"Group By" VARCHAR(80), "price" NUMERIC(10,2) NOT NULL' in created(POSTGRES, declared=declared)
    assert '"Group By" TEXT, "price" NUMERIC(10,2) NOT NULL' in created(SQLITE, declared=declared)
    upsert, long = Upsert(("Group By", "id"), "gone"), DeclaredTypes(longest_text=4000)
    assert "`Group By` VARCHAR(255) NOT NULL" in created(MYSQL, upsert=upsert, declared=long)
    own = DeclaredTypes({"Group By": "VARCHAR(400)"}, 80)
    assert "`Group By` VARCHAR(400) NOT NULL" in created(MYSQL, upsert=upsert, declared=own)


KINDS = [
    pa.bool_(),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64(), pa.decimal128(38, 0), pa.decimal128(38, 30), pa.decimal128(1, 1)),
    *(pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.binary(), pa.binary(4)),
    *(pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.time64("us")),
    *(pa.list_(pa.int32()), pa.map_(pa.string(), pa.int8()), pa.struct([("a", pa.decimal128(9, 2))])),
]
_BASES = {
    "boolean": "tinyint",
    "double precision": "float8",
    "real": "float4",
    "smallint": "int2",
    "integer": "int4",
    "bigint": "int8",
    "timestamp with time zone": "timestamptz",
}


def _parts(declared: str) -> tuple[str, int, int]:
    """Base, precision and scale of a type, as a server's catalog has them."""
    text, _, behind = declared.lower().partition("(")
    digits, _, rest = behind.partition(")")
    base = (text + rest).strip().removesuffix(" unsigned")
    precision, _, scale = digits.partition(",")
    return base, int(precision or 0), int(scale or 0)


def fits_mysql(kind: pa.DataType, declared: str) -> list[str]:
    base, precision, scale = _parts(declared)
    base = _BASES.get(base, base) if base == "boolean" else base
    column = mysql_target.TargetColumn("v", base, declared.lower(), True, False, False, False, "", precision, scale, 6)
    rows = row_columns("s", pa.schema([("v", kind)]), {}, None)
    return mysql_fit.plan_columns(rows, mysql_target.Target("d", "t", "InnoDB", (column,), ())).problems


def fits_postgres(kind: pa.DataType, declared: str) -> list[str]:
    base, precision, scale = _parts(declared)
    base = {"boolean": "bool"}.get(base) or _BASES.get(base, base)
    column = postgres_target.TargetColumn(
        "v", base, declared, True, False, False, False, None, precision or None, scale
    )
    rows = row_columns("s", pa.schema([("v", kind)]), {}, None)
    return postgres_fit.plan_columns(rows, postgres_target.Target("s", "t", "p", (column,), ())).problems


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("in_key", [False, True], ids=["", "in a key"])
@pytest.mark.parametrize(("types", "fits"), [(MYSQL, fits_mysql), (POSTGRES, fits_postgres)], ids=["mysql", "postgres"])
def test_what_is_made_for_a_type_takes_it(
    kind: pa.DataType, in_key: bool, types: Types, fits: Callable[[pa.DataType, str], list[str]]
) -> None:
    declared = types.of(kind, in_key=in_key)
    if declared is None:
        assert in_key
        assert pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_time(kind)
    else:
        assert fits(kind, declared) == []


@pytest.mark.parametrize("types", [MYSQL, MARIADB, POSTGRES, SQLITE], ids=["mysql", "mariadb", "postgres", "sqlite"])
@pytest.mark.parametrize("kind", [pa.duration("us"), pa.null()], ids=str)
def test_a_type_that_nothing_holds_is_refused(types: Types, kind: pa.DataType) -> None:
    with pytest.raises(TargetError, match=f"no type of this database holds {re.escape(spark_type(kind))} unaltered"):
        created(types, pa.schema([("v", kind)]))


def test_what_else_is_refused() -> None:
    with pytest.raises(TargetError, match=r"holds DECIMAL\(38,31\) unaltered, for column 'v'"):
        created(MYSQL, pa.schema([("v", pa.decimal128(38, 31))]))
    with pytest.raises(TargetError, match="no type of a key of this database holds ARRAY<"):
        created(MYSQL, pa.schema([("v", pa.list_(pa.int8()))]), upsert=Upsert(("v",)))
    with pytest.raises(TargetError, match="has 63 bytes at most"):  # the server would cut it off in silence
        created(POSTGRES, pa.schema([("ü" * 32, pa.int64())]))
    assert created(POSTGRES, pa.schema([("ü" * 31, pa.int64())]))
    with pytest.raises(TargetError, match="no column for a table"):
        created(SQLITE, pa.schema([("_offset", pa.int64())]))


@dataclass(frozen=True)
class Found:
    """A table that exists."""

    quoted: str = "`100%% t`"


def test_columns_that_are_lacking_may_be_null_and_nothing_is_added_where_that_is_not_enough() -> None:
    rows = row_columns("s", SCHEMA, {}, None)
    price, percent = rows[2], rows[4]
    fits: SchemaMatch[Any] = SchemaMatch((), (price, percent), (), (), rows)
    statements = maker(MYSQL, look=lambda: (Found(), fits)).plan()
    assert [each % () for each in statements] == [
        "ALTER TABLE `100% t` ADD COLUMN `price` DECIMAL(12,4)",
        "ALTER TABLE `100% t` ADD COLUMN `100%` LONGBLOB",
    ]
    assert maker(MYSQL, look=lambda: (Found(), SchemaMatch((), (price,), ("is wrong",), (), rows))).plan() == []
    keyed = maker(MYSQL, look=lambda: (Found(), fits), upsert=Upsert(("price",)))
    assert len(keyed.plan()) == 1
    foreseen = keyed.dry_run()
    assert foreseen is not None
    assert foreseen[1].lacking == (price,)


def test_a_type_that_does_not_fit_comes_with_the_statement_that_changes_it() -> None:
    (problem,) = fits_mysql(pa.float64(), "INT")
    assert problem.endswith("cast it in a transform, or change the table: ALTER TABLE `d`.`t` MODIFY COLUMN `v` DOUBLE")
    (problem,) = fits_postgres(pa.string(), "INTEGER")
    assert problem.endswith('or change the table: ALTER TABLE "s"."t" ALTER COLUMN "v" TYPE TEXT')
    (problem,) = fits_mysql(pa.duration("s"), "INT")
    assert problem.endswith("cast it in a transform")


class Refusal(StatementError):
    """What a server says, and what it means."""

    def __init__(self, text: str, *, later: bool) -> None:
        super().__init__(text)
        self.text = text
        self._later = later

    def connector_error(self, doing: str) -> ConnectorError:
        """See StatementError."""
        return SinkUnavailableError(doing) if self._later else TargetError(doing)

    disconnected = lock_wait = duplicate_key = in_doubt = rolled_back = False
    missing_table = access_denied = False


@dataclass
class Server:
    """Refuses a statement; somebody else may have done it by then."""

    refusal: Refusal
    done: bool
    asked: int = 0

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        del statement, values
        self.asked += 1
        raise self.refusal

    def look(self) -> tuple[str, SchemaMatch[Any]] | None:
        return ("the table", SchemaMatch((), (), (), (), ())) if self.done and self.asked else None


@pytest.mark.parametrize("later", [False, True])
def test_who_fails_has_failed_only_if_it_is_not_done(later: bool) -> None:
    beaten = Server(Refusal("exists", later=later), done=True)
    assert maker(POSTGRES, look=beaten.look).make(beaten) == (beaten.look(), ())  # type: ignore[arg-type]
    failed = Server(Refusal("no right", later=later), done=False)
    with pytest.raises(SinkUnavailableError if later else TargetError) as caught:
        maker(POSTGRES, look=failed.look).make(failed)  # type: ignore[arg-type]
    assert (beaten.asked, failed.asked) == (1, 1)
    assert 'CREATE TABLE IF NOT EXISTS "orders"' in str(caught.value)


@pytest.mark.parametrize(
    ("name", "readings"),
    [
        ("t" * 63, [(None, "t" * 63)]),
        ("t" * 64, []),
        ("\u00e9" * 32, []),
        ("s." + "t" * 63, [("s", "t" * 63)]),
        ("s" * 64 + ".t", []),
    ],
)
def test_postgresql_is_given_no_name_that_it_would_cut_off(name: str, readings: list[tuple[str | None, str]]) -> None:
    """It would find the table of another name."""
    assert postgres_target._readings(name) == readings
