"""A server whose data folder is copied and put back: a backup, or a replica that lagged and takes over.

The server is stopped for both, and its clients are cut off: a copy has prepared transactions, and no open ones.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from integration_tests.services.kafka_native import KafkaNative
from integration_tests.services.mariadb_native import MariadbNative
from integration_tests.services.postgres_native import Postgres
from integration_tests.services.processes import ServerProcess
from integration_tests.services.readiness import await_database, await_ended_transactions, await_kafka
from integration_tests.services.state import State, data_folder, free_port, tail


class Copied(ABC):
    """Of one test run: `down` drops everything."""

    @abstractmethod
    def up(self) -> None:
        """Start it where it does not run; wait until it answers."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once."""

    @abstractmethod
    def down(self) -> None:
        """Stop it and drop its data."""

    @property
    @abstractmethod
    def data(self) -> Path:
        """Its data folder."""

    @property
    def _copied(self) -> Path:
        return self.data.with_name(f"{self.data.name}.copy")

    def copy(self) -> None:
        """Keep the server as it is now."""
        self.kill()
        shutil.rmtree(self._copied, ignore_errors=True)
        _copy(self.data, self._copied)
        self.up()

    def put_back(self) -> None:
        """Replace the server by what `copy` has kept."""
        self.kill()
        shutil.rmtree(self.data)
        _copy(self._copied, self.data)
        self.up()


class CopiedServer(Copied):
    """A database server."""

    @property
    @abstractmethod
    def url(self) -> str:
        """SQLAlchemy's form, with the rights of a pipeline's user, without a database."""

    @property
    @abstractmethod
    def admin_url(self) -> str:
        """The same server with all rights."""


def _copy(source: Path, target: Path) -> None:
    """With owners: the server's user is another one."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


class CopiedPostgres(Postgres, CopiedServer):
    """See CopiedServer."""

    kind = "postgres-copied"
    wanted_port = "15453"

    @property
    def settings(self) -> Sequence[str]:
        """See Postgres."""
        return (*super().settings, "shared_buffers=16MB")

    def kill(self) -> None:
        """See CopiedServer. Its clients are cut off, and it starts sooner than after a crash."""
        process = self._process()
        os.kill(process.pid, signal.SIGINT)
        process.await_reaped()

    def down(self) -> bool:  # type: ignore[override]
        """See CopiedServer."""
        shutil.rmtree(self._copied, ignore_errors=True)
        return super().down()


class CopiedMariadb(CopiedServer):
    """See CopiedServer."""

    kind = "mariadb-copied"
    options: Sequence[str] = ("--innodb-buffer-pool-size=32M",)

    def __init__(self) -> None:
        self._state = State(self.kind)
        self._folder = data_folder() / self.kind
        state = self._state.load()
        port = state.setdefault("port", free_port(13327))
        self._state.save(state)
        self._native = MariadbNative(self._state, self._folder, port, self.options)
        self._process: ServerProcess | None = None

    @property
    def url(self) -> str:
        """See CopiedServer."""
        return self._native.url

    @property
    def admin_url(self) -> str:
        """See CopiedServer."""
        return self._native.admin_url

    @property
    def data(self) -> Path:
        """See CopiedServer."""
        return self._folder / "mariadb" / "data"

    def up(self) -> None:
        """See CopiedServer."""
        if self._process is None:
            self._folder.mkdir(mode=0o711, exist_ok=True)
            self._process = self._native.start()
        process = self._process
        await_database(self.admin_url, lambda: None if process.running() else tail(self._native.log))
        assert process.running(), "what answers is another server, left at this port by tests that died"

    def kill(self) -> None:
        """See CopiedServer."""
        assert self._process is not None
        self._process.kill()
        self._process.await_reaped()
        self._process = None

    def down(self) -> None:
        """See CopiedServer."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._state.forget()


class CopiedKafka(Copied):
    """A broker that is its own controller: its copy has all topics, transactions and leader epochs."""

    kind = "kafka-copied"

    def __init__(self) -> None:
        self._state = State(self.kind)
        self._folder = data_folder() / self.kind
        ports = self._state.load().get("ports") or [free_port(19393), free_port(19394)]
        self._state.save({"ports": ports})
        self._native = KafkaNative(self._state, self._folder, *ports)
        self._process: ServerProcess | None = None

    @property
    def bootstrap(self) -> str:
        """Where it listens."""
        return self._native.bootstrap

    @property
    def data(self) -> Path:
        """See Copied."""
        return self._folder / "kafka"

    def copy(self) -> None:
        """See Copied. A broker that is killed too soon after a commit can lose it (docs/reference/sinks.md, Topics)."""
        await_ended_transactions(self.bootstrap)
        super().copy()

    def up(self) -> None:
        """See Copied."""
        if self._process is None:
            self._folder.mkdir(exist_ok=True)
            self._process = self._native.start()
        process = self._process
        await_kafka(self.bootstrap, lambda: None if process.running() else tail(self._native.log))
        assert process.running(), "what answers is another server, left at this port by tests that died"

    def kill(self) -> None:
        """See Copied."""
        assert self._process is not None
        self._process.kill()
        self._process.await_reaped()
        self._process = None

    def replace(self) -> None:
        """Have another, empty cluster at the same address."""
        self.kill()
        shutil.rmtree(self.data)
        self.up()

    def down(self) -> None:
        """See Copied."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._state.forget()
