"""Dead letters in a table, whichever database it is in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, ColumnClause, Label, case, column, select, table
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from connectors.dead_letter_names import COLUMNS
from connectors.dead_letters import LAST_ID, DeadLetter, newest
from connectors.sql.kind import DatabaseKind, kind_of
from eos.errors import SinkUnavailableError, TargetError

_REMEDY = "the first start of the pipeline makes the table, where the spec says so; `eos doctor` checks the rest"


def read_dead_letters(
    where: str | Path, name: str, renamed: Mapping[str, str], most: int | None = None, reached: int = LAST_ID
) -> list[DeadLetter]:
    """Return all dead letters by place, or the `most` newest ones. Blocks; opens a connection and closes it.

    `where`: a database's URL, or a SQLite file. `renamed`: by column of the table, that of the rows. `reached`: see
    `newest`. Raises TargetError where the server will refuse it again; else SinkUnavailableError, also where there is
    no such table yet.
    """
    url = where if isinstance(where, str) else _url_of(where)
    in_table = {row: own for own, row in renamed.items()}
    schema, _, plain = name.rpartition(".") if isinstance(where, str) else ("", "", name)
    columns: list[Label[Any]] = [column(in_table.get(each, each)).label(each) for each in COLUMNS]
    place: list[ColumnClause[Any]] = [column(in_table.get(each, each)) for each in ("topic", "partition", "offset")]
    statement = select(*columns).select_from(table(plain, schema=schema or None))
    if most is None:
        statement = statement.order_by(*place)
    else:
        checkpoint: ColumnClause[Any] = column(in_table.get("checkpoint_id", "checkpoint_id"))
        is_older = case((checkpoint <= reached, 0), else_=1)
        statement = statement.order_by(is_older, checkpoint.desc(), *(each.desc() for each in place)).limit(most)
    kind = kind_of(url)
    engine = kind.open_engine(url, 0)
    try:
        with engine.connect() as connection:
            if kind.in_utc:  # letters are known by their time, too
                connection.exec_driver_sql(kind.in_utc)
            rows = connection.execute(statement, execution_options={"stream_results": most is not None})
            letters = (DeadLetter.of(dict(zip(COLUMNS, row, strict=True))) for row in rows)
            return list(letters) if most is None else newest(letters, most, reached)
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", error)).splitlines()[0]
        message = f"the dead letters in table {name} cannot be read: {reason}"
        if remedy := _refusal(kind, error):
            raise TargetError(message, remedy=remedy) from None
        raise SinkUnavailableError(message, remedy=_REMEDY) from None


def _url_of(path: Path) -> str:
    """Return the URL of a SQLite file that exists: a missing file is an error, and not a new, empty database."""
    url = URL.create("sqlite", database=f"file:{quote(str(path.absolute()))}", query={"uri": "true", "mode": "rw"})
    return url.render_as_string()


def _refusal(kind: DatabaseKind, error: SQLAlchemyError) -> str:
    """Return the remedy for a server that refuses; empty where a retry or a first start may cure it."""
    found = kind.error_of(error.orig) if isinstance(error, DBAPIError) else None
    if found is None or found.missing_table:
        return ""
    meaning = found.connector_error("dead letters")
    return meaning.remedy if isinstance(meaning, TargetError) else ""
