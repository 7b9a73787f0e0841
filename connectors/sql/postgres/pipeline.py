"""Several statements to PostgreSQL in one piece, each in a transaction: libpq's pipeline mode.

psycopg's own pipeline raises the first error, and costs seven times the CPU time for each statement (measured: 0.12
instead of 0.02 ms).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from psycopg.abc import PQGen
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from connectors.dead_letters import printable
from connectors.sql.postgres.errors import ServerError
from connectors.sql.postgres.patience import PatientConnection

_DONE: Final = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK, ExecStatus.EMPTY_QUERY)


def execute_each(connection: PatientConnection, statements: Sequence[str], answers: list[ServerError | None]) -> None:
    """Run statements without values, and append the answer to each: None for success.

    Raises psycopg.Error, OSError if the connection is lost; then it is of no use, and the later answers are missing.
    """
    with connection.lock:
        try:
            connection.wait(_pipelined(connection.pgconn, statements, answers))
        except BaseException:
            connection.pgconn.finish()  # answers are missing: the next statement would take them for its own
            raise


def _pipelined(pgconn: PGconn, statements: Sequence[str], answers: list[ServerError | None]) -> PQGen[None]:
    pgconn.enter_pipeline_mode()
    for statement in statements:
        pgconn.send_query_params(statement.encode(), None)
        pgconn.pipeline_sync()  # ends the transaction: otherwise one would hold all statements
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()
    syncs = 0
    while syncs < len(statements):
        while pgconn.is_busy():
            yield Wait.R
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:  # the end of one statement's results
            continue
        if result.status == ExecStatus.PIPELINE_SYNC:
            syncs += 1
        else:
            answers.append(None if result.status in _DONE else _error_of(result))
    pgconn.exit_pipeline_mode()


def _error_of(result: PGresult) -> ServerError:
    code, text, context = (
        (result.error_field(field) or b"").decode(errors="replace")
        for field in (DiagnosticField.SQLSTATE, DiagnosticField.MESSAGE_PRIMARY, DiagnosticField.CONTEXT)
    )
    return ServerError(code, printable(text), context)
