"""Fixtures of the integration tests: services, a fresh database, fresh topics."""

from __future__ import annotations

import math
import os
import secrets
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

import pytest
import sqlalchemy

from integration_tests import databases, left_out, topics
from integration_tests.cluster.pipeline import ClusterPipeline
from integration_tests.cluster.standalone import Cluster
from integration_tests.harness import durations
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.fault_tests import fault_tests
from integration_tests.harness.hdfs import Folder
from integration_tests.harness.http_proxy import HttpProxy
from integration_tests.harness.installed import PLUGINS, Installed, install
from integration_tests.harness.jobs import Jobs
from integration_tests.harness.markers import MARKERS
from integration_tests.harness.pipeline import PARTITIONS, Pipeline
from integration_tests.harness.rotation import left_out_cases, seed_of_run
from integration_tests.harness.tenant import Tenant
from integration_tests.harness.turns import BOTH, FIRST, RUN_S, commits_since, more_faults, read_passed, turn
from integration_tests.report import Report
from integration_tests.services import (
    NoControlError,
    ServiceError,
    Services,
    azurite_native,
    google_native,
    kubernetes_native,
    kubernetes_node,
    kubernetes_tools,
    obtain,
)
from integration_tests.services.azurite_native import Azurite
from integration_tests.services.copied import CopiedKafka
from integration_tests.services.databases_secured import SecuredMariadb, SecuredPostgres
from integration_tests.services.google_native import GoogleStore
from integration_tests.services.hdfs_cluster import Hdfs
from integration_tests.services.kafka_secured import SecuredKafka
from integration_tests.services.minio_native import Minio, obtainable
from integration_tests.services.moto_native import ObjectStore
from integration_tests.services.obtain import KINDS
from integration_tests.services.postgres_native import Postgres
from integration_tests.services.registry_native import PROGRAM, SchemaRegistry
from tests.cloud_buckets import AzureContainer, GoogleBucket
from tests.object_store import Bucket, hasty, wire

__all__ = ["hasty", "wire"]


class TopicFactory(Protocol):
    """Creates topics with names of their own."""

    def __call__(self, partitions: int = 1, **settings: str) -> str: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("services")
    group.addoption(
        "--kind",
        choices=KINDS,
        default=os.environ.get("EOS_SERVICES", "auto"),
        help="where Kafka and the database come from (default: $EOS_SERVICES or auto)",
    )
    group.addoption(
        "--require-all",
        action="store_true",
        default=os.environ.get("CI") == "true",
        help="a test that could not run is a failure (default where CI=true)",
    )

    group.addoption(
        "--in-turns",
        action="store_true",
        help="take a part of the tests that are marked in_turns (harness/turns.py), and of the cases of others "
        "(harness/rotation.py): scripts/test without --all",
    )
    group.addoption(
        "--more",
        action="store_true",
        help="with --in-turns: take the fault tests that such a run left out, until both have taken half of them",
    )
    group.addoption(
        "--run-s", type=float, default=RUN_S, help="how long all tests of such a run take, one after another"
    )
    group.addoption(
        "--until",
        type=float,
        default=math.inf,
        help="begin no test after this time, in seconds since the epoch, and take short tests first; the others are "
        "listed as left out",
    )
    group.addoption("--image", action="store_true", help="take the tests of the product's image, which they build")


