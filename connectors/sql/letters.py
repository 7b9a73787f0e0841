"""Dead letters in a table, whichever database it is in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, ColumnClause, Label, NullPool, column, create_engine, select, table
from sqlalchemy.exc import SQLAlchemyError

from connectors.dead_letter_names import COLUMNS
from connectors.letters import Letter
from twophase.errors import SinkUnavailableError

_IN_UTC: Final = {
    "mysql": "SET time_zone = '+00:00'",
    "mariadb": "SET time_zone = '+00:00'",
    "postgresql": "SET timezone = 'UTC'",
}
"""By kind of server: the statement after which times are read in UTC.

MySQL does not name the zone of a TIMESTAMP, and letters are known by their time, too. PostgreSQL names the zone, and
gives a time near the years 1 or 9999 in another zone as one that Python does not know.
"""


def read_letters(where: str | Path, name: str, renamed: Mapping[str, str]) -> list[Letter]:
    """All of them, by place. Blocks; opens a connection and closes it.

    `where`: an SQLAlchemy URL, or a SQLite file. `renamed`: by column of the table, that of the rows. Raises
    SinkUnavailableError, also where there is no such table yet.
    """
    url = where if isinstance(where, str) else URL.create("sqlite", database=str(where))
    in_table = {row: own for own, row in renamed.items()}
    schema, _, plain = name.rpartition(".") if isinstance(where, str) else ("", "", name)
    columns: list[Label[Any]] = [column(in_table.get(each, each)).label(each) for each in COLUMNS]
    place: list[ColumnClause[Any]] = [column(in_table.get(each, each)) for each in ("topic", "partition", "offset")]
    statement = select(*columns).select_from(table(plain, schema=schema or None)).order_by(*place)
    engine = create_engine(url, poolclass=NullPool, hide_parameters=True)
    try:
        with engine.connect() as connection:
            if connection.dialect.name in _IN_UTC:
                connection.exec_driver_sql(_IN_UTC[connection.dialect.name])
            return [Letter.of(dict(zip(COLUMNS, row, strict=True))) for row in connection.execute(statement)]
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", error)).splitlines()[0]
        message = f"the dead letters in table {name} cannot be read: {reason}"
        remedy = "the first start of the pipeline makes the table, where the spec says so; `eos doctor` checks the rest"
        raise SinkUnavailableError(message, remedy=remedy) from None
