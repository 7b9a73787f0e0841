"""The two databases of a chaos run: killed, stopped and started again, and reached by the pipeline through a link."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Protocol

import psutil
import sqlalchemy
from sqlalchemy.exc import OperationalError

from integration_tests.harness import session
from integration_tests.harness.link import Link
from integration_tests.services import Services
from integration_tests.services.postgres_native import Postgres


class DatabaseServer(Protocol):
    """One of them."""

    @property
    def url(self) -> str:
        """SQLAlchemy's form, with the rights of a pipeline's user, without a database."""

    def kill(self) -> None:
        """End it at once."""

    def start(self) -> None:
        """Start it again; returns when it answers."""

    def stop(self) -> None:
        """It does nothing any more, and keeps its connections."""

    def go_on(self) -> None:
        """It goes on where it was."""

    def answers(self) -> bool:
        """Whether it answers somebody new within a second or two."""


@dataclass(frozen=True, slots=True)
class MySqlServer:
    """MySQL in a container, or MariaDB as a process. See DatabaseServer."""

    services: Services

    @property
    def url(self) -> str:
        """See DatabaseServer."""
        return self.services.database_url

    def kill(self) -> None:
        """See DatabaseServer."""
        self.services.kill_database()

    def start(self) -> None:
        """See DatabaseServer."""
        self.services.start_database()

    def stop(self) -> None:
        """See DatabaseServer."""
        self.services.pause_database()

    def go_on(self) -> None:
        """See DatabaseServer."""
        self.services.resume_database()

    def answers(self) -> bool:
        """See DatabaseServer."""
        return _answers(self.services.admin_database_url, connect_timeout=1, read_timeout=1)


@dataclass(slots=True)
class PostgresServer:
    """See DatabaseServer."""

    server: Postgres
    _stopped: list[psutil.Process] = field(default_factory=list)

    @property
    def url(self) -> str:
        """See DatabaseServer."""
        return self.server.url

    def kill(self) -> None:
        """See DatabaseServer."""
        self.server.kill()

    def start(self) -> None:
        """See DatabaseServer."""
        self.server.up()

    def stop(self) -> None:
        """See DatabaseServer. Each connection is served by a process of its own."""
        first = psutil.Process(self.server.pid)
        self._stopped = [first, *first.children(recursive=True)]
        for each in self._stopped:
            session.send(each.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """See DatabaseServer."""
        for each in self._stopped:
            session.send(each.pid, signal.SIGCONT)

    def answers(self) -> bool:
        """See DatabaseServer."""
        return _answers(self.server.admin_url, connect_timeout=2)


def _answers(url: str, **limits: int) -> bool:
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, connect_args=limits)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1")
    except OperationalError:
        return False
    return True


def link_to(url: str) -> Link:
    """A link to the server of this URL."""
    parsed = sqlalchemy.make_url(url)
    assert parsed.host is not None
    return Link(parsed.host, parsed.port or 0)


def through(url: str, link: Link) -> str:
    """The same URL, through the link."""
    return sqlalchemy.make_url(url).set(port=link.port).render_as_string(hide_password=False)
