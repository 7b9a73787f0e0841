"""XA ids, server versions, error classes and TLS of the MySQL and MariaDB sink: what needs no server."""

from __future__ import annotations

import pickle

import psycopg
import pytest
from sqlalchemy.dialects import mysql

from connectors.api.tls import Protection
from connectors.bad_values import bad_value
from connectors.sql.mysql import xa
from connectors.sql.mysql.address import connect_arguments, masked, protection
from connectors.sql.mysql.dialect import Dialect
from connectors.sql.mysql.engine import quote
from connectors.sql.mysql.errors import ServerError, connector_error
from connectors.sql.postgres import address
from connectors.sql.postgres.errors import ServerError as PostgresError
from connectors.sql.postgres.errors import server_error
from connectors.sql.tables import ddl
from connectors.sql.two_phase.permits import TABLES
from eos.errors import (
    BadRowError,
    ConnectorError,
    PrepareError,
    RowLockedError,
    SinkError,
    SinkUnavailableError,
    SpecError,
    TargetError,
)
from twophase.ids import INCARNATION_LENGTH, Scope, TransactionId, sink_key

ID = TransactionId(Scope("a" * INCARNATION_LENGTH, 3, 12, 1), sink_key("warehouse"), 4, 99)
GTRID, BQUAL = str(ID.scope).encode(), ID.branch.encode()


def test_an_id_is_found_again_in_what_each_server_lists() -> None:
    mysql = (xa.FORMAT_ID, len(GTRID), len(BQUAL), "0x" + (GTRID + BQUAL).hex().upper())
    mariadb = (xa.FORMAT_ID, len(GTRID), len(BQUAL), f"'{GTRID.decode()}','{BQUAL.decode()}',{xa.FORMAT_ID}")
    in_hex = (xa.FORMAT_ID, len(GTRID), len(BQUAL), f"X'{GTRID.hex()}',X'{BQUAL.hex()}',{xa.FORMAT_ID}")
    for row in (mysql, mariadb, in_hex):
        branch = xa._branch(row)
        assert branch.transaction == ID
        assert branch.literal == xa.literal(ID)
    assert len(GTRID) <= 64
    assert len(BQUAL) <= 64


@pytest.mark.parametrize(
    "row",
    [
        (1, 5, 0, "0x706C61696E"),
        (1, 5, 0, "'plain'"),
        (77, 3, 1, "0x00FF2780"),
        (77, 3, 1, "X'00ff27',X'80',77"),
        (1, len(GTRID), len(BQUAL), "0x" + (GTRID + BQUAL).hex()),  # our words, another program's format
        (xa.FORMAT_ID, len(GTRID), 0, "0x" + GTRID.hex()),
        (xa.FORMAT_ID, 0, 0, "0x"),
    ],
)
def test_h18_a_foreign_id_is_foreign(row: tuple[object, ...]) -> None:
    branch = xa._branch(row)
    assert branch.transaction is None
    assert branch.literal.endswith(f",{row[0]}")


def test_h18_an_id_of_ours_in_form_only_is_foreign() -> None:
    """Another program may use the format, and bytes that are no text."""
    branch = xa._branch((xa.FORMAT_ID, 3, 1, "0x00FF2780"))
    assert branch.transaction is None
    assert branch.literal == f"X'00ff27',X'80',{xa.FORMAT_ID}"


def test_ids_are_listed_in_the_form_that_survives_any_bytes() -> None:
    assert Dialect("9.7.0").recover == "XA RECOVER CONVERT XID"
    assert Dialect("5.5.5-10.11.2-MariaDB").recover == "XA RECOVER FORMAT='SQL'"


@pytest.mark.parametrize(
    ("greeting", "name", "version"),
    [
        ("9.7.4-2", "MySQL 9.7.4", (9, 7, 4)),
        ("8.0.36-0ubuntu0.22.04.1", "MySQL 8.0.36", (8, 0, 36)),
        ("5.5.5-10.11.19-MariaDB-0+deb12u1-log", "MariaDB 10.11.19", (10, 11, 19)),
        ("11.4.2-MariaDB", "MariaDB 11.4.2", (11, 4, 2)),
    ],
)
def test_a_server_is_known_by_its_greeting(greeting: str, name: str, version: tuple[int, ...]) -> None:
    dialect = Dialect(greeting)
    assert (dialect.name, dialect.version) == (name, version)
    assert dialect.is_mariadb == name.startswith("MariaDB")


