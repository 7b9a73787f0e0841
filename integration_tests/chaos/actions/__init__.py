"""How each kind of fault is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from integration_tests.chaos.actions import drivers, operations, processes, servers, surroundings
from integration_tests.chaos.effect import Action

ACTIONS: Final[Mapping[str, Action]] = {
    "driver killed": drivers.killed,
    "driver killed beside a standby": drivers.killed_beside_standby,
    "driver's JVM killed": processes.killed(processes.drivers_java),
    "driver stopped": drivers.stopped,
    "driver superseded": drivers.superseded,
    "two drivers": drivers.two_at_once,
    "executor killed": processes.killed(processes.executors),
    "executor stopped": processes.stopped(processes.executors),
    "Python worker killed": processes.killed(processes.tasks),
    "Python worker stopped": processes.stopped(processes.tasks),
    "machine of a worker lost": processes.machine_lost,
    "broker killed": servers.broker_killed,
    "broker stopped": servers.broker_stopped,
    "database killed": servers.database_killed,
    "database stopped": servers.database_stopped,
    "sink away": servers.sink_away,
    "connections cut": servers.cut,
    "connections slow": servers.slow,
    "connections half open": servers.half_open,
    "disk full": surroundings.disk_full,
    "disk read-only": surroundings.read_only,
    "topic grown": surroundings.topic_grown,
    "tables evolved": operations.tables_evolved,
    "savepoint taken": operations.savepoint_taken,
    "transaction rolled back": drivers.rolled_back,
    "clock jumped": surroundings.clock_jumped,
    "driver's machine lost": drivers.machine_lost,
    "store away": servers.cut,
    "store stopped": servers.store_stopped,
    "store slow": servers.slow,
    "store half open": servers.half_open,
}
"""By kind (plan.KINDS)."""
