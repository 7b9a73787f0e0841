"""Runs the demo on real servers: `python -m integration_tests.demo docker|native|auto`."""

from __future__ import annotations

import sys
from functools import partial

from integration_tests.demo.place import KINDS, servers
from integration_tests.services import ServiceError
from spark_jobs.demo.performance import perform


def main(arguments: list[str]) -> int:
    """Return the exit code of the demo, or 2 for a wrong command line."""
    kind = arguments[0] if arguments else ""
    if kind not in KINDS or len(arguments) > 1:
        choices = ", ".join(("embedded", *KINDS))
        print(f"demo: unknown kind of services {kind!r}: choose one of {choices}", file=sys.stderr)
        return 2
    try:
        return perform(partial(servers, kind))
    except ServiceError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