def test_how_far_a_timestamp_goes() -> None:
    """Of MySQL it is 32 bits with a sign, whatever its number."""
    greetings = ("9.7.4", "11.4.2-MariaDB", "11.5.0-MariaDB")
    assert [Dialect(each).latest_timestamp[:4] for each in greetings] == ["2038", "2038", "2106"]


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ((0, 2003, 2006, 2013, 1040, 1129, 1053, 1290, 1401, 1927, 4031), SinkUnavailableError),
        ((1205, 1213), RowLockedError),
        ((1048, 1062, 1263, 1264, 1265, 1292, 1366, 1406, 1452, 3140, 3819, 4025), BadRowError),
        ((1216, 1217, 1301, 3150, 3151, 3155, 3157, 3903, 3904, 3905, 3906, 3907), BadRowError),
        ((1044, 1045, 1049, 1142, 1146, 1227, 1665, 3159, 3948), TargetError),
        ((1397, 1399, 1402, 1440, 1613, 1614), PrepareError),
        ((9999,), SinkError),
    ],
)
def test_a_number_decides_the_class(numbers: tuple[int, ...], kind: type[ConnectorError]) -> None:
    for number in numbers:
        error = connector_error("sink warehouse, writing", ServerError(number, "what the server says"))
        assert type(error) is kind
        assert error.remedy
        assert f"error {number}" in error.message
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("value", ["ALERT", "CERTIFICATE_VERIFY_FAILED: expired", "SSL is required but"])
def test_what_a_row_holds_decides_no_class(value: str) -> None:
    """Errors quote values, names of tables and of constraints."""
    text = f"Duplicate entry '{value}' for key 'ALERTS.PRIMARY'"
    assert type(connector_error("sink", ServerError(1062, text))) is BadRowError
    assert type(connector_error("sink", ServerError(1205, text))) is RowLockedError
    for number in (1, 2003, 2013, 2026):
        assert type(connector_error("sink", ServerError(number, f"({value})"))) is TargetError


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        *((code, BadRowError) for code in ("22P02", "23505", "54000", "54001", "P0001")),
        ("55000", TargetError),
        ("55P03", RowLockedError),
        ("54011", SinkError),
    ],
)
def test_a_code_decides_the_class(code: str, kind: type[ConnectorError]) -> None:
    error = PostgresError(code, 'invalid input syntax for type uuid: "prepared transactions are disabled"')
    assert type(error.connector_error("sink")) is kind


def test_a_full_lock_table_names_its_setting() -> None:
    error = PostgresError("53200", "out of shared memory").connector_error("sink")
    assert type(error) is SinkUnavailableError
    assert "max_locks_per_transaction" in error.remedy
    assert "max_locks" not in PostgresError("53200", "out of memory").connector_error("sink").remedy


def test_what_an_error_quotes_is_one_line_that_ends() -> None:
    value = "a\n2026-11-22 10:00:00 WARNING eos.runner: all is well \x1b[2J" + "x" * 9_000
    told = server_error(psycopg.errors.InvalidTextRepresentation(f'invalid input syntax: "{value}"'), closed=False)
    for error in (told.connector_error("sink"), bad_value("id", 7, f"Failed to parse string: '{value}'")):
        assert type(error) is BadRowError
        assert r"\x0a2026-11-22 10:00:00 WARNING eos.runner: all is well \x1b[2Jxxx" in error.message
        assert error.message.isprintable()
        assert len(error.message) < 2_200


def test_names_are_quoted_for_a_format_string() -> None:
    assert quote("a`b%c") == "`a``b%%c`"


def test_a_url_is_shown_without_what_it_hides() -> None:
    url = "mysql+pymysql://user:secret@host/db?ssl_key_password=secret"
    assert masked(url) == "host:3306/db"
    with pytest.raises(SpecError) as failure:
        masked("sqlite:///secret")
    assert "secret" not in str(failure.value)


def test_tls_is_verified_unless_the_url_says_otherwise() -> None:
    def of_mysql(host: str, options: str = "") -> Protection:
        return protection(f"mysql+pymysql://user@{host}/db{options}")

    def of_postgres(host: str, options: str = "") -> Protection:
        return address.protection(f"postgresql://user@{host}/db{options}")

    assert of_mysql("host") is of_postgres("host") is Protection.FULL
    for host in ("localhost", "127.0.0.1", "[::1]", "127.1.2.3", "db.localhost"):
        assert of_mysql(host) is of_postgres(host) is Protection.LOCAL
    for host in ("127.0.0.1.example.com", "localhost.example.com", "10.0.0.1", "[::ffff:1.2.3.4]", "0.0.0.0"):
        assert of_mysql(host) is of_postgres(host) is Protection.FULL
    for options in ("?ssl=true", "?ssl_capath=/etc/ssl/certs", "?ssl_ca=/c", "?ssl_cert=/c&ssl_key=/k"):
        assert of_mysql("localhost", options) is Protection.FULL
    assert of_mysql("host", "?ssl_verify_cert=false") is Protection.UNVERIFIED
    assert of_mysql("host", "?ssl_verify_identity=false") is Protection.ANY_HOST
    assert of_mysql("host", "?ssl_disabled=true") is of_mysql("host", "?ssl=false") is Protection.NONE
    assert of_postgres("localhost", "?sslrootcert=/c") is Protection.FULL
    assert of_postgres("host", "?sslmode=verify-ca") is Protection.ANY_HOST
    assert of_postgres("host", "?sslmode=require") is Protection.UNVERIFIED
    assert of_postgres("host", "?sslmode=prefer") is Protection.NONE
    with pytest.raises(SpecError):
        connect_arguments("mysql+pymysql://user@host/db?ssl_ca=/nowhere")


def test_the_tables_are_as_wide_as_the_ids() -> None:
    text = ddl(TABLES, mysql.dialect())
    assert text.count("ENGINE=InnoDB") == 4
    assert f"incarnation VARCHAR({INCARNATION_LENGTH})" in text
    assert f"sink VARCHAR({len(sink_key('x'))})" in text
    assert "PRIMARY KEY (incarnation, sink, checkpoint_id, epoch, attempt, task, task_attempt)" in text
