"""Start, stop and show the services of the integration tests."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Final

from integration_tests.services import (
    azurite_native,
    google_native,
    kubernetes_native,
    kubernetes_node,
    kubernetes_tools,
)
from integration_tests.services.azurite_native import Azurite
from integration_tests.services.databases_secured import SecuredMariadb, SecuredPostgres
from integration_tests.services.google_native import GoogleStore
from integration_tests.services.hdfs_cluster import Hdfs
from integration_tests.services.kafka_secured import SecuredKafka
from integration_tests.services.minio_native import Minio
from integration_tests.services.moto_native import ObjectStore
from integration_tests.services.obtain import KINDS, obtain, provider
from integration_tests.services.postgres_native import Postgres
from integration_tests.services.state import State
from integration_tests.services.values import ServiceError, Services

_BESIDE: Final = (
    Postgres(), ObjectStore(), Minio(), GoogleStore(), Azurite(), Hdfs(), SecuredKafka(), SecuredMariadb(),
    SecuredPostgres(),
)  # fmt: skip
"""Processes of this machine beside either of the two kinds, started by tests that ask for them."""

STOPPABLE: Final = ("docker", *(each.kind for each in _BESIDE), "native")  # the last drops the folder of all


def main() -> int:
    """Run the command line; 1 where services could not be provided."""
    arguments = _parser().parse_args()
    try:
        beside = {each.kind: each for each in _BESIDE}
        if arguments.command == "up" and arguments.kind in beside:
            beside[arguments.kind].up()
            print(f"{arguments.kind}: is up")
        elif arguments.command == "up":
            services = obtain(arguments.kind, say=lambda line: print(line, file=sys.stderr))
            _show([services], arguments.json)
        elif arguments.command == "down":
            _down(arguments.kind)
        elif arguments.command == "build":
            return _build(with_node=arguments.node)
        else:
            _show(_running(), arguments.json)
            for each in [] if arguments.json else _BESIDE:
                if each.running():
                    print(f"{each.kind}: is up")
    except ServiceError as error:
        print(f"services: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m integration_tests.services", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start them, or find them running, and wait until they answer")
    up.add_argument(
        "--kind", choices=(*KINDS, *(each.kind for each in _BESIDE)), default=os.environ.get("EOS_SERVICES", "auto")
    )
    up.add_argument("--json", action="store_true", help="print one JSON array")
    down = commands.add_parser("down", help="stop what `up` started, and drop its data")
    down.add_argument("--kind", choices=("all", *STOPPABLE), default="all")
    build = commands.add_parser(
        "build", help="build the programs that tests of cloud stores and of the Helm chart need; takes minutes, once"
    )
    build.add_argument("--node", action="store_true", help="also kubelet, a scheduler and the network of pods")
    status = commands.add_parser("status", help="show what runs")
    status.add_argument("--json", action="store_true", help="print one JSON array")
    return parser


def _running() -> list[Services]:
    return [services for kind in ("docker", "native") if (services := provider(kind).running()) is not None]


def _build(*, with_node: bool) -> int:
    """Build each program, also after one that cannot be built; 1 if there was one."""
    log = State("build").log("go")
    node = kubernetes_node.PROGRAMS if with_node else ()
    failed = 0
    for each in (
        google_native.PROGRAM,
        azurite_native.PROGRAM,
        *kubernetes_tools.PROGRAMS,
        *kubernetes_native.PROGRAMS,
        *node,
    ):
        try:
            print(f"{each.name}: {each.obtain(log)}", flush=True)
        except ServiceError as error:
            print(f"services: {error}", file=sys.stderr)
            failed = 1
    return failed


def _down(kind: str) -> None:
    beside = {each.kind: each for each in _BESIDE}
    for each in STOPPABLE if kind == "all" else (kind,):
        stopped = beside[each].down() if each in beside else provider(each).down()
        print(f"{each}: {'stopped' if stopped else 'nothing was up'}")


def _show(found: list[Services], as_json: bool) -> None:
    if as_json:
        print(json.dumps([services.facts() for services in found], indent=2))
        return
    if not found:
        print("nothing is up")
    for services in found:
        print(f"{services.kind}: {services.kafka} at {services.kafka_bootstrap}")
        print(f"{services.kind}: {services.database} at {services.database_url}")


if __name__ == "__main__":
    sys.exit(main())
