"""What `mariadb` and `mariadb-dump` do in the docs' commands, for machines without them: every table of a database.

Called as `database_client dump`, `database_client load` and `database_client query STATEMENT`, with the database's URL
in SINK_URL.
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import sqlalchemy

SCRIPTS = {
    "mariadb-dump": 'exec "{python}" -m integration_tests.harness.database_client dump',
    "mariadb": 'if [ "$1" = -N ]; then exec "{python}" -m integration_tests.harness.database_client query "$3"; fi\n'
    'exec "{python}" -m integration_tests.harness.database_client load',
    "eos": 'exec "{python}" -c "import sys; from spark_jobs.cli import main; sys.argv[0] = \'eos\'; main()" "$@"',
}
"""Shell scripts that stand in for the commands, by name."""


def install(folder: Path) -> None:
    """Put the scripts into a folder, for PATH."""
    folder.mkdir(exist_ok=True)
    for name, script in SCRIPTS.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script.format(python=sys.executable)}\n")
        path.chmod(0o755)


def _dump(connection: sqlalchemy.Connection) -> None:
    tables = [row[0] for row in connection.exec_driver_sql("SHOW TABLES")]
    made = [connection.exec_driver_sql(f"SHOW CREATE TABLE `{name}`").one()[1] for name in tables]
    rows = [[tuple(row) for row in connection.exec_driver_sql(f"SELECT * FROM `{name}`")] for name in tables]
    pickle.dump(list(zip(tables, made, rows, strict=True)), sys.stdout.buffer)


def _load(connection: sqlalchemy.Connection) -> None:
    for name, made, rows in pickle.load(sys.stdin.buffer):
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS `{name}`")
        connection.exec_driver_sql(made)
        if rows:
            connection.exec_driver_sql(f"INSERT INTO `{name}` VALUES ({', '.join(['%s'] * len(rows[0]))})", rows)


def main() -> None:
    """One command."""
    engine = sqlalchemy.create_engine(os.environ["SINK_URL"], isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        match sys.argv[1:]:
            case ["dump"]:
                _dump(connection)
            case ["load"]:
                _load(connection)
            case ["query", statement]:
                print(connection.exec_driver_sql(statement).scalar_one())


if __name__ == "__main__":
    main()
