"""The commits of one checkpoint over several connections, on real servers: each transaction is committed once (R7)."""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pytest
import sqlalchemy

from connectors.sql.mysql import address as mysql_address
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.server import MySqlServer
from connectors.sql.postgres import address as postgres_address
from connectors.sql.postgres import patience
from connectors.sql.postgres.engine import Session as PostgresSession
from connectors.sql.postgres.server import PostgresServer
from connectors.sql.postgres.sink import PostgresSink
from connectors.sql.server_sink import ServerSink
from connectors.sql.statements import StatementError
from connectors.sql.two_phase import committing
from connectors.sql.two_phase.committer import TwoPhaseCommitter
from connectors.testing.rows import rows
from connectors.testing.sink_driver import ALREADY, COMMITTED, SinkDriver
from eos.errors import SinkUnavailableError, TargetError
from integration_tests.harness.link import Link
from integration_tests.services import Services
from integration_tests.services.postgres_native import Postgres
from integration_tests.test_compliance import DatabaseTarget, MySqlTarget, PostgresTarget
from tests.played.script import close_idle
from twophase.ids import TransactionId, sink_key
from twophase.values import CommitOutcome, Committable

TASKS = 260  # with four connections each has more than one batch
PREPARED_AT_ONCE = 8
KILL = {MySqlServer: "SELECT CONNECTION_ID()", PostgresServer: "SELECT pg_backend_pid()"}

ServerType = type[MySqlServer] | type[PostgresServer]


@dataclass
class Case:
    """A sink that commits over four connections, and a server that can be killed."""

    target: DatabaseTarget
    server: ServerType
    kill: Callable[[], None]
    start: Callable[[], None]
    driver: SinkDriver = field(init=False)

    def __post_init__(self) -> None:
        self.driver = SinkDriver(self.target)
        self.driver.start()

    @property
    def committer(self) -> TwoPhaseCommitter:
        """The driver's."""
        assert isinstance(self.driver.committer, TwoPhaseCommitter)
        return self.driver.committer

    def another(self, **parts: str | int) -> TwoPhaseCommitter:
        """Return another committer of the sink, by a URL with these parts."""
        assert isinstance(self.driver.sink, ServerSink)
        url = sqlalchemy.make_url(self.driver.sink.url).set(**parts)  # type: ignore[arg-type]
        sink = replace(self.driver.sink, url=url.render_as_string(hide_password=False))
        made = sink.committer(self.driver.pipeline)
        assert isinstance(made, TwoPhaseCommitter)
        return made

    def prepare(self, tasks: int = TASKS) -> list[Committable]:
        """Run tasks of checkpoint 0, each with one row."""
        scope = self.driver.permit(0)

        def prepare(task: int) -> Committable:
            return self.driver.prepare(scope, *rows(task, task + 1), task=task)

        with ThreadPoolExecutor(PREPARED_AT_ONCE) as pool:
            written = self.driver.decided[0] = list(pool.map(prepare, range(tasks)))
        self.await_detached()
        return written

    def await_detached(self) -> None:
        """MariaDB: return when the connections that prepared are closed, so that no commit has to be repeated."""
        time.sleep(1.0)

    def assert_committed_once(self, tasks: int = TASKS) -> None:
        """Each row is there once, nothing is prepared any more, and the sink counts the checkpoint."""
        assert self.target.rows() == Counter(dict.fromkeys(rows(0, tasks), 1))
        assert self.driver.prepared() == []
        self.driver.committer.count(self.driver.incarnation, 0, self.driver.decided[0])

    def connected(self, committer: TwoPhaseCommitter | None = None) -> int:
        """How many connections the committer has open."""
        further = (committer or self.committer)._commits._further
        return len([each for each in further if each._connection is not None]) + 1


@pytest.fixture(params=["MySQL or MariaDB", "PostgreSQL"])
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    if request.param == "PostgreSQL":
        postgres: Postgres = request.getfixturevalue("postgres")
        target: DatabaseTarget = PostgresTarget(request.getfixturevalue("postgres_database"), None)
        made = Case(target, PostgresServer, postgres.kill, postgres.up)
    else:
        services: Services = request.getfixturevalue("services")
        target = MySqlTarget(request.getfixturevalue("database"), None)
        made = Case(target, MySqlServer, services.kill_database, services.start_database)
    yield made
    made.driver.close()
    assert not [each for each in threading.enumerate() if each.name.startswith(("eos-sink", "eos-idle-commits"))]