def pytest_configure(config: pytest.Config) -> None:
    databases.share_tls_context()
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    config.pluginmanager.register(Report(require_all=config.getoption("--require-all")), "service-report")
    left_out.register(config, config.getoption("--kind"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Add the markers that follow from a test's fixtures, before `-m` reads them.

    Of the tests that `-m` and `-k` leave, leave out those whose turn it is not.
    """
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "killable" in fixtures:
            item.add_marker(pytest.mark.alone)
        if getattr(item, "originalname", item.name) in fault_tests(item.path):
            item.add_marker(pytest.mark.fault)
        if "cluster" in fixtures:  # there is one cluster for each process of pytest-xdist that asks
            item.add_marker(pytest.mark.xdist_group("cluster"))
        if "copied_kafka" in fixtures:  # at one address, and with one folder
            item.add_marker(pytest.mark.xdist_group("copied-kafka"))
        if item.get_closest_marker("registry"):  # one process of pytest-xdist starts one
            item.add_marker(pytest.mark.xdist_group("registry"))
        if "installed" in fixtures:  # built once, which takes a minute
            item.add_marker(pytest.mark.xdist_group("installed"))
        if getattr(item, "originalname", "") == "test_a_million_rows":  # of each sink, half a minute
            item.add_marker(pytest.mark.in_turns)
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if parameters.get("kind") in {"postgresql", "sqlite"}:
            item.add_marker(pytest.mark.any_server)
    yield
    omitted: dict[str, str] = {}
    if not config.getoption("--image"):
        omitted |= {item.nodeid: left_out.IMAGE for item in items if item.get_closest_marker("image")}
    if PROGRAM not in os.environ:
        omitted |= {item.nodeid: left_out.REGISTRY for item in items if item.get_closest_marker("registry")}
    if not obtainable():
        omitted |= {item.nodeid: left_out.MINIO for item in items if item.get_closest_marker("minio")}
    if not google_native.PROGRAM.is_built():
        omitted |= {item.nodeid: left_out.CLOUDS for item in items if item.get_closest_marker("google")}
    if not azurite_native.PROGRAM.is_installed():
        omitted |= {item.nodeid: left_out.CLOUDS for item in items if item.get_closest_marker("azurite")}
    for marker, programs in (("helm", kubernetes_tools.PROGRAMS), ("kubernetes", kubernetes_native.PROGRAMS)):
        if not all(each.is_built() for each in programs):
            omitted |= {item.nodeid: left_out.CHART for item in items if item.get_closest_marker(marker)}
    if not (config.getoption("--image") and kubernetes_node.is_obtained()):
        omitted |= {item.nodeid: left_out.NODE for item in items if item.get_closest_marker("node")}
    faults = {item.nodeid for item in items if "fault" in item.keywords}
    _report(config).count_fault_tests(config, len(faults))
    seed = seed_of_run()
    if config.getoption("--in-turns") and seed is not None:
        omitted |= dict.fromkeys(_cases_left_out(items, f"{config.getoption('--kind')} {seed}"), left_out.CASE)
        others = [item for item in items if item.nodeid not in omitted]
        first, more = _turns(others, seed, config.getoption("--run-s"))
        left = {item.nodeid for item in others if item.get_closest_marker("in_turns")} - first - more
        omitted |= {name: left_out.FAULT if name in faults else left_out.LONG for name in left}
        is_second = config.getoption("--more")
        of_the_other = {item.nodeid for item in others if (item.nodeid in more) != is_second} - left
        omitted |= dict.fromkeys(of_the_other, left_out.FIRST if is_second else left_out.MORE)
    left_out.recorder(config).leave_out(config, omitted, faults)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in omitted])
    items[:] = [item for item in items if item.nodeid not in omitted]
    if config.getoption("--until") < math.inf:
        expected_s = durations.read().of_tests([item.nodeid for item in items])
        items.sort(key=lambda item: expected_s[item.nodeid])
    elif hasattr(config, "workerinput"):
        _longest_files_first(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Leave out a test whose turn comes when the time of the run is over."""
    if time.time() < item.config.getoption("--until"):
        return None
    left_out.recorder(item.config).leave_out(item.config, {item.nodeid: left_out.TIME})
    return True


def _longest_files_first(items: list[pytest.Item]) -> None:
    """Put the files with long tests first, so that the processes end at about the same time."""
    longest_s: defaultdict[Path, float] = defaultdict(float)
    expected_s = durations.read().of_tests([item.nodeid for item in items])
    for item in items:
        longest_s[item.path] = max(longest_s[item.path], expected_s[item.nodeid])
    items.sort(key=lambda item: -longest_s[item.path])


def _cases_left_out(items: Sequence[pytest.Item], seed: str) -> set[str]:
    """Return the node ids of the cases that this run leaves out. Cases of a test also stand in several classes."""
    tests: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        if not (item.get_closest_marker("fault") or item.get_closest_marker("in_turns")):
            tests[f"{item.path.name}::{getattr(item, 'originalname', item.name)}"].append(item.nodeid)
    return left_out_cases(tests, seed)


def _turns(items: Sequence[pytest.Item], seed: int, run_s: float) -> tuple[set[str], set[str]]:
    """Return the node ids of the long tests that a run takes, and of those that a second one takes (`--more`)."""
    parts = {
        item.nodeid: float(marker.kwargs.get("part", 1.0))
        for item in items
        if (marker := item.get_closest_marker("in_turns"))
    }
    recorded = read_passed()
    passed = {
        name: replace(each, duration_s=each.duration_s * parts[name])
        for name, each in recorded.items()
        if name in parts
    }
    faults = {item.nodeid for item in items if item.get_closest_marker("fault")}
    always = len(faults - parts.keys())
    long_faults = faults & parts.keys()
    wanted, in_both = (max(0, math.ceil(len(faults) * part) - always) for part in (FIRST, BOTH))
    others_s = durations.read().of_tests([item.nodeid for item in items if item.nodeid not in parts])
    budget_s = max(0.0, run_s - sum(others_s.values()))
    first = turn(parts, passed, commits_since(passed), seed, long_faults, wanted, budget_s)
    return first, more_faults(parts, passed, first, seed, long_faults, in_both)


@pytest.fixture(scope="session")
def services(pytestconfig: pytest.Config) -> Services:
    """Kafka and a database that answer."""
    try:
        found = obtain(pytestconfig.getoption("--kind"), say=print)
    except ServiceError as error:
        pytest.skip(f"no services: {error}")
    _report(pytestconfig).services = found
    return found


def _report(config: pytest.Config) -> Report:
    report = config.pluginmanager.get_plugin("service-report")
    assert isinstance(report, Report)
    return report


@pytest.fixture
def killable(services: Services) -> Services:
    """The services, for a test that kills servers: known before the test does anything that a kill should end."""
    if services.control is None:
        raise NoControlError("the services were given by address, so this run must not kill them")
    return services


@pytest.fixture(autouse=True)
def _only_on(request: pytest.FixtureRequest) -> None:
    """Leave out a test that is about another server than this run's."""
    marker = request.node.get_closest_marker("only_on")
    if marker is not None:
        (server, reason) = marker.args
        found = request.getfixturevalue("services").database
        if found.name != server:
            pytest.skip(f"{Report.NOT_APPLICABLE}: {reason} (this run has {found})")


@pytest.fixture
def eos(tmp_path: Path) -> Iterator[CommandLine]:
    """Commands of this test's own process, one after another."""
    folder = tmp_path / "command-line"
    folder.mkdir()
    with CommandLine(folder) as command_line:
        yield command_line


@pytest.fixture
def database(services: Services) -> Iterator[str]:
    """The SQLAlchemy URL of a database of this test's own; dropped at the end."""
    with _new_database(services) as url:
        yield url


@contextmanager
def _new_database(services: Services) -> Iterator[str]:
    name = f"eos_{secrets.token_hex(5)}"
    databases.create(services, name)
    yield f"{services.database_url.rstrip('/')}/{name}"
    databases.drop(services, name)


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> Postgres:
    """A PostgreSQL server that answers; it is stopped with the other services."""
    found = Postgres()
    found.up()
    _report(pytestconfig).postgres = found.server
    return found


@pytest.fixture
def postgres_database(postgres: Postgres) -> Iterator[str]:
    """The SQLAlchemy URL of a database of this test's own; dropped at the end."""
    name = f"eos_{secrets.token_hex(5)}"
    _on_postgres(f"{postgres.url}postgres", f"CREATE DATABASE {name}")
    yield f"{postgres.url}{name}"
    # By an administrator: only one may end the server's own work on it (autovacuum).
    _on_postgres(postgres.admin_url, f"DROP DATABASE {name} WITH (FORCE)")


def _on_postgres(url: str, statement: str) -> None:
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)


_STORES: Final = {each.kind: each for each in (Minio, GoogleStore, Azurite)}

Store = ObjectStore | Minio | GoogleStore | Azurite


@pytest.fixture(scope="session")
def store(request: pytest.FixtureRequest) -> Store:
    """Start moto's server, or the one that a decorator of harness/stores.py names. It stops with the others."""
    named = getattr(request, "param", "moto")
    started: Store = _STORES[named]() if named in _STORES else ObjectStore()
    started.up()
    return started


@pytest.fixture
def store_port(store: Store) -> int:
    """Return its port."""
    return store.port


@pytest.fixture
def bucket(store: Store) -> Bucket:
    """Return a bucket, or container, of the test's own."""
    if isinstance(store, GoogleStore):
        return GoogleBucket(store.port, store.service_account_key)
    if isinstance(store, Azurite):
        return AzureContainer(store.port, azurite_native.ACCOUNT, azurite_native.ACCOUNT_KEY)
    return Bucket(store.port)


@pytest.fixture
def hdfs_folder() -> Folder:
    """Return a folder of the shared HDFS, which stops with the other services."""
    cluster = Hdfs()
    cluster.up()
    return Folder.of(cluster.port)


@pytest.fixture(scope="session")
def registry(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistry]:
    """A schema registry without logins."""
    with SchemaRegistry(tmp_path_factory.mktemp("registry"), services.kafka_bootstrap) as started:
        yield started


@pytest.fixture
def http_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpProxy]:
    """One that the environment names, as a company sets it up."""
    with HttpProxy() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(name, proxy.url)
        yield proxy


