"""Systems of a folder of peers: how each is built and started is that folder's, how it is measured is ours.

`EOS_PEERS` names the folder. Its `harness.py` has a dictionary PEERS and `make_peer`, whose `command` starts a peer.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Final

from benchmarks.bench.comparison.work import TABLE, Launch, System, Work
from integration_tests.services.maven_jars import cache_folder
from integration_tests.services.values import ServiceError

VARIABLE: Final = "EOS_PEERS"
_SETTINGS: Final = {"flink120": False, "batch": 5000, "checkpoint": "2s", "parallelism": 2, "heap": "3g"}
"""Those that the harness itself takes where nothing else is said."""


def folder() -> Path | None:
    """Where they are, if they are anywhere. Raises ServiceError if the variable is wrong."""
    given = os.environ.get(VARIABLE)
    if not given:
        return None
    found = Path(given).resolve()
    if not (found / "harness.py").is_file():
        raise ServiceError(f"{VARIABLE}={given}: there is no harness.py; name the folder of the peers, or unset it")
    return found


def systems() -> list[System]:
    """All of them, whether the folder is there or not."""
    return [
        _system("flink-xa", "Flink, XA", "exactly-once"),
        _system("flink-alo", "Flink, upsert", "at-least-once"),
        _system("debezium-insert", "Debezium, insert", "at-least-once"),
        _system("debezium-upsert", "Debezium, upsert", "at-least-once"),
    ]


def _system(name: str, label: str, guarantee: str) -> System:
    return System(name, label, guarantee, partial(_prepare, name))


def _prepare(name: str, work: Work) -> Launch:
    where = folder()
    if where is None:
        raise ServiceError(f"{name} is not to be had without {VARIABLE}")
    harness = _load(where, work)
    peer = harness.make_peer(argparse.Namespace(peer=name, **_SETTINGS))
    run = f"peer-{name}-{time.time_ns()}"
    command, _ = peer.command(work.topic, TABLE, run, bounded=not work.live)
    return Launch(
        command,
        partial(harness.ready_time, peer, work.log),
        ends=peer.self_ending and not work.live,
        fatal=peer.fatal or b"",
        clean=partial(_roll_back, harness),
    )


def _load(where: Path, work: Work) -> ModuleType:
    """A harness for this run: it takes its addresses from the environment when it is loaded."""
    url = work.url
    os.environ.setdefault("PEERS_WORK", str(cache_folder() / "peers"))
    Path(os.environ["PEERS_WORK"]).mkdir(parents=True, exist_ok=True)
    os.environ |= {
        "PEERS_KAFKA": work.bootstrap,
        "PEERS_MYSQL": f"{url.host}:{url.port or 3306}",
        "PEERS_MYSQL_DB": url.database or "",
        "PEERS_MYSQL_USER": url.username or "",
        "PEERS_MYSQL_PASSWORD": str(url.password or ""),
    }
    described = importlib.util.spec_from_file_location("peers_harness", where / "harness.py")
    if described is None or described.loader is None:
        raise ServiceError(f"{where / 'harness.py'} is no Python module")
    harness = importlib.util.module_from_spec(described)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # the folder is not ours
    try:
        described.loader.exec_module(harness)
    finally:
        sys.dont_write_bytecode = written
    return harness


def _roll_back(harness: ModuleType) -> None:
    """What was prepared when it was stopped keeps its locks, and the database could not be dropped."""
    with harness.my() as connection, connection.cursor() as cursor:
        harness.xa_rollback_all(cursor)
