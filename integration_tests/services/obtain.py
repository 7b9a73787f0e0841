"""The order in which services are looked for: addresses, containers, processes."""

from __future__ import annotations

import os
from collections.abc import Callable

from integration_tests.services.containers import Containers, engine_answers
from integration_tests.services.native import Native
from integration_tests.services.readiness import await_database, await_kafka, database_server
from integration_tests.services.values import Server, ServiceError, Services

KINDS = ("auto", "docker", "native")


def provider(kind: str) -> Containers | Native:
    """Return what starts and stops services of this kind."""
    return Containers() if kind == "docker" else Native()


def obtain(kind: str = "auto", say: Callable[[str], None] = lambda _: None) -> Services:
    """Return services that answer, starting them where needed.

    A kind named on purpose wins over addresses in the environment; `auto` takes those first.
    """
    if kind not in KINDS:
        raise ServiceError(f"unknown kind of services {kind!r}: choose one of {', '.join(KINDS)}")
    if kind != "auto":
        return provider(kind).up()
    if (given := _from_environment()) is not None:
        return given
    if engine_answers():
        try:
            return provider("docker").up()
        except ServiceError as error:
            say(f"not in containers: {error}")
    return provider("native").up()


def _from_environment() -> Services | None:
    names = ("EOS_TEST_KAFKA", "EOS_TEST_DATABASE")
    kafka, url = (os.environ.get(name) for name in names)
    if not kafka and not url:
        return None
    if not kafka or not url:
        raise ServiceError(f"{' and '.join(names)} go together: set both or neither")
    admin = os.environ.get("EOS_TEST_DATABASE_ADMIN") or url
    await_kafka(kafka, seconds=20)
    await_database(url, seconds=20)
    await_database(admin, seconds=20)
    return Services("environment", kafka, url, admin, Server("Kafka", f"at {kafka}"), database_server(url))
