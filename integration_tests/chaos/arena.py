"""Where a round is fought: servers and a Spark cluster, which last, and what is its own: topic, tables, pipeline."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eos.errors import HeadError
from integration_tests import databases
from integration_tests.chaos import chain
from integration_tests.chaos.brokers import Brokers
from integration_tests.chaos.change_load import ChangeLoad
from integration_tests.chaos.clock import Clock
from integration_tests.chaos.disk import Disk
from integration_tests.chaos.evolution import Evolution
from integration_tests.chaos.load import Load
from integration_tests.chaos.plan import KINDS, Round, Setup
from integration_tests.chaos.servers import DatabaseServer, MySqlServer, PostgresServer, link_to, through
from integration_tests.chaos.spec import TABLE, Topics, pipeline_spec, spark_settings, step_name, table_columns
from integration_tests.chaos.store import Store, wrong_states
from integration_tests.chaos.store import started as store_started
from integration_tests.chaos.supervised import Supervised
from integration_tests.cluster.standalone import Cluster
from integration_tests.harness.fast_start import fast_start
from integration_tests.harness.link import Link
from integration_tests.harness.oracle import PostgresTable, SinkTable
from integration_tests.services import Services
from integration_tests.services.postgres_native import Postgres
from twophase.codec import decode_head
from twophase.head import HeadStore
from twophase.head_value import HeadValue
from twophase.local_head import LocalHead
from wal.testing import files_in

PARTITIONS: Final = 4
_CORES: Final = 2
"""Of each worker: two drivers find room at once."""


@dataclass(frozen=True, slots=True)
class Stack:
    """What lasts from round to round."""

    folder: Path
    brokers: Brokers
    servers: Mapping[str, DatabaseServer]  # by kind
    links: Mapping[str, Link]  # by name of a broker or kind of a database
    cluster: Cluster
    services: Services
    postgres: Postgres


@contextmanager
def stack(folder: Path, services: Services, postgres: Postgres) -> Iterator[Stack]:
    """Start what a run needs besides the databases."""
    with ExitStack() as held:
        brokers = held.enter_context(Brokers(folder / "kafka"))
        servers: dict[str, DatabaseServer] = {"mysql": MySqlServer(services), "postgresql": PostgresServer(postgres)}
        links = {kind: held.enter_context(link_to(server.url)) for kind, server in servers.items()}
        links |= {f"broker-{number}": link for number, link in enumerate(brokers.links)}
        (folder / "cluster").mkdir()
        cluster = held.enter_context(Cluster(folder / "cluster", _CORES))
        yield Stack(folder, brokers, servers, links, cluster, services, postgres)


@dataclass(slots=True)
class Arena:
    """One round's own."""

    stack: Stack
    folder: Path
    topic: str
    written: str  # the topic of the Kafka sink
    letters: str  # the topic of dead letters
    partitions: int
    tables: Mapping[str, SinkTable | PostgresTable]  # by kind of database
    setup: Setup
    evolution: Evolution
    disk: Disk
    clock: Clock
    load: Load
    supervised: Supervised
    before: frozenset[str]  # what was prepared in the databases, by others
    store: Store | None  # of the log, or of the whole location

    @property
    def links(self) -> Mapping[str, Link]:
        """By name of a broker, kind of a database, or `store`."""
        return {**self.stack.links, **({"store": self.store.link} if self.store is not None else {})}

    def head(self) -> HeadValue | None:
        """As it is now; None: it cannot be read at this moment."""
        try:
            found = self._register().read()
        except HeadError:
            return None
        return decode_head(found.value) if found is not None else None

    def left(self) -> list[str]:
        """What the pipeline has left prepared, in whichever life, or in its log."""
        waiting = [*map(str, files_in(self.disk.folder / "log")), *(self.store.waiting() if self.store else ())]
        prepared = [*(_prepared(self.tables) - self.before), *waiting]
        held = [table for table in self.tables.values() if isinstance(table, SinkTable) and table.is_held()]
        return [
            *prepared,
            *(f"{table.name} is locked by what no list names" for table in held),
            *self._wrong_states(),
        ]

    def _register(self) -> HeadStore:
        return self.store.register if self.setup.is_stored and self.store is not None else LocalHead(self.disk.folder)

    def _wrong_states(self) -> list[str]:
        head = self.head() if self.setup.keeps_state_in_store else None
        return wrong_states(self.store.listed(), head) if self.store is not None and head is not None else []


