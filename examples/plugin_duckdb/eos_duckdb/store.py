"""A table of a DuckDB file as a store with a token of its own (level (a) of docs/tutorial/plugins.md)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from eos import BadRowError, Finding, SinkUnavailableError, TargetError

_TURN_S = 30.0
"""How long a call waits for another process that has the file open: DuckDB lets one process write."""

_TOKENS = "CREATE TABLE IF NOT EXISTS eos_token (slot VARCHAR PRIMARY KEY, token VARCHAR NOT NULL)"
_CLOSED: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
"""A database file may be another program's. It makes DuckDB neither load an extension nor read another file."""


@dataclass(frozen=True, slots=True)
class DuckDbStore:
    """See TokenStore. Each call opens the file and closes it again, so readers get their turn between checkpoints."""

    path: Path
    table: str
    create: bool = False  # the table, with the first rows, if it is missing

    def applied(self, slot: str) -> str:
        """See TokenStore."""
        with self._open() as database:
            return self._token(database, slot)

    def apply(self, slot: str, expected: str, token: str, batches: Iterator[pa.RecordBatch]) -> bool:
        """See TokenStore. The token is replaced last: of two transactions at once, DuckDB refuses the later one."""
        with self._open() as database:
            database.execute("BEGIN")
            try:
                if self._token(database, slot) != expected:
                    return False
                for batch in batches:
                    self._insert(database, batch)
                if expected:
                    database.execute("UPDATE eos_token SET token = ? WHERE slot = ?", [token, slot])
                else:
                    database.execute("INSERT INTO eos_token VALUES (?, ?)", [slot, token])
                database.execute("COMMIT")
                return True
            except duckdb.TransactionException:
                return False  # another process has replaced the token meanwhile, and nothing of this one is there
            except duckdb.ConstraintException as error:
                if "eos_token" in str(error):
                    return False  # the same, for a slot that had no token
                raise
            finally:
                with suppress(duckdb.Error):  # after a commit there is nothing to roll back
                    database.execute("ROLLBACK")

    def check(self, schema: pa.Schema | None) -> Sequence[Finding]:
        """See TokenStore. Each column must have the very type that DuckDB gives to Arrow's: all values then fit."""
        with self._open() as database:
            found = self._columns(database)
            if not found:
                remedy = "" if self.create else "create it, or set `create: if-missing`"
                detail = f"{self.table} does not exist" + (": a run creates it" if self.create else "")
                return [Finding("table", ok=self.create, detail=detail, remedy=remedy)]
            if schema is None:
                return [Finding("table", ok=True, detail=f"{self.table} exists")]
            wrong = [*self._misfits(database, schema, found), *self._required(database, schema)]
            constraints = self._constraints(database)
        detail = "; ".join(wrong) or f"{self.table} takes the rows"
        remedy = "change the table, or the columns in a step" if wrong else ""
        late = Finding(
            "constraints",
            ok=not constraints,
            detail=", ".join(constraints) or "none",
            remedy="drop them, or see that no row breaks one: it would stop the pipeline" if constraints else "",
            fatal=False,
        )
        return [Finding("table", ok=not wrong, detail=detail, remedy=remedy), late]

    def _insert(self, database: duckdb.DuckDBPyConnection, batch: pa.RecordBatch) -> None:
        database.register("eos_rows", pa.Table.from_batches([batch]))
        names = ", ".join(map(quoted, batch.schema.names))
        if self.create:
            table = quoted(self.table)
            database.execute(f"CREATE TABLE IF NOT EXISTS {table} AS SELECT {names} FROM eos_rows LIMIT 0")
        database.execute(f"INSERT INTO {quoted(self.table)} ({names}) SELECT {names} FROM eos_rows")
        database.unregister("eos_rows")

    def _token(self, database: duckdb.DuckDBPyConnection, slot: str) -> str:
        found = database.execute("SELECT token FROM eos_token WHERE slot = ?", [slot]).fetchall()
        return str(found[0][0]) if found else ""

    def _columns(self, database: duckdb.DuckDBPyConnection) -> dict[str, str]:
        """Return the type of each column of the table; empty if the table does not exist."""
        statement = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? AND schema_name = 'main'"
        return dict(database.execute(statement, [self.table]).fetchall())

    def _misfits(self, database: duckdb.DuckDBPyConnection, schema: pa.Schema, found: dict[str, str]) -> Iterator[str]:
        database.register("eos_rows", schema.empty_table())
        for name, kind, *_ in database.execute("DESCRIBE SELECT * FROM eos_rows").fetchall():
            if name not in found:
                yield f"{self.table} has no column {name}"
            elif found[name] != kind:
                yield f"column {name} is {found[name]}, the rows need {kind}"
        database.unregister("eos_rows")

    def _required(self, database: duckdb.DuckDBPyConnection, schema: pa.Schema) -> Iterator[str]:
        statement = "SELECT column_name FROM duckdb_columns() WHERE table_name = ? AND schema_name = 'main' "
        statement += "AND NOT is_nullable AND column_default IS NULL"
        for (name,) in database.execute(statement, [self.table]).fetchall():
            if name not in schema.names:
                yield f"column {name} is NOT NULL, and the rows have none"

    def _constraints(self, database: duckdb.DuckDBPyConnection) -> list[str]:
        statement = "SELECT constraint_text FROM duckdb_constraints() WHERE table_name = ? AND schema_name = 'main'"
        return [str(text) for (text,) in database.execute(statement, [self.table]).fetchall()]

    @contextmanager
    def _open(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open the file, in whose turn it is. Errors of DuckDB leave as those of the framework."""
        database = self._connect()
        try:
            with suppress(duckdb.TransactionException):  # another process creates it at this moment
                database.execute(_TOKENS)
            yield database
        except (duckdb.ConstraintException, duckdb.ConversionException, duckdb.OutOfRangeException) as error:
            raise BadRowError(f"{self._where}: {error}", remedy="change the table, or the row in a step") from error
        except (duckdb.IOException, duckdb.TransactionException, duckdb.OutOfMemoryException) as error:
            raise SinkUnavailableError(f"{self._where}: {error}", remedy="it is tried again") from error
        except duckdb.Error as error:
            raise TargetError(f"{self._where}: {error}", remedy="see `eos doctor`") from error
        finally:
            database.close()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        until = time.monotonic() + _TURN_S
        # An absolute path: DuckDB takes "md:…" and others for the names of services.
        path = str(self.path.absolute())
        while True:
            try:
                return duckdb.connect(path, config=_CLOSED)
            except duckdb.IOException as error:
                if "lock" not in str(error) or time.monotonic() > until:
                    message = f"{self._where} cannot be opened: {error}"
                    raise SinkUnavailableError(message, remedy="close the program that has the file open") from error
                time.sleep(0.05)
            except duckdb.Error as error:
                raise TargetError(f"{self._where} cannot be opened: {error}", remedy="set `path` right") from error

    @property
    def _where(self) -> str:
        return f"DuckDB file {self.path}, table {self.table}"


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'