@pytest.fixture(scope="session")
def secured_kafka() -> SecuredKafka:
    """A broker with TLS, SASL and an authorizer that answers; it is stopped with the other services."""
    broker = SecuredKafka()
    broker.up()
    return broker


@pytest.fixture(scope="module")
def copied_kafka() -> Iterator[CopiedKafka]:
    """A broker of a module's tests alone, whose folder can be set back."""
    made = CopiedKafka()
    made.up()
    yield made
    made.down()


@pytest.fixture(scope="session")
def secured_mariadb() -> SecuredMariadb:
    """A MariaDB server with TLS; it is stopped with the other services."""
    server = SecuredMariadb()
    server.up()
    return server


@pytest.fixture(scope="session")
def secured_postgres() -> SecuredPostgres:
    """A PostgreSQL server with TLS; it is stopped with the other services."""
    server = SecuredPostgres()
    server.up()
    return server


@pytest.fixture
def topic(services: Services) -> Iterator[TopicFactory]:
    """A function that creates a topic and returns its name; the topics are deleted at the end."""
    with _topics(services) as factory:
        yield factory


@contextmanager
def _topics(services: Services) -> Iterator[TopicFactory]:
    created: list[str] = []

    def create(partitions: int = 1, **settings: str) -> str:
        name = f"eos-{secrets.token_hex(5)}"
        # Kafka's settings have dots, Python's arguments do not: cleanup_policy="compact".
        topics.create(services.kafka_bootstrap, name, partitions, {k.replace("_", "."): v for k, v in settings.items()})
        created.append(name)
        return name

    yield create
    topics.delete(services.kafka_bootstrap, created)