class Interrupted:
    """Has something happen in the middle of the commits: before the second batch of one of the further connections."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, server: ServerType, act: Callable[[object], None]) -> None:
        self._commit = server.commit_prepared
        self._act = act
        self._batches = Counter[int]()
        self._lock = threading.Lock()
        self.happened = 0
        interrupted = self

        def commit(self: object, transactions: Sequence[TransactionId]) -> Sequence[StatementError | None]:
            return interrupted(self, transactions)

        monkeypatch.setattr(server, "commit_prepared", commit)

    def __call__(self, server: object, transactions: Sequence[TransactionId]) -> Sequence[StatementError | None]:
        is_further = "connection 1" not in threading.current_thread().name and len(transactions) > 1
        with self._lock:
            self._batches[id(server)] += 1
            acts = is_further and self._batches[id(server)] == 2 and not self.happened
            self.happened += acts
        if acts:
            self._act(server)
        return self._commit(server, transactions)  # type: ignore[arg-type]


def commit_to_the_end(case: Case, committer: TwoPhaseCommitter | None = None) -> None:
    """As the driver does; nothing is ever lost."""
    outcomes = case.driver.commit(0, committer)
    assert set(outcomes) <= {COMMITTED, ALREADY}


def test_many_transactions_are_committed_over_four_connections_which_are_kept(case: Case) -> None:
    written = case.prepare()
    assert case.committer.commit(0, written) == [COMMITTED] * TASKS
    assert case.connected() == 4
    case.assert_committed_once()
    assert case.committer.commit(0, written) == [ALREADY] * TASKS


def test_few_transactions_are_committed_over_one_connection(case: Case) -> None:
    tasks = 2 * committing.LEAST_SHARE  # without the first one too few for two connections
    assert case.committer.commit(0, case.prepare(tasks)) == [COMMITTED] * tasks
    assert case.connected() == 1
    case.assert_committed_once(tasks)


def test_connections_are_closed_when_nothing_is_committed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committing, "IDLE_S", 0.5)
    case.committer.commit(0, case.prepare(5 * committing.LEAST_SHARE))
    assert case.connected() == 4
    until_s = time.monotonic() + 10
    while case.connected() > 1 and time.monotonic() < until_s:
        time.sleep(0.1)
    assert case.connected() == 1
    case.assert_committed_once(5 * committing.LEAST_SHARE)


@pytest.mark.fault
@pytest.mark.usefixtures("killable")
def test_the_server_is_killed_in_the_middle(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.prepare()
    killed = Interrupted(monkeypatch, case.server, lambda _: case.kill())
    with pytest.raises(SinkUnavailableError):
        case.committer.commit(0, case.driver.decided[0])
    case.start()
    left = len(case.driver.prepared())
    assert (killed.happened, 0 < left < TASKS) == (1, True), left
    commit_to_the_end(case)
    case.assert_committed_once()


@pytest.mark.fault
def test_one_connection_is_cut_in_the_middle(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the server: pg_terminate_backend, KILL. The others commit their shares."""
    written = case.prepare()

    def cut(server: object) -> None:
        assert isinstance(server, MySqlServer | PostgresServer)
        ((number,),) = server.execute(KILL[type(server)])
        end = "KILL {}" if case.server is MySqlServer else "SELECT pg_terminate_backend({})"
        case.target.execute(end.format(number))

    cuts = Interrupted(monkeypatch, case.server, cut)
    outcomes = case.committer.commit(0, written)
    left = outcomes.count(CommitOutcome.RETRY_LATER)
    assert (cuts.happened, outcomes.count(COMMITTED)) == (1, TASKS - left)
    assert 0 < left <= TASKS // 4, "the rest of this connection's share"
    assert len(case.driver.prepared()) == left
    commit_to_the_end(case)
    case.assert_committed_once()


