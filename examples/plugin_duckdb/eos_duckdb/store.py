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
    schema: str = "main"  # the table's schema, which exists

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
        twice = _twice(schema.names) if schema is not None else []
        if twice:
            detail = f"the rows have the columns {' and '.join(twice)}, which are one name in DuckDB"
            return [Finding("table", ok=False, detail=detail, remedy="give one of them another name in a step")]
        with self._open() as database:
            if not self._has_schema(database):
                detail = f"schema {self.schema} does not exist"
                return [Finding("table", ok=False, detail=detail, remedy="create it, or correct `schema`")]
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
        ((catalog,),) = database.execute("SELECT current_database()").fetchall()
        table = ".".join(map(quoted, (catalog, self.schema, self.table)))
        if self.create:
            database.execute(f"CREATE TABLE IF NOT EXISTS {table} AS SELECT {names} FROM eos_rows LIMIT 0")
        database.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM eos_rows")
        database.unregister("eos_rows")

    def _token(self, database: duckdb.DuckDBPyConnection, slot: str) -> str:
        found = database.execute("SELECT token FROM eos_token WHERE slot = ?", [slot]).fetchall()
        return str(found[0][0]) if found else ""

    def _has_schema(self, database: duckdb.DuckDBPyConnection) -> bool:
        statement = "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database()"
        return any(_key(name) == _key(self.schema) for (name,) in database.execute(statement).fetchall())

    def _columns(self, database: duckdb.DuckDBPyConnection) -> dict[bytes, str]:
        """Return the type of each column of the table, by `_key` of its name; empty if the table does not exist."""
        return {
            _key(name): kind for name, kind in self._of_table(database, "column_name, data_type", "duckdb_columns()")
        }

    def _misfits(
        self, database: duckdb.DuckDBPyConnection, schema: pa.Schema, found: dict[bytes, str]
    ) -> Iterator[str]:
        database.register("eos_rows", schema.empty_table())
        for name, kind, *_ in database.execute("DESCRIBE SELECT * FROM eos_rows").fetchall():
            has = found.get(_key(name))
            if has is None:
                yield f"{self.table} has no column {name}"
            elif has != kind:
                yield f"column {name} is {has}, the rows need {kind}"
        database.unregister("eos_rows")

    def _required(self, database: duckdb.DuckDBPyConnection, schema: pa.Schema) -> Iterator[str]:
        given = set(map(_key, schema.names))
        condition = "NOT is_nullable AND column_default IS NULL"
        for (name,) in self._of_table(database, "column_name", "duckdb_columns()", condition):
            if _key(name) not in given:
                yield f"column {name} is NOT NULL, and the rows have none"

    def _constraints(self, database: duckdb.DuckDBPyConnection) -> list[str]:
        return [str(text) for (text,) in self._of_table(database, "constraint_text", "duckdb_constraints()")]

    def _of_table(
        self, database: duckdb.DuckDBPyConnection, columns: str, function: str, condition: str = "true"
    ) -> Iterator[Sequence[str]]:
        """Yield the rows of a function of DuckDB's catalog that are about the table of this store."""
        statement = (
            f"SELECT schema_name, table_name, {columns} FROM {function} WHERE database_name = current_database() "
            f"AND lower(table_name) = lower(?) AND {condition}"
        )
        for schema, table, *values in database.execute(statement, [self.table]).fetchall():
            if (_key(schema), _key(table)) == (_key(self.schema), _key(self.table)):
                yield values

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


def _key(name: str) -> bytes:
    """Return a value that is equal for two names that DuckDB takes for one: it ignores the case of ASCII letters."""
    return name.encode().lower()


def _twice(names: Sequence[str]) -> list[str]:
    """Return the first names that are one name in DuckDB; empty if all differ."""
    by_key: dict[bytes, list[str]] = {}
    for name in names:
        by_key.setdefault(_key(name), []).append(name)
    return next((found for found in by_key.values() if len(found) > 1), [])
