"""A task's half of a database sink: its transaction, and rows that the server does not take as they were sent (R5)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_WRITER: Final = "connectors/sql/two_phase/writer.py"
_BULK: Final = "connectors/sql/bulk_writer.py"
_DIRECT: Final = "connectors/sql/bulk_writer.py"
_MYSQL: Final = "connectors/sql/mysql/"
_POSTGRES: Final = "connectors/sql/postgres/"
_TESTS: Final = "tests/connectors/sql/test_writer_played.py::"
_PREPARED: Final = (f"{_TESTS}test_r5_rows_and_witness_are_prepared_under_the_permit",)
_LEFT_OUT: Final = (f"{_TESTS}test_rows_that_the_server_leaves_out_are_refused",)
_WARNED: Final = (f"{_TESTS}test_mysql_s_warnings_are_refusals",)
_WHOLE: Final = (f"{_TESTS}test_a_batch_between_savepoints_is_undone_and_those_before_it_stay",)
_FILES: Final = (f"{_TESTS}test_a_server_that_asks_for_a_file_which_nobody_offers_gets_none",)

MUTANTS: Final = (
    Mutant(
        name="a task prepares its rows without a witness",
        rule="R7",
        path=_WRITER,
        before="            tables.insert_witness(session, self._transaction, self._rows)\n",
        after="",
        caught_by=_PREPARED,
    ),
    Mutant(
        name="a task whose permit is gone writes",
        rule="R5",
        path=_WRITER,
        before="        if not permits.lock_permit(session, scope, sink):",
        after="        if permits.lock_permit(session, scope, sink) and False:",
        caught_by=(f"{_TESTS}test_r5_without_its_permit_a_task_writes_nothing",),
    ),
    Mutant(
        name="a task reads its permit without locking it",
        rule="R5",
        path="connectors/sql/two_phase/permits.py",
        before=' AND {unless} {server.for_share}"',
        after=' AND {unless}"',
        caught_by=_PREPARED,
    ),
    Mutant(
        name="a task takes its permit after its first rows",
        rule="R5",
        path=_BULK,
        before="            self._session = pool.take(self._login, self._connect)\n            self._begin(self._session)",
        after="            self._session = pool.take(self._login, self._connect)",
        caught_by=_PREPARED,
    ),
    Mutant(
        name="a task prepares while its last rows are still on their way",
        rule="R5",
        path=_WRITER,
        before="            self._sender.wait()\n            tables.insert_witness(session, self._transaction, self._rows)",
        after="            tables.insert_witness(session, self._transaction, self._rows)",
        caught_by=(f"{_TESTS}test_a_bad_row_is_found_before_anything_is_prepared",),
    ),
    Mutant(
        name="at-least-once a task commits while its last rows are still on their way",
        rule="docs/explanation/protocol.md, At-least-once",
        path=_DIRECT,
        before='                self._sender.wait()\n                session.execute("COMMIT")',
        after='                session.execute("COMMIT")',
        caught_by=(f"{_TESTS}test_a_bad_row_is_found_before_anything_is_prepared",),
    ),
    Mutant(
        name="at-least-once each statement of a task is a transaction",
        rule="docs/explanation/protocol.md, At-least-once",
        path=_DIRECT,
        before="        session.execute(session.begin)\n",
        after="        return\n",
        caught_by=(f"{_TESTS}test_at_least_once_a_task_has_the_answer_to_its_commit",),
    ),
    Mutant(
        name="at-least-once a task does not wait for the answer to its commit",
        rule="docs/explanation/protocol.md, At-least-once",
        path=_DIRECT,
        before='                session.execute("COMMIT")\n',
        after='                self._sender.submit(lambda: session.execute("COMMIT") and None)\n',
        caught_by=(f"{_TESTS}test_at_least_once_a_task_has_the_answer_to_its_commit",),
    ),
    Mutant(
        name="a repair does not hold the witness of what it replaces",
        rule="R7",
        path=_WRITER,
        before="                self._hold_witness_of(session, self._lost)\n",
        after="                pass\n",
        caught_by=(f"{_TESTS}test_a_repair_holds_the_witness_of_what_it_replaces",),
    ),
    Mutant(
        name="a repair of what is there after all is prepared",
        rule="R7",
        path=_WRITER,
        before="            if not error.duplicate_key:\n                raise\n            message",
        after="            if error.duplicate_key:\n                return\n            message",
        caught_by=(f"{_TESTS}test_a_repair_of_what_is_there_after_all_is_refused",),
    ),
    Mutant(
        name="rows before a bad one of the same batch stay",
        rule="docs/reference/sinks.md, Rows that a sink refuses",
        path=_BULK,
        before="        with translate_errors(doing), savepoint(self._opened()):\n",
        after="        with translate_errors(doing):\n",
        caught_by=_WHOLE,
    ),
    Mutant(
        name="the savepoint of a batch that is undone stays open",
        rule="docs/reference/sinks.md, Rows that a sink refuses",
        path="connectors/sql/statements.py",
        before='        server.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")\n        raise\n',
        after="        raise\n",
        caught_by=_WHOLE,
    ),
    Mutant(
        name="rows of a batch that is undone are counted",
        rule="R5",
        path=_BULK,
        before="                self._rows, self._bytes = rows, size_bytes\n",
        after="",
        caught_by=_WHOLE,
    ),
    Mutant(
        name="a batch between savepoints counts before the server has answered",
        rule="docs/reference/sinks.md, Rows that a sink refuses",
        path=_BULK,
        before="                self.write(batch)\n                with translate_errors(doing), self._bad_rows_named():\n"
        "                    self._sender.wait()\n",
        after="                self.write(batch)\n",
        caught_by=_WHOLE,
    ),
    Mutant(
        name="a task's connection to MySQL cannot be found by who has to end it",
        rule="R5",
        path=f"{_MYSQL}writer.py",
        before="        zombie_connections.mark(session, holders, self._transaction.task)\n",
        after="",
        caught_by=_PREPARED,
    ),
    Mutant(
        name="a task's connection to PostgreSQL cannot be found by who has to end it",
        rule="R5",
        path=f"{_POSTGRES}writer.py",
        before="        zombie_connections.mark(session, holders)\n",
        after="",
        caught_by=_PREPARED,
    ),
    Mutant(
        name="a step that takes long loses its task's connection to PostgreSQL",
        rule="H17",
        path=f"{_POSTGRES}writer.py",
        before="Session(self._url, let_go_s=self._let_go_s)",
        after="Session(self._url)",
        caught_by=(f"{_TESTS}test_a_connection_that_is_idle_is_let_go_as_late_as_the_checkpoint_may_take",),
    ),
    Mutant(
        name="COPY's count of rows is not looked at",
        rule="docs/reference/sinks.md",
        path=f"{_POSTGRES}copying.py",
        before="    if stored != rows:",
        after="    if False:",
        caught_by=_LEFT_OUT,
    ),
    Mutant(
        name="LOAD DATA's count of rows is not looked at",
        rule="docs/reference/sinks.md",
        path=f"{_MYSQL}bulk.py",
        before="        if not payload.rows <= stored <= self._most * payload.rows:",
        after="        if False:",
        caught_by=_LEFT_OUT,
    ),
    Mutant(
        name="rows that MySQL alters with a warning pass",
        rule="docs/reference/sinks.md",
        path=f"{_MYSQL}bulk.py",
        before="        if faults := refusals(session.warnings()):",
        after="        if faults := refusals(()):",
        caught_by=_WARNED,
    ),
    Mutant(
        name="warnings that MySQL does not show pass",
        rule="docs/reference/sinks.md",
        path=f"{_MYSQL}engine.py",
        before="        if count == 0:\n            return ()",
        after='        if count == 0 or not self.execute("SHOW WARNINGS LIMIT 64"):\n            return ()',
        caught_by=_WARNED,
    ),
    Mutant(
        name="a row that MySQL refuses is an outage",
        rule="docs/reference/sinks.md, Rows that a sink refuses",
        path=f"{_MYSQL}bulk.py",
        before="            if is_row_fault(error.number):",
        after="            if False:",
        caught_by=(f"{_TESTS}test_rows_that_the_server_refuses_are_bad_rows",),
    ),
    Mutant(
        name="a lock that PostgreSQL waits for is a bad row",
        rule="docs/reference/sinks.md, Rows that a sink refuses",
        path=f"{_POSTGRES}copying.py",
        before="        if error.row_fault:",
        after="        if not error.disconnected:",
        caught_by=(f"{_TESTS}test_a_lock_or_an_outage_is_no_fault_of_a_row",),
    ),
    Mutant(
        name="a PREPARE that PostgreSQL turns into a rollback is acknowledged",
        rule="R5",
        path=f"{_POSTGRES}engine.py",
        before='not statement.startswith("ROLLBACK"):',
        after='not statement.startswith(("ROLLBACK", "PREPARE")):',
        caught_by=(f"{_TESTS}test_a_prepare_that_postgresql_turns_into_a_rollback_is_an_error",),
    ),
    Mutant(
        name="MySQL is sent any file that it asks for",
        rule="docs/how-to/security.md",
        path=f"{_MYSQL}connection.py",
        before="            payload = connection.take()\n",
        after="            payload = connection._payload or memoryview(b'secrets')\n",
        caught_by=_FILES,
    ),
    Mutant(
        name="MySQL is sent rows a second time",
        rule="docs/how-to/security.md",
        path=f"{_MYSQL}connection.py",
        before="        payload, self._payload = self._payload, None",
        after="        payload = self._payload",
        caught_by=_FILES,
    ),
    Mutant(
        name="rows of an INSERT that MySQL leaves out are not missed",
        rule="docs/reference/sinks.md",
        path=f"{_MYSQL}bulk.py",
        before="            yield Payload(statement, None, stop - start, first_row + start, len(statement))",
        after="            yield Payload(statement, None, stop - start - 1, first_row + start, len(statement))",
        caught_by=(f"{_TESTS}test_rows_go_as_inserts_where_a_server_takes_no_local_file",),
    ),
)
