"""What a database server lists, keeps and may be: listings, stuck connections, requirements, TLS (R2, R3, R5 to R7)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_XA: Final = "connectors/sql/mysql/xa.py"
_PATIENCE: Final = "connectors/sql/postgres/patience.py"
_PARTS: Final = "tests/connectors/sql/test_parts.py::"
_PERMITS: Final = "tests/connectors/sql/test_permits_played.py::"
_PRODUCT: Final = "tests/connectors/sql/test_product.py::"
_SLOW: Final = "tests/connectors/sql/test_patience_played.py::"
_FOREIGN: Final = (f"{_PARTS}test_h18_a_foreign_id_is_foreign",)
_ENDED: Final = (f"{_PERMITS}test_r5_a_writer_that_keeps_its_permit_is_ended",)
_NO_PASSWORD: Final = ("tests/connectors/sql/test_database_logins.py::test_mysql_without_tls_gets_no_password",)
_DURABLE: Final = (f"{_PRODUCT}test_r6_a_server_that_may_forget_what_it_has_acknowledged_is_refused",)

MUTANTS: Final = (
    Mutant(
        name="a branch that another program prepared is taken for one of the framework's",
        rule="H18",
        path=_XA,
        before="        if self.format_id != FORMAT_ID or not (",
        after="        if not (",
        caught_by=_FOREIGN,
    ),
    Mutant(
        name="an id in bytes that are no text stops the listing",
        rule="H18",
        path=_XA,
        before=" or not (self.gtrid.isascii() and self.bqual.isascii()):",
        after=":",
        caught_by=(f"{_PARTS}test_h18_an_id_of_ours_in_form_only_is_foreign",),
    ),
    Mutant(
        name="the two parts of an id are told apart by the length of the second",
        rule="H18",
        path=_XA,
        before="return Branch(int(format_id), both[: int(gtrid_length)], both[int(gtrid_length) :])",
        after="return Branch(int(format_id), both[: -int(gtrid_length)], both[-int(gtrid_length) :])",
        caught_by=(f"{_PARTS}test_an_id_is_found_again_in_what_each_server_lists",),
    ),
    Mutant(
        name="XA RECOVER fails where another program's id is binary",
        rule="H18",
        path="connectors/sql/mysql/dialect.py",
        before='"XA RECOVER FORMAT=\'SQL\'" if self.is_mariadb else "XA RECOVER CONVERT XID"',
        after='"XA RECOVER"',
        caught_by=(f"{_PARTS}test_ids_are_listed_in_the_form_that_survives_any_bytes",),
    ),
    Mutant(
        name="what is prepared in another database of the server is listed",
        rule="R3",
        path="connectors/sql/postgres/server.py",
        before='"SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"',
        after='"SELECT gid FROM pg_prepared_xacts"',
        caught_by=(f"{_PERMITS}test_what_is_prepared_is_listed_with_its_sink_and_incarnation_only",),
    ),
    Mutant(
        name="what other incarnations and sinks prepared is listed as this one's",
        rule="R3",
        path="connectors/sql/two_phase/committer.py",
        before="        return found is None or (found.scope.incarnation == incarnation and found.sink == self._sink)",
        after="        return found is None or found.sink == self._sink",
        caught_by=(f"{_PERMITS}test_what_is_prepared_is_listed_with_its_sink_and_incarnation_only",),
    ),
    Mutant(
        name="a driver ends its own connection to MySQL",
        rule="R5",
        path="connectors/sql/mysql/zombie_connections.py",
        before="if thread not in (None, own)}",
        after="if thread is not None}",
        caught_by=_ENDED,
    ),
    Mutant(
        name="a driver ends its own connection to PostgreSQL",
        rule="R5",
        path="connectors/sql/postgres/zombie_connections.py",
        before=" AND pid <> pg_backend_pid()",
        after="",
        caught_by=_ENDED,
    ),
    Mutant(
        name="a connection to MySQL that has gone by itself stops its end",
        rule="R5",
        path="connectors/sql/mysql/zombie_connections.py",
        before="            if error.number != _NO_SUCH_THREAD:\n                raise",
        after="            raise error",
        caught_by=_ENDED,
    ),
    Mutant(
        name="writers of all tries of a checkpoint have one mark",
        rule="R5",
        path="connectors/sql/two_phase/permits.py",
        before='    return f"{scope}/{sink}"',
        after='    return f"{scope.incarnation}/{scope.checkpoint_id}/{sink}"',
        caught_by=(f"{_PERMITS}test_the_mark_of_a_permit_s_writers_is_that_of_the_permit",),
    ),
    Mutant(
        name="a MySQL server that syncs once a second is accepted",
        rule="R6",
        path="connectors/sql/mysql/requirements.py",
        before='yield Finding("innodb_flush_log_at_trx_commit", flush == "1", flush, remedy)',
        after='yield Finding("innodb_flush_log_at_trx_commit", flush != "0", flush, remedy)',
        caught_by=_DURABLE,
    ),
    Mutant(
        name="a MySQL server whose binary log is not synced is accepted",
        rule="R6",
        path="connectors/sql/mysql/requirements.py",
        before='        yield Finding("sync_binlog", sync == "1", sync, remedy)',
        after='        yield Finding("sync_binlog", sync == "1", sync, remedy, fatal=False)',
        caught_by=_DURABLE,
    ),
    Mutant(
        name="a PostgreSQL server that does not sync is accepted",
        rule="R6",
        path="connectors/sql/postgres/requirements.py",
        before='    yield Finding("fsync", found["fsync"] == "on", found["fsync"], f"set fsync = on {SETTINGS}")',
        after='    yield Finding("fsync", found["fsync"] == "on", found["fsync"], f"set fsync = on {SETTINGS}", fatal=False)',
        caught_by=(f"{_PRODUCT}test_pages_that_are_not_written_whole_are_a_warning",),
    ),
    Mutant(
        name="a MySQL server whose branches end with their connection is accepted",
        rule="R5",
        path="connectors/sql/mysql/requirements.py",
        before='        yield Finding("xa_detach_on_prepare", value == "ON", value, ',
        after='        yield Finding("xa_detach_on_prepare", bool(value), value, ',
        caught_by=(f"{_PRODUCT}test_branches_that_stay_with_their_connection_are_refused",),
    ),
    Mutant(
        name="a MySQL server that may lose a branch in a crash is accepted",
        rule="R5",
        path="connectors/sql/mysql/requirements.py",
        before="_MYSQL: Final = (8, 0, 30)",
        after="_MYSQL: Final = (8, 0, 29)",
        caught_by=(f"{_PRODUCT}test_the_oldest_server_that_keeps_what_is_prepared",),
    ),
    Mutant(
        name="a PostgreSQL server that prepares nothing is accepted",
        rule="R5",
        path="connectors/sql/postgres/requirements.py",
        before='    return Finding("max_prepared_transactions", value != "0", value, remedy)',
        after='    return Finding("max_prepared_transactions", value != "", value, remedy)',
        caught_by=(f"{_PRODUCT}test_a_postgresql_server_that_prepares_nothing_is_refused",),
    ),
    Mutant(
        name="a replica of MySQL is accepted",
        rule="R5",
        path="connectors/sql/mysql/requirements.py",
        before='for key in ("read_only", "innodb_read_only") if',
        after='for key in ("read_only",) if',
        caught_by=(f"{_PRODUCT}test_a_server_that_takes_no_writes_is_refused",),
    ),
    Mutant(
        name="a server of PostgreSQL that has just answered is given up",
        rule="R7",
        path=_PATIENCE,
        before="        if (found is Backend.IDLE and self._was_idle) or lasts_s",
        after="        if found is Backend.IDLE or lasts_s",
        caught_by=(f"{_SLOW}test_a_server_that_works_on_nothing_twice_is_given_up_and_ended",),
    ),
    Mutant(
        name="a statement that PostgreSQL works on is given up",
        rule="R7",
        path=_PATIENCE,
        before="        if found is Backend.WORKING:\n",
        after="        if False:\n",
        caught_by=(f"{_SLOW}test_a_server_that_works_is_waited_for",),
    ),
    Mutant(
        name="a connection to PostgreSQL that is given up keeps its locks",
        rule="H17",
        path=_PATIENCE,
        before="                        self.watchdog.kill()\n",
        after="                        pass\n",
        caught_by=(f"{_SLOW}test_a_server_that_works_on_nothing_twice_is_given_up_and_ended",),
    ),
    Mutant(
        name="a server of PostgreSQL that waits for a slow line is given up at once",
        rule="R7",
        path="connectors/sql/postgres/serverside.py",
        before="        return Backend.WAITING if waits_for in _WAITING else Backend.WORKING",
        after="        return Backend.IDLE if waits_for in _WAITING else Backend.WORKING",
        caught_by=(f"{_SLOW}test_a_line_that_is_slow_and_a_server_that_nobody_reaches_have_longer",),
    ),
    Mutant(
        name="a server of PostgreSQL on another machine is not verified",
        rule="docs/how-to/security.md",
        path="connectors/sql/postgres/address.py",
        before='    return {**({} if "sslmode" in query else {"sslmode": "verify-full"}), **authorities}',
        after='    return {**({} if "sslmode" in query else {"sslmode": "prefer"}), **authorities}',
        caught_by=(
            "tests/connectors/sql/test_postgres_connection.py::test_towards_another_machine_the_server_is_verified",
        ),
    ),
    Mutant(
        name="dead letters are read over a connection that knows nothing of TLS",
        rule="docs/how-to/security.md",
        path="connectors/sql/dead_letters.py",
        before="    engine = kind.open_engine(url, 0)\n",
        after="    from sqlalchemy import create_engine\n\n    engine = create_engine(url)\n",
        caught_by=(
            "tests/project/test_database_doors.py::test_a_way_to_another_machine_gives_no_password_without_tls",
        ),
    ),
    Mutant(
        name="a MySQL server that has proved nothing gets the password in clear text",
        rule="docs/how-to/security.md, Logins",
        path="connectors/sql/mysql/connection.py",
        before="        if plugin in _CLEAR and not self._is_verified:",
        after="        if plugin in _CLEAR and self._sock is None:",
        caught_by=_NO_PASSWORD,
    ),
    Mutant(
        name="a MySQL server that has proved nothing says for which key the password is encrypted",
        rule="docs/how-to/security.md, Logins",
        path="connectors/sql/mysql/connection.py",
        before="        if self._sock is None:  # the URL's",
        after="        if self._pinned is None:  # the URL's",
        caught_by=_NO_PASSWORD,
    ),
    Mutant(
        name="a PostgreSQL server that has proved nothing gets the password in clear text",
        rule="docs/how-to/security.md, Logins",
        path="connectors/sql/postgres/address.py",
        before="    return {_REQUIRE_AUTH: str(said)}",
        after="    return {}",
        caught_by=("tests/connectors/sql/test_database_logins.py::test_postgresql_without_tls_gets_no_password",),
    ),
    Mutant(
        name="any certificate of its authority passes for that of a MySQL server",
        rule="docs/how-to/security.md",
        path="connectors/sql/mysql/address.py",
        before="    context.check_hostname = asked is Protection.FULL\n",
        after="    context.check_hostname = False\n",
        caught_by=(
            "tests/connectors/sql/test_mysql_connection.py::test_towards_another_machine_the_server_is_verified",
        ),
    ),
    Mutant(
        name="a password in a URL of MySQL is shown",
        rule="docs/how-to/security.md",
        path="connectors/sql/mysql/address.py",
        before='return place_of(parsed.host or "localhost", ',
        after='return place_of(f"{parsed.password}.{parsed.host}", ',
        caught_by=(f"{_PARTS}test_a_url_is_shown_without_what_it_hides",),
    ),
)
