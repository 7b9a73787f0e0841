"""What a test is given: addresses, the servers found there, and the means to kill and restart them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class ServiceError(Exception):
    """Services could not be provided; the message says what to do about it."""


class NoControlError(Exception):
    """A test asked to kill a server that this run does not own: the test is reported as NOT RUN."""


class Control(Protocol):
    """Kills servers without warning (SIGKILL) and starts them again on the same data and the same address."""

    def kill_database(self) -> None:
        """End the database server at once; returns when it is gone."""

    def start_database(self) -> None:
        """Start the database server; returns when it answers."""

    def pause_database(self) -> None:
        """Have the database server do nothing any more, with its connections open (SIGSTOP)."""

    def resume_database(self) -> None:
        """Let it go on where it was."""

    def pause_kafka(self) -> None:
        """Have the broker do nothing any more, with its connections open (SIGSTOP)."""

    def resume_kafka(self) -> None:
        """Let it go on where it was."""

    def kill_kafka(self) -> None:
        """End the broker at once; returns when it is gone.

        A single node that is killed between a producer's commit and the writing of its markers, some milliseconds, may
        skip the markers when it comes back, because for some seconds its own partitions have no leader. The
        transaction then hangs and read_committed readers stop before it. So a test first waits until it can read what
        was committed.
        """

    def start_kafka(self) -> None:
        """Start the broker; returns when it answers."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server as it was found."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True, slots=True)
class Services:
    """One broker and one database, answering."""

    kind: str  # where they come from: environment, docker or native
    kafka_bootstrap: str
    database_url: str  # SQLAlchemy's form, with the rights of a pipeline's user, without a database
    admin_database_url: str  # the same server with all rights
    kafka: Server
    database: Server
    control: Control | None = None

    def kill_database(self) -> None:
        """End the database server at once."""
        self._controlled().kill_database()

    def start_database(self) -> None:
        """Start the database server again and wait until it answers."""
        self._controlled().start_database()

    def pause_database(self) -> None:
        """Have the database server do nothing any more, with its connections open."""
        self._controlled().pause_database()

    def resume_database(self) -> None:
        """Let it go on where it was."""
        self._controlled().resume_database()

    def pause_kafka(self) -> None:
        """Have the broker do nothing any more, with its connections open."""
        self._controlled().pause_kafka()

    def resume_kafka(self) -> None:
        """Let it go on where it was."""
        self._controlled().resume_kafka()

    def kill_kafka(self) -> None:
        """End the broker at once."""
        self._controlled().kill_kafka()

    def start_kafka(self) -> None:
        """Start the broker again and wait until it answers."""
        self._controlled().start_kafka()

    def _controlled(self) -> Control:
        if self.control is None:
            raise NoControlError("the services were given by address, so this run must not kill them")
        return self.control

    def facts(self) -> dict[str, str]:
        """Everything but the control, as plain data for `--json`."""
        return {
            "kind": self.kind,
            "kafka_bootstrap": self.kafka_bootstrap,
            "database_url": self.database_url,
            "admin_database_url": self.admin_database_url,
            "kafka": str(self.kafka),
            "database": str(self.database),
        }
