"""`commit: upsert`: tables that rows cannot be merged into are refused before the first record, or at the latest before
a row of another key is touched."""

from __future__ import annotations

import datetime
import secrets
from decimal import Decimal

import pyarrow as pa
import pytest
import sqlalchemy

from connectors.log.keyed import Upsert
from eos.errors import BadRowError, TargetError
from integration_tests.merging import EVERY, LONG, Make, Merging
from integration_tests.merging import make as make
from integration_tests.services import Services
from integration_tests.services.postgres_native import Postgres

KV = [("k", LONG), ("v", LONG)]


@pytest.mark.parametrize("kind", ["mysql"])
def test_another_index_that_is_made_while_a_checkpoint_waits(make: Make) -> None:
    """ON DUPLICATE KEY would take the row of another key for the one of ours, and write over it."""
    made = make("k BIGINT PRIMARY KEY, v BIGINT", KV, "k").start()
    made.checkpoint(0, [(1, 7, 0, 1, False)])
    made.decide(1, [(2, 7, 0, 2, False)])
    made.execute("CREATE UNIQUE INDEX other ON merged (v)")
    with pytest.raises(TargetError, match="unique index other is on other columns"):
        made.commit(1)
    assert made.rows() == [(1, 7)]
    made.execute("DROP INDEX other ON merged")
    made.commit(1)
    assert made.rows() == [(1, 7), (2, 7)]


@EVERY
def test_another_key_while_a_checkpoint_waits(make: Make) -> None:
    made = make("k BIGINT, v BIGINT", KV, "k")
    made.execute("CREATE UNIQUE INDEX by_k ON merged (k)")
    made.start()
    made.checkpoint(0, [(1, 7, 0, 1, False), (2, 8, 0, 2, False)])
    made.decide(1, [(3, 7, 0, 3, False), (2, 0, 0, 4, True)])
    made.execute("DROP INDEX by_k" + (" ON merged" if made.kind == "mysql" else ""))
    made.execute("CREATE UNIQUE INDEX by_v ON merged (v)")
    with pytest.raises(TargetError):
        made.commit(1)
    assert made.rows() == [(1, 7), (2, 8)]


INDEXES = {
    "of some rows": "CREATE UNIQUE INDEX i ON merged (k) WHERE v > 0",
    "deferrable": "ALTER TABLE merged ADD UNIQUE (k) DEFERRABLE",
    "of a column that is called like it": 'ALTER TABLE merged ADD "K" BIGINT UNIQUE',
    "an expression": "CREATE UNIQUE INDEX i ON merged ((k + 1))",
    "an exclusion": "ALTER TABLE merged ADD EXCLUDE USING btree (k WITH =)",
}


@pytest.mark.parametrize("kind", ["postgresql"])
@pytest.mark.parametrize("case", INDEXES)
def test_an_index_that_on_conflict_would_not_find(make: Make, case: str) -> None:
    """The server says so only when rows are decided."""
    made = make("k BIGINT, v BIGINT", KV, "k")
    made.execute(INDEXES[case])
    with pytest.raises(TargetError, match="no unique index is on k and nothing else"):
        made.start()


@pytest.mark.parametrize("kind", ["postgresql"])
@pytest.mark.parametrize("event", ["INSERT", "UPDATE", "DELETE"])
def test_a_trigger_that_leaves_rows_out(make: Make, event: str) -> None:
    made = make("k BIGINT PRIMARY KEY, v BIGINT", KV, "k").start()
    made.checkpoint(0, [(1, 7, 0, 1, False)])
    made.execute(
        "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        f"CREATE TRIGGER skips BEFORE {event} ON merged FOR EACH ROW EXECUTE FUNCTION skip()",
    )
    made.decide(1, [(1, 8, 0, 2, event == "DELETE"), (2, 8, 0, 3, False), (3, 8, 0, 3, False)])
    with pytest.raises(BadRowError, match=r"the server merged \d of \d rows and gave no reason"):
        made.commit(1)
    made.execute("DROP TRIGGER skips ON merged")
    made.commit(1)
    assert made.rows() == [*([] if event == "DELETE" else [(1, 8)]), (2, 8), (3, 8)]


@EVERY
def test_a_share_is_merged_as_a_whole_or_not_at_all(make: Make) -> None:
    """Merged twice, rows would look the same: so it is seen that nothing is merged once."""
    made = make("k BIGINT PRIMARY KEY, v BIGINT CHECK (v < 100)", KV, "k").start()
    made.checkpoint(0, [(1, 1, 0, 1, False)])
    made.decide(1, [(2, 2, 0, 3, False), (1, 1, 0, 5, True)], [], [(3, 100, 0, 4, False)])
    for _ in range(2):
        with pytest.raises(BadRowError):
            made.commit(1)
        assert made.rows() == [(1, 1)]


