"""Clients for questions that a process keeps: a few, those that were used last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from connectors.kafka import pool
from connectors.kafka.client import Client
from connectors.kafka.pool import monitor_admin, shared_admin
from connectors.kafka.settings import Connection


@pytest.mark.parametrize("admin", [shared_admin, monitor_admin])
def test_the_clients_that_were_used_last_are_kept(
    admin: Callable[[Connection], AbstractContextManager[Client]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that serves one pipeline after another would otherwise end with a client of each."""
    monkeypatch.setattr(pool, "_pool", pool._Pool())
    first, *others = (Connection("127.0.0.1:1", f"group-{number}") for number in range(10))
    with admin(first) as used:
        for each in others:
            with admin(first) as again, admin(each):
                assert again is used
    kept = pool._own().admins if admin is shared_admin else pool._own().monitors
    assert [*kept] == [*others[-3:-1], first, others[-1]]