def possible_kinds(folder: Path) -> set[str]:
    """What this machine can do: some faults take the right to mount, or a library."""
    impossible = set()
    if not Disk(folder / "probe").is_real:
        impossible |= {kind for kind in KINDS if kind.startswith("disk")}
    if not Clock(folder).is_real:
        impossible |= {kind for kind in KINDS if kind.startswith("clock")}
    return set(KINDS) - impossible


@contextmanager
def arena(stack: Stack, fought: Round, records_per_s: float) -> Iterator[Arena]:
    """Make what a round needs, and start its load and its pipeline; at the end only its logs are left."""
    name = f"eos_chaos_{fought.number}_{secrets.token_hex(3)}"
    setup = fought.setup
    folder = stack.folder / f"round-{fought.number}"
    folder.mkdir()
    with ExitStack() as held:
        urls = {"mysql": held.enter_context(_database(stack.services, name)), "postgresql": _postgres(stack, name)}
        tables: dict[str, SinkTable | PostgresTable] = {
            "mysql": SinkTable(urls["mysql"], TABLE),
            "postgresql": PostgresTable(urls["postgresql"], TABLE),
        }
        for kind, table in tables.items():
            table.execute(f"CREATE TABLE {TABLE} ({table_columns(kind, setup)})")
        topics = Topics(name, f"{name}-written", f"{name}-letters")
        for topic in (topics.incoming, topics.written, topics.letters):
            stack.brokers.create(topic, PARTITIONS)
        disk = held.enter_context(Disk(folder / "checkpoints"))
        clock = Clock(folder)
        shutil.copy(Path(str(chain.__file__)), folder / "chain.py")
        store = None if setup.log == "folder" else held.enter_context(store_started(setup.log, folder))
        jumps = any(fault.kind == "clock jumped" for each in fought.faults for fault in each)
        own_time = clock.environment if jumps else {}
        linked = {kind: through(url, stack.links[kind]) for kind, url in urls.items()}
        spec = pipeline_spec(setup, topics, stack.brokers.linked, linked, store)
        spec["spark"] = spark_settings(stack.cluster, own_time)
        supervised = Supervised(folder, spec, {**fast_start(), **own_time}, has_standby=setup.has_standby)
        load = _load(fought, stack.brokers.bootstrap, name, records_per_s)
        made = Arena(
            stack,
            folder,
            topics.incoming,
            topics.written,
            topics.letters,
            PARTITIONS,
            tables,
            setup,
            Evolution(supervised.spec, step_name(setup)),
            disk,
            clock,
            load,
            supervised,
            _prepared(tables),
            store,
        )
        with supervised.watching():
            load.start()
            yield made
        for table in tables.values():
            if (head := made.head()) is not None:
                table.roll_back(head.incarnation)


def _load(fought: Round, bootstrap: str, topic: str, records_per_s: float) -> Load:
    breaks = fought.setup.has_dead_letters
    if (keys := fought.setup.changes) == "":
        return Load(bootstrap, topic, PARTITIONS, records_per_s, breaks=breaks)
    return ChangeLoad(bootstrap, topic, PARTITIONS, records_per_s, keys=keys, seed=fought.seed, breaks=breaks)


def _prepared(tables: Mapping[str, SinkTable | PostgresTable]) -> frozenset[str]:
    return frozenset(each for table in tables.values() for each in table.prepared(""))


@contextmanager
def _database(services: Services, name: str) -> Iterator[str]:
    databases.create(services, name)
    yield f"{services.database_url.rstrip('/')}/{name}"
    databases.drop(services, name)


def _postgres(stack: Stack, name: str) -> str:
    """Stays until the server is stopped: a database of PostgreSQL's with something prepared cannot be dropped."""
    table = PostgresTable(f"{stack.postgres.url}postgres", "")
    table.execute(f"CREATE DATABASE {name}")
    return f"{stack.postgres.url}{name}"