def _user(admin_url: str, *statements: str) -> None:
    engine = sqlalchemy.create_engine(admin_url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def _of(made: Merging, user: str) -> str:
    url = sqlalchemy.make_url(made.url).set(username=user, password="eos-test")
    return url.render_as_string(hide_password=False)


ON_TABLE = ("SELECT", "INSERT", "UPDATE", "DELETE")


@pytest.mark.parametrize("kind", ["mysql"])
@pytest.mark.parametrize("missing", ["CREATE TEMPORARY TABLES", *ON_TABLE, None])
def test_rights_that_merging_takes(make: Make, services: Services, missing: str | None) -> None:
    made = make("k BIGINT PRIMARY KEY, v BIGINT", KV, "k").start()
    user, database = f"u{secrets.token_hex(5)}", sqlalchemy.make_url(made.url).database
    grants = [each for each in ("CREATE TEMPORARY TABLES", *ON_TABLE) if each != missing]
    on_table, temporary = ", ".join(each for each in grants if each in ON_TABLE), "CREATE TEMPORARY TABLES" in grants
    more = [f"GRANT CREATE TEMPORARY TABLES ON {database}.* TO {user}"] if temporary else []
    create = f"CREATE USER {user} IDENTIFIED BY 'eos-test'"
    _user(services.admin_database_url, create, f"GRANT {on_table} ON {database}.merged TO {user}", *more)
    try:
        _open(made, user, missing, "denied")
    finally:
        _user(services.admin_database_url, f"DROP USER {user}")


@pytest.mark.parametrize("kind", ["postgresql"])
@pytest.mark.parametrize("missing", ["TEMP", *ON_TABLE, None])
def test_rights_that_merging_takes_of_postgres(make: Make, postgres: Postgres, missing: str | None) -> None:
    made = make("k BIGINT PRIMARY KEY, v BIGINT", KV, "k").start()
    user, database = f"u{secrets.token_hex(5)}", sqlalchemy.make_url(made.url).database
    made.execute(f"REVOKE TEMP ON DATABASE {database} FROM PUBLIC")
    _user(postgres.admin_url, f"CREATE ROLE {user} LOGIN PASSWORD 'eos-test'")
    made.execute(f"GRANT {', '.join(each for each in ON_TABLE if each != missing)} ON merged TO {user}")
    if missing != "TEMP":
        made.execute(f"GRANT TEMP ON DATABASE {database} TO {user}")
    try:
        _open(made, user, missing, "permission denied|INSERT: not allowed")
    finally:
        made.execute(f"REVOKE ALL ON merged FROM {user}")
        made.execute(f"REVOKE ALL ON DATABASE {database} FROM {user}")
        _user(postgres.admin_url, f"DROP ROLE {user}")


def _open(made: Merging, user: str, missing: str | None, refusal: str) -> None:
    """Before the first record it is said what is missing; what no row needs is not asked for."""
    if missing is None:
        made.make(_of(made, user)).open(made.schema)
        return
    with pytest.raises(TargetError, match=refusal):
        made.make(_of(made, user)).open(made.schema)
    if missing == "DELETE":
        made.upsert = Upsert(("k",))
        made.make(_of(made, user)).open(made.schema.remove(made.schema.get_field_index("gone")))


MOMENT = datetime.datetime(2020, 1, 2, 3, 4, 5, 6000)
# By column: how each database declares it, the type of the rows, a value.
KINDS = [
    (("DATE", "DATE", "DATE"), pa.date32(), MOMENT.date()),
    (("DATETIME(3)", "TIMESTAMP(3)", "TEXT"), pa.timestamp("us"), MOMENT),
    (("TIMESTAMP(6)", "TIMESTAMPTZ", "TEXT"), pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=datetime.UTC)),
    (("TIME", "TIME", "TEXT"), pa.time64("us"), datetime.time(1, 2, 3)),
    (("LONGTEXT", "TEXT", "TEXT"), pa.string(), "%s \\ \t\n'"),
    (("VARBINARY(9)", "BYTEA", "BLOB"), pa.binary(), b"\0\xff"),
    (("LONGBLOB", "BYTEA", "BLOB"), pa.binary(), b""),
    (("BIT(8)", "SMALLINT", "INTEGER"), pa.int16(), 3),
    (("JSON", "JSON", "TEXT"), pa.struct([("a", LONG)]), {"a": 1}),
    (("ENUM('a','b')", "CHAR(1)", "TEXT"), pa.string(), "a"),
    (("DECIMAL(10,2)", "NUMERIC(10,2)", "TEXT"), pa.decimal128(10, 2), Decimal("1.50")),
    (("DOUBLE", "DOUBLE PRECISION", "REAL"), pa.float64(), 1.5),
    (("BOOL", "BOOL", "INTEGER"), pa.bool_(), True),
]


@EVERY
def test_columns_of_every_kind_where_nothing_may_be_null(make: Make) -> None:
    """A deletion knows of no value but the key's; a table of rows that are to come has no defaults."""
    of_server = ["mysql", "postgresql", "sqlite"]
    names = [f"c{number}" for number in range(len(KINDS))]
    made = make("", [("k", LONG), *zip(names, (kind for _, kind, _ in KINDS), strict=True)], "k")
    declared = [f"{n} {each[0][of_server.index(made.kind)]} NOT NULL" for n, each in zip(names, KINDS, strict=True)]
    made.execute(f"CREATE TABLE merged (k BIGINT PRIMARY KEY, {', '.join(declared)})")
    made.start()
    row, nothing = [value for *_, value in KINDS], [None for _ in KINDS]
    made.checkpoint(0, [(n, *row, 0, n, False) for n in range(3)])
    first = made.rows()
    assert len(first) == 3
    made.checkpoint(1, [(n, *nothing, 0, n + 10, True) for n in range(2)])
    made.checkpoint(2, [(2, *row, 0, 50, False)])
    assert made.rows() == first[2:]


@EVERY
def test_doctor_finds_nothing_amiss_where_rows_can_be_merged(make: Make) -> None:
    made = make("k BIGINT PRIMARY KEY, v BIGINT", KV, "k")
    found = {each.check: each for each in made.make().check(made.schema)}
    assert not [check for check in found if "constraints" in check and not found[check].ok]
    assert [each for check, each in found.items() if each.fatal and not each.ok and "durab" not in check] == []
    without = made.schema.remove(made.schema.get_field_index("_offset"))
    assert any("the rows have no column _offset" in each.detail for each in made.make().check(without))