@pytest.mark.fault
def test_a_driver_that_is_replaced_in_the_middle_has_its_successor_commit_the_rest(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both commit at the same time."""
    written = case.prepare()
    successor = case.driver.another_committer()
    found: list[CommitOutcome] = []
    both = Interrupted(monkeypatch, case.server, lambda _: found.extend(successor.commit(0, written)))
    outcomes = case.committer.commit(0, written)
    successor.close()
    assert both.happened == 1
    assert CommitOutcome.LOST not in [*outcomes, *found]
    commit_to_the_end(case)
    case.assert_committed_once()


@pytest.mark.fault
def test_commits_that_are_never_answered_are_given_up_together(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit is that of a single answer, however many connections and transactions wait."""
    written = case.prepare()
    monkeypatch.setattr(mysql_address, "_NETWORK_TIMEOUT_S", 2)
    for module in (mysql_address, postgres_address):
        monkeypatch.setattr(module, "_CONNECT_TIMEOUT_S", 2)
    for name, limit_s in (("NOTICED_S", 1.0), ("ASK_AGAIN_S", 0.5), ("WAITING_S", 2.0), ("UNKNOWN_S", 2.0)):
        monkeypatch.setattr(patience, name, limit_s)
    url = sqlalchemy.make_url(case.target.url)
    assert url.host is not None
    assert url.port is not None
    with Link(url.host, url.port) as link:
        committer = case.another(host="127.0.0.1", port=link.port)
        stalled = Interrupted(monkeypatch, case.server, lambda _: link.stall())
        began_s = time.monotonic()
        with pytest.raises(SinkUnavailableError):
            committer.commit(0, written)
        took_s = time.monotonic() - began_s
        assert (stalled.happened, took_s < 20) == (1, True), took_s
        committer.close()
    commit_to_the_end(case)
    case.assert_committed_once()


def test_a_user_of_mariadb_without_room_gets_all_commits_over_the_connections_that_there_are(
    services: Services, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    name, schema = f"eos_{secrets.token_hex(5)}", sqlalchemy.make_url(database).database
    case = Case(MySqlTarget(database, None), MySqlServer, lambda: None, lambda: None)
    written = case.prepare()
    with Session(services.admin_database_url) as admin:
        admin.execute(f"CREATE USER {name} IDENTIFIED BY 'only-for-this-test' WITH MAX_USER_CONNECTIONS 2")
        admin.execute(f"GRANT ALL ON `{schema}`.* TO {name}")
        if not admin.dialect.is_mariadb:
            admin.execute(f"GRANT XA_RECOVER_ADMIN ON *.* TO {name}")
        try:
            committer = case.another(username=name, password="only-for-this-test")
            _commits_over_two(case, committer, written, caplog)
            committer.close()
            case.assert_committed_once()
        finally:
            admin.execute(f"DROP USER {name}")
            case.driver.close()


def test_a_database_of_postgresql_without_room_gets_all_commits_over_the_connections_that_there_are(
    postgres: Postgres, postgres_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(PostgresTarget(postgres_database, None), PostgresServer, lambda: None, lambda: None)
    written = case.prepare()
    case.driver.committer.close()
    close_idle()
    with PostgresSession(postgres.admin_url) as admin:
        name = sqlalchemy.make_url(postgres_database).database
        admin.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 2")
        committer = case.another()
        _commits_over_two(case, committer, written, caplog)
        committer.close()
        admin.execute(f"ALTER DATABASE {name} CONNECTION LIMIT -1")
    case.assert_committed_once()
    case.driver.close()


def _commits_over_two(
    case: Case, committer: TwoPhaseCommitter, written: Sequence[Committable], caplog: pytest.LogCaptureFixture
) -> None:
    assert committer.commit(0, written) == [COMMITTED] * TASKS
    assert case.connected(committer) == 2
    assert caplog.text.count("the other connections commit its transactions") == 2


def test_a_transaction_that_may_not_be_committed_stops_the_checkpoint_and_the_others_are_committed_once(
    postgres: Postgres, postgres_database: str
) -> None:
    """PostgreSQL lets only the user who has prepared it, or an administrator, commit."""
    case = Case(PostgresTarget(postgres_database, None), PostgresServer, lambda: None, lambda: None)
    written = case.prepare(TASKS - 1)
    as_admin = sqlalchemy.make_url(postgres.admin_url).set(database=sqlalchemy.make_url(postgres_database).database)
    assert isinstance(case.driver.sink, PostgresSink)
    admins = replace(case.driver.sink, url=as_admin.render_as_string(hide_password=False))
    scope = written[0].transaction.scope
    writer = admins.writer(TransactionId(scope, sink_key(case.driver.name), TASKS - 1, TASKS))
    case.driver.write(writer, *rows(TASKS - 1, TASKS))
    mine, others = writer.prepare(), written
    case.driver.decided[0] = written = [*others[:100], mine, *others[100:]]
    for _ in range(2):
        with pytest.raises(TargetError, match="permission denied to finish prepared transaction"):
            case.driver.committer.commit(0, written)
    assert mine.transaction in {each.transaction for each in case.driver.prepared()}
    committer = admins.committer(case.driver.pipeline)
    assert committer.commit(0, [mine]) == [COMMITTED]
    committer.close()
    commit_to_the_end(case)
    case.assert_committed_once()
    case.driver.close()
