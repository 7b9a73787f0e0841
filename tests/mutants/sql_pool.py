"""Connections that a worker keeps from task to task: whose they are, in which state, and for how long (R5, H14, H24)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_POOL: Final = "connectors/sql/pool.py"
_WRITER: Final = "connectors/sql/bulk_writer.py"
_TESTS: Final = "tests/connectors/sql/test_pool_played.py::"
_SHARED: Final = (f"{_TESTS}test_tasks_share_a_login_and_each_begins_with_settings_of_its_own",)
_RULE: Final = "docs/reference/sinks.md, Connections"

_HEADROOM: Final = "connectors/sql/headroom.py"
_LIMITS: Final = "integration_tests/test_connection_limits.py::"
_DOCTOR: Final = "docs/explanation/scale.md, Many pipelines"

MUTANTS: Final = (
    Mutant(
        name="a connection is kept as a task has left it",
        rule=_RULE,
        path=_POOL,
        before="        connection.reset()\n",
        after="        pass\n",
        caught_by=_SHARED,
    ),
    Mutant(
        name="a kept connection is used without a look at whether it stands, and without settings",
        rule="R5",
        path=_POOL,
        before="            idle.renew()\n",
        after="            pass\n",
        caught_by=_SHARED,
    ),
    Mutant(
        name="a task fails where the server has ended its kept connection",
        rule=_RULE,
        path=_POOL,
        before="            idle.close()\n            forget(login)\n",
        after="            raise\n",
        caught_by=(f"{_TESTS}test_a_connection_that_the_server_has_ended_is_replaced",),
    ),
    Mutant(
        name="a connection that could not be reset is kept",
        rule=_RULE,
        path=_POOL,
        before="        connection.close()\n        forget(login)\n        return\n",
        after="        forget(login)\n",
        caught_by=(f"{_TESTS}test_what_a_task_did_is_done_where_its_connection_cannot_be_reset",),
    ),
    Mutant(
        name="a task that failed leaves the connections beside its own idle",
        rule=_RULE,
        path=_WRITER,
        before="            pool.forget(self._login)\n",
        after="            pass\n",
        caught_by=(f"{_TESTS}test_a_connection_of_a_task_that_failed_is_closed_with_the_idle_ones",),
    ),
    Mutant(
        name="a connection that has prepared an XA branch is reset and kept",
        rule="H24",
        path="connectors/sql/mysql/xa.py",
        before="    if session.dialect.is_mariadb:\n        return False\n",
        after="    if session.dialect.is_mariadb:\n        return True\n",
        caught_by=(f"{_TESTS}test_a_connection_that_prepared_on_mariadb_is_closed",),
    ),
    Mutant(
        name="each task logs in to PostgreSQL",
        rule=_RULE,
        path="connectors/sql/postgres/writer.py",
        before="        return True\n\n\nclass PostgresDirectWriter",
        after="        return False\n\n\nclass PostgresDirectWriter",
        caught_by=_SHARED,
    ),
    Mutant(
        name="a connection is used under another password",
        rule=_RULE,
        path=_POOL,
        before="        return cls(_place(url), url, ",
        after="        return cls(_place(url), _place(url), ",
        caught_by=(f"{_TESTS}test_other_credentials_close_the_connection_and_get_their_own",),
    ),
    Mutant(
        name="a connection is used although a file with its credentials has changed",
        rule=_RULE,
        path=_POOL,
        before="tuple(_states(files)), settings)",
        after="(), settings)",
        caught_by=(f"{_TESTS}test_a_certificate_or_password_in_a_file_that_has_changed_is_used",),
    ),
    Mutant(
        name="connections under older credentials stay open",
        rule=_RULE,
        path=_POOL,
        before="    _close_where(pool, login.replaces)\n",
        after="",
        caught_by=(f"{_TESTS}test_other_credentials_close_the_connection_and_get_their_own",),
    ),
    Mutant(
        name="a connection with the patience of another sink is used",
        rule="H17",
        path=_POOL,
        before="tuple(_states(files)), settings)",
        after="tuple(_states(files)), ())",
        caught_by=(f"{_TESTS}test_another_login_is_not_shared_and_closes_nothing",),
    ),
    Mutant(
        name="a writer gives its connection back under the credentials of a later moment",
        rule=_RULE,
        path=_WRITER,
        before="            pool.give_back(self._login, session, most_s)\n",
        after="            pool.give_back(self._find_login(), session, most_s)\n",
        caught_by=(f"{_TESTS}test_the_connection_of_a_writer_is_of_the_login_at_its_first_row",),
    ),
    Mutant(
        name="a forked process speaks on its parent's connections",
        rule=_RULE,
        path=_POOL,
        before="    if _pool.process != os.getpid():\n",
        after="    if _pool is None:\n",
        caught_by=(f"{_TESTS}test_a_forked_process_uses_no_connection_of_its_parents",),
    ),
    Mutant(
        name="an idle connection stays until it is old",
        rule=_RULE,
        path=_POOL,
        before="    until_s = min(now_s + IDLE_S, connection.opened_s + most_s)\n",
        after="    until_s = connection.opened_s + most_s\n",
        caught_by=(f"{_TESTS}test_a_connection_that_is_idle_for_too_long_is_closed",),
    ),
    Mutant(
        name="a connection that is used often is never replaced",
        rule=_RULE,
        path=_POOL,
        before="    until_s = min(now_s + IDLE_S, connection.opened_s + most_s)\n",
        after="    until_s = now_s + IDLE_S\n",
        caught_by=(f"{_TESTS}test_a_connection_is_replaced_when_it_is_old",),
    ),
    Mutant(
        name="a worker keeps any number of connections",
        rule=_RULE,
        path=_POOL,
        before="        surplus = [pool.idle.pop(0)] if len(pool.idle) > MOST_IDLE else []\n",
        after="        surplus: list[_Idle] = []\n",
        caught_by=(f"{_TESTS}test_at_most_so_many_connections_are_kept",),
    ),
    Mutant(
        name="a kept connection to MySQL speaks the server's character set",
        rule="docs/reference/sinks.md, Values",
        path="connectors/sql/mysql/connection.py",
        before="        self.set_character_set(self.charset, self.collation)\n",
        after="",
        caught_by=(f"{_TESTS}test_a_connection_to_mysql_that_was_reset_is_told_its_character_set",),
    ),
    Mutant(
        name="connections that workers keep are not counted",
        rule=_DOCTOR,
        path=_HEADROOM,
        before="_WORKERS: Final = 2\n",
        after="_WORKERS: Final = 1\n",
        caught_by=(f"{_LIMITS}test_a_role_and_a_database_of_postgresql_with_too_few",),
    ),
    Mutant(
        name="sinks that share a server are looked at one by one",
        rule=_DOCTOR,
        path=_HEADROOM,
        before="if _place(limit.of, each) == _place(limit.of, one)]",
        after="if each is one]",
        caught_by=(f"{_LIMITS}test_sinks_and_head_on_one_server_are_added_up_and_those_of_another_are_not",),
    ),
    Mutant(
        name="connections that are in use count as free",
        rule=_DOCTOR,
        path=_HEADROOM,
        before="    free = limit.most - limit.reserved - limit.used\n",
        after="    free = limit.most - limit.reserved\n",
        caught_by=(f"{_LIMITS}test_a_user_of_mariadb_with_too_few",),
    ),
    Mutant(
        name="a limit of the database is not looked at",
        rule=_DOCTOR,
        path="connectors/sql/postgres/kind.py",
        before='        found += [Limit("CONNECTION LIMIT", "database", int(most), int(used)) for most, used in of_database]\n',
        after="",
        caught_by=(f"{_LIMITS}test_a_role_and_a_database_of_postgresql_with_too_few",),
    ),
)