@pytest.fixture(scope="session")
def _first_run(services: Services, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One run to its end, its JVM's included: on a fresh machine the next ones then start in half the time."""
    folder = tmp_path_factory.mktemp("first-run")
    with (
        _new_database(services) as database,
        _topics(services) as topic,
        Pipeline(folder, services.kafka_bootstrap, topic(partitions=PARTITIONS), database) as pipeline,
    ):
        pipeline.table.create()
        pipeline.workload.produce(1)
        assert pipeline.catch_up().left_behind(timeout_s=200) == []
        pipeline.assert_exact(at_least=1)


@pytest.fixture
def pipeline(
    services: Services, database: str, topic: TopicFactory, tmp_path: Path, _first_run: None
) -> Iterator[Pipeline]:
    """A pipeline from a topic to a table, both its own and empty; its processes are ended at the end of the test."""
    folder = tmp_path / "pipeline"
    folder.mkdir()
    with Pipeline(folder, services.kafka_bootstrap, topic(partitions=PARTITIONS), database) as made:
        made.table.create()
        yield made


@pytest.fixture(params=["mysql", pytest.param("postgresql", marks=pytest.mark.any_server)])
def tenant(request: pytest.FixtureRequest, services: Services) -> Iterator[Tenant]:
    """A user of a database of each kind, who has no rights yet."""
    if request.param == "mysql":
        database = request.getfixturevalue("database")
        made = Tenant("mysql", database, services.admin_database_url, services.database.name, "compliance")
        yield made
        made.execute(f"DROP USER IF EXISTS {made.name}")
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        database = request.getfixturevalue("postgres_database")
        made = Tenant("postgresql", database, postgres.admin_url, "PostgreSQL", "compliance")
        made.execute(f"REVOKE ALL ON DATABASE {made.database} FROM PUBLIC", "REVOKE ALL ON SCHEMA public FROM PUBLIC")
        yield made
        made.execute(f"DROP OWNED BY {made.name}", f"DROP ROLE {made.name}")


@pytest.fixture
def jobs(database: str, tmp_path: Path, _first_run: None) -> Iterator[Jobs]:
    """Starts jobs that write to this test's database; every process is ended at the end."""
    with closing(Jobs(tmp_path, database)) as made:
        yield made


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with the wheels of this project and of each plugin."""
    return install(tmp_path_factory.mktemp("installed"), *PLUGINS)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, _first_run: None) -> Iterator[Cluster]:
    """A Spark master with two workers of one core each; started once, by the first test that asks for it."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def cluster_pipeline(
    services: Services, database: str, topic: TopicFactory, tmp_path: Path, cluster: Cluster
) -> Iterator[ClusterPipeline]:
    """As `pipeline`, with its tasks on the cluster."""
    folder = tmp_path / "pipeline"
    folder.mkdir()
    with ClusterPipeline(folder, services.kafka_bootstrap, topic(partitions=PARTITIONS), database, cluster) as made:
        made.table.create()
        yield made
