"""Every way to a database asks for verified TLS towards another machine: a process that has taken its port, and offers
none, never gets the password."""

from __future__ import annotations

import ast
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from sqlalchemy.exc import DBAPIError

from connectors.api.contracts import Sink
from connectors.sql.dead_letters import read_dead_letters
from connectors.sql.head import SqlHead, check_head, require_head
from connectors.sql.kind import kind_of
from connectors.sql.mysql.engine import Session as MySqlSession
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.engine import Session as PostgresSession
from connectors.sql.postgres.sink import PostgresSink
from connectors.sql.statements import StatementError
from eos.errors import ConnectorError
from spark_jobs.cli import run_command_line
from tests.played.impostor import PASSWORD, Heard, impostor
from twophase.ids import INCARNATION_LENGTH, Scope, TransactionId, sink_key

HOST: Final = "db.example.com"
ASKS: Final = {"mysql": "mysql_clear_password", "postgresql": "cleartext"}
SCHEME: Final = {"mysql": "mysql+pymysql", "postgresql": "postgresql+psycopg"}
ROOT: Final = Path(__file__).parents[2]


@pytest.fixture(params=list(ASKS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def elsewhere(kind: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Heard]]:
    """A URL that names another machine, whose name leads to an impostor here; and the impostor's catch."""
    resolve = socket.getaddrinfo

    def here(host: Any, *arguments: Any, **options: Any) -> Any:
        return resolve("127.0.0.1" if host == HOST else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", here)
    with impostor(kind, ASKS[kind]) as (port, heard):
        yield f"{SCHEME[kind]}://u:{PASSWORD}@{HOST}:{port}/d", heard


def sink(kind: str, url: str) -> Sink:
    return MySqlSink("out", url, "t") if kind == "mysql" else PostgresSink("out", url, "t")


def write_directly(kind: str, url: str) -> None:
    schema = pa.schema([("id", pa.int64())])
    transaction = TransactionId(Scope("a" * INCARNATION_LENGTH, 1, 1, 1), sink_key("out"), 0, 1)
    sink(kind, url).direct_writer(transaction).write(pa.RecordBatch.from_pylist([{"id": 1}], schema=schema))


def reach(kind: str, url: str) -> None:
    with kind_of(url).open_engine(url, 0).connect():
        pass


DOORS: Final[dict[str, Callable[[str, str], object]]] = {
    "engine": reach,
    "head": lambda kind, url: SqlHead(url, "orders").read(),
    "head's requirements": lambda kind, url: require_head(url),
    "head's findings": lambda kind, url: check_head("head", url),
    "dead letters": lambda kind, url: read_dead_letters(url, "letters", {}),
    "session": lambda kind, url: (MySqlSession if kind == "mysql" else PostgresSession)(url),
    "sink's start": lambda kind, url: sink(kind, url).open(pa.schema([("id", pa.int64())])),
    "sink's findings": lambda kind, url: sink(kind, url).check(None),
    "committer": lambda kind, url: sink(kind, url).committer("orders").prepared("a" * INCARNATION_LENGTH),
    "direct writer": write_directly,
}


PRODUCT: Final = ("connectors", "eos", "spark_jobs", "twophase", "wal", "scripts")
DRIVERS: Final = frozenset({"psycopg", "pymysql", "sqlite3", "MySQLdb", "asyncpg", "PatientConnection"})
MAKERS: Final = frozenset({"create_engine", "create_async_engine", "engine_from_config", "create_pool"})
CLASSES: Final = frozenset({"LoadingConnection", "PatientConnection"})
OPENING: Final = {
    ("connectors/sql/mysql/engine.py", ""),  # a quoter of names, of a URL without a server
    ("connectors/sql/mysql/engine.py", "_create"),
    ("connectors/sql/mysql/engine.py", "_connect"),
    ("connectors/sql/postgres/serverside.py", "_create"),
    ("connectors/sql/postgres/serverside.py", "_connect"),
    ("connectors/sql/sqlite/database.py", "empty"),  # in memory
    ("connectors/sql/sqlite/database.py", "open_engine"),
    ("connectors/sql/sqlite/database.py", "open_url"),
    ("spark_jobs/observe/history/database.py", "connect_to_write"),  # the history is a file
    ("spark_jobs/observe/history/database.py", "connected_to_read"),
    ("spark_jobs/demo/place.py", "create"),  # the demo's table is in a file, too
    ("spark_jobs/demo/place.py", "_select"),
}
"""File and function, of all that open a connection, or say how one is opened."""


def opens(node: ast.AST) -> bool:
    """Whether it makes an engine, has a driver connect, or gives one of these another name."""
    if isinstance(node, ast.ImportFrom):
        of_driver = (node.module or "").partition(".")[0] in DRIVERS
        renamed = [each.name for each in node.names if each.asname not in (None, each.name)]
        return bool(MAKERS & {*renamed}) or (of_driver and "connect" in {each.name for each in node.names})
    if isinstance(node, ast.Import):
        return any(each.name.partition(".")[0] in DRIVERS and each.asname is not None for each in node.names)
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Name):
        return called.id in MAKERS | CLASSES
    if not isinstance(called, ast.Attribute):
        return False
    of = called.value.id if isinstance(called.value, ast.Name) else ""
    return called.attr in MAKERS or (of in DRIVERS and called.attr in ("connect", "Connection", "Connect"))


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_way_to_another_machine_gives_no_password_without_tls(
    door: Callable[[str, str], object], kind: str, elsewhere: tuple[str, Heard]
) -> None:
    url, heard = elsewhere
    with suppress(ConnectorError, StatementError, DBAPIError):
        door(kind, url)
    assert heard.connections > 0
    assert not heard.password


def test_the_doors_are_all_modules_that_open_a_connection() -> None:
    """Outside of these functions the product's sources call nothing that opens a connection to a database."""
    found = set()
    for path in sorted(each for folder in PRODUCT for each in (ROOT / folder).rglob("*.py")):
        program = ast.parse(path.read_text())
        for function in [each for each in ast.walk(program) if isinstance(each, ast.FunctionDef)] + [program]:
            within = [each for each in ast.walk(function) if opens(each)]
            if not within:
                continue
            inner = [each for each in ast.walk(function) if isinstance(each, ast.FunctionDef) and each is not function]
            own = [each for each in within if not any(each in ast.walk(deeper) for deeper in inner)]
            found |= {(str(path.relative_to(ROOT)), getattr(function, "name", "")) for each in own}
    assert found == OPENING


COMMANDS: Final = {
    "dead-letters list": ["dead-letters", "list"],
    "dead-letters replay": ["dead-letters", "replay", "--all"],
    "status": ["status"],
    "reset": ["reset", "--yes"],
    "stop": ["stop"],
    "checkpoint": ["checkpoint"],
    "transactions list": ["transactions", "list"],
    "repair": ["repair"],
    "savepoint take": ["savepoint", "take"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_command_gives_no_password_to_another_machine_without_tls(
    words: list[str], kind: str, elsewhere: tuple[str, Heard], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, heard = elsewhere
    connector = {"connector": kind, "url": url, "commit": "two-phase"}
    spec = {
        "pipeline": "orders",
        "checkpoint": {"location": str(tmp_path / "state"), "head": url},
        "sources": [
            {
                "name": "s",
                "connector": "kafka",
                "bootstrap_servers": "127.0.0.1:1",
                "topics": ["t"],
                "format": {"type": "string"},
            }
        ],
        "sinks": [{**connector, "name": "out", "from": "s", "table": "t"}],
        "dead_letter": {**connector, "table": "letters"},
    }
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(spec))
    assert run_command_line([*words, str(path)]) in (1, 2)
    assert heard.connections > 0, capsys.readouterr()
    assert not heard.password
    told = capsys.readouterr()
    assert "TLS" in told.out + told.err or "SSL" in told.out + told.err
    assert PASSWORD not in told.out + told.err
