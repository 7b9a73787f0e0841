"""Start, stop and show the services of the integration tests."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Final

from integration_tests.services.kafka_secured import SecuredKafka
from integration_tests.services.moto_native import ObjectStore
from integration_tests.services.obtain import KINDS, obtain, provider
from integration_tests.services.postgres_native import Postgres
from integration_tests.services.values import ServiceError, Services

_STOPPABLE: Final = ("docker", "native", Postgres.kind, ObjectStore.kind, SecuredKafka.kind)
"""The last ones are processes of this machine beside either of the first two, started by tests that ask for them."""


def main() -> int:
    """Run the command line; 1 where services could not be provided."""
    arguments = _parser().parse_args()
    try:
        if arguments.command == "up":
            services = obtain(arguments.kind, say=lambda line: print(line, file=sys.stderr))
            _show([services], arguments.json)
        elif arguments.command == "down":
            _down(arguments.kind)
        else:
            _show(_running(), arguments.json)
            if not arguments.json and Postgres().running():
                print(f"{Postgres.kind}: {Postgres().server} at {Postgres().url}")
            if not arguments.json and SecuredKafka().running():
                print(f"{SecuredKafka.kind}: Apache Kafka at {SecuredKafka().bootstrap}")
            if not arguments.json and ObjectStore().running():
                print(f"{ObjectStore.kind}: moto at http://127.0.0.1:{ObjectStore().port}")
    except ServiceError as error:
        print(f"services: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m integration_tests.services", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start them, or find them running, and wait until they answer")
    up.add_argument("--kind", choices=KINDS, default=os.environ.get("EOS_SERVICES", "auto"))
    up.add_argument("--json", action="store_true", help="print one JSON array")
    down = commands.add_parser("down", help="stop what `up` started, and drop its data")
    down.add_argument("--kind", choices=("all", *_STOPPABLE), default="all")
    status = commands.add_parser("status", help="show what runs")
    status.add_argument("--json", action="store_true", help="print one JSON array")
    return parser


def _running() -> list[Services]:
    return [services for kind in ("docker", "native") if (services := provider(kind).running()) is not None]


def _down(kind: str) -> None:
    beside: dict[str, Postgres | ObjectStore | SecuredKafka] = {
        each.kind: each for each in (Postgres(), ObjectStore(), SecuredKafka())
    }
    for each in _STOPPABLE if kind == "all" else (kind,):
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
