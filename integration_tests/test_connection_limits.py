"""What `eos doctor` says of the connections that a run opens, against the limits of real servers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy
from sqlalchemy.engine import make_url

from connectors.api.contracts import Finding
from connectors.api.database import LEARNS_AT_ONCE, DatabaseUse
from connectors.log.place import LogPlace
from connectors.sql.headroom import check, connections
from connectors.sql.mysql.engine import Session as MySqlSession
from connectors.sql.postgres.engine import Session as PostgresSession
from integration_tests.multi_table import Tables, batch
from integration_tests.services import Services
from integration_tests.services.postgres_native import Postgres

pytestmark = pytest.mark.any_server

_COLUMNS = {"id": pa.int64(), "_deleted": pa.bool_()}


def found(uses: list[DatabaseUse], tasks: int | None = 2) -> dict[str, Finding]:
    """By the name of the limit, without its place."""
    return {each.check.partition(" at ")[0].partition(" of 127")[0]: each for each in check(uses, tasks)}


@pytest.fixture
def narrow_on_mysql(services: Services, database: str) -> Iterator[str]:
    """The URL of a user who may open six connections."""
    name, schema = f"eos_{secrets.token_hex(5)}", make_url(database).database
    with MySqlSession(services.admin_database_url) as admin:
        admin.execute(f"CREATE USER {name} IDENTIFIED BY 'only-for-this-test' WITH MAX_USER_CONNECTIONS 6")
        admin.execute(f"GRANT ALL ON `{schema}`.* TO {name}")
    url = make_url(database).set(username=name, password="only-for-this-test")
    yield url.render_as_string(hide_password=False)
    with MySqlSession(services.admin_database_url) as admin:
        admin.execute(f"DROP USER {name}")


@pytest.fixture
def narrow_on_postgres(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    """The URL of a role that may open eight connections."""
    name = f"eos_{secrets.token_hex(5)}"
    with PostgresSession(postgres.admin_url) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'only-for-this-test' CONNECTION LIMIT 8")
    url = make_url(postgres_database).set(username=name, password="only-for-this-test")
    yield url.render_as_string(hide_password=False)
    with PostgresSession(postgres.admin_url) as admin:
        admin.execute(f"DROP ROLE {name}")


@pytest.mark.only_on("MariaDB", "on MySQL workers keep connections after XA PREPARE")
def test_a_user_of_mariadb_with_too_few(narrow_on_mysql: str) -> None:
    """Prepared branches stay with their connections, so that each of the tasks has one and no worker keeps any."""
    sink = DatabaseUse("sink:", narrow_on_mysql, prepares=True)
    (enough, user) = found([sink], 3).values()
    assert (enough.ok, enough.fatal, enough.remedy) == (True, False, "")
    assert user.check.startswith("max_user_connections of eos_")
    assert user.ok
    assert user.detail == "6, 0 in use; a run opens up to 6: sink: 3 for as many tasks at once and 3 of the driver"
    (_, user) = found([sink], 4).values()
    assert (user.ok, user.fatal) == (False, False)
    assert user.remedy.startswith("1 are missing: raise max_user_connections to 7 at least")
    with MySqlSession(narrow_on_mysql), MySqlSession(narrow_on_mysql):
        (_, user) = found([sink], 3).values()
        assert user.detail.startswith("6, 2 in use;")
        assert user.remedy.startswith("2 are missing: raise max_user_connections to 8 at least")


def test_a_role_and_a_database_of_postgresql_with_too_few(
    narrow_on_postgres: str, postgres: Postgres, postgres_database: str
) -> None:
    """A task's connection is kept in its worker, of which two tasks at once have four."""
    sink = DatabaseUse("sink:", narrow_on_postgres, prepares=True)
    server, role = found([sink]).values()
    assert server.ok
    assert server.detail.startswith("200, 3 reserved and ")
    assert role.ok
    kept = "sink: 4 kept by workers of 2 tasks at once and 3 of the driver"
    assert role.detail == f"8, 0 in use; a run opens up to 7: {kept}"
    with PostgresSession(narrow_on_postgres), PostgresSession(narrow_on_postgres):
        _, role = found([sink]).values()
        assert not role.ok
        assert role.detail.startswith("8, 2 in use;")
        assert role.remedy.startswith("1 are missing: raise CONNECTION LIMIT to 9 at least")
    name = make_url(postgres_database).database
    with PostgresSession(postgres.admin_url) as admin:
        admin.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 5")
    limits = list(check([sink], 2))
    assert [each.ok for each in limits] == [True, True, False]
    assert limits[-1].check.startswith(f"CONNECTION LIMIT of {name} at ")


def test_connections_for_commits_are_counted(postgres_database: str) -> None:
    """`checkpoint.connections` is the number of all connections that commit, one of which each sink has anyway."""
    one, four = (connections(DatabaseUse("sink:", postgres_database, prepares=True, commits=n), 2)[0] for n in (1, 4))
    assert (one, four) == (7, 10)


@pytest.mark.alone  # it counts all connections to the servers
def test_connections_in_use_are_counted(postgres_database: str, database: str) -> None:
    for url, session in ((postgres_database, PostgresSession), (database, MySqlSession)):
        with ExitStack() as stack:
            before = _in_use(url)
            for _ in range(3):
                stack.enter_context(session(url))
            assert _in_use(url) - before == 3


def _in_use(url: str) -> int:
    detail = found([DatabaseUse("sink:", url)])["max_connections"].detail
    return int(detail.partition(" in use")[0].rpartition(" ")[2])


def test_sinks_and_head_on_one_server_are_added_up_and_those_of_another_are_not(
    postgres_database: str, database: str
) -> None:
    uses = [
        DatabaseUse("a:", postgres_database, prepares=True),
        DatabaseUse("b:", postgres_database, slots=3, prepares=True),
        DatabaseUse("head:", postgres_database, is_head=True),
        DatabaseUse("c:", database, prepares=True),
    ]
    limits = list(check(uses, 2))
    assert [each.check.partition(" of ")[0] for each in limits] == ["max_connections"] * 2
    assert "a run opens up to 14: a: 4 kept" in limits[0].detail
    assert limits[0].detail.endswith("b: 3 for its slots and 2 of the driver; head: 2")
    assert "c: " in limits[1].detail
    assert "a: " not in limits[1].detail


def test_tasks_of_a_cluster_are_not_known(database: str) -> None:
    (limit,) = check([DatabaseUse("sink:", database)], None)
    assert limit.detail.endswith("how many tasks run at once is not known here (spark.cores.max)")


def test_a_server_that_does_not_answer_has_no_finding(database: str) -> None:
    away = sqlalchemy.make_url(database).set(port=1).render_as_string(hide_password=False)
    assert list(check([DatabaseUse("sink:", away)], 2)) == []


def test_tables_are_learned_on_as_many_connections_as_doctor_counts(narrow_on_mysql: str, tmp_path: Path) -> None:
    """Four at once, beside the connection that claims: the user may open no seventh."""
    count, how = connections(DatabaseUse("sink:", narrow_on_mysql, slots=1, learns=LEARNS_AT_ONCE), 2)
    assert (count, how) == (6, "sink: 1 for its slots and 5 of the driver")
    tables = Tables(narrow_on_mysql, LogPlace(tmp_path / "log")).start()
    names = [f"t{number:02}" for number in range(30)]
    rows = [batch(name, ["id"], [{"_offset": 0, "id": 7, "_deleted": False}], **_COLUMNS) for name in names]
    assert tables.checkpoint(0, rows) == 30
    assert tables.tables() == {*names}
