"""Measures rates: `python -m benchmarks.bench --help`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.bench import own_cases
from benchmarks.bench.command_line import parser
from benchmarks.bench.comparison import peers
from benchmarks.bench.comparison.plan import Plan
from benchmarks.bench.comparison.report import Docs, report
from benchmarks.bench.comparison.run import Patience, run
from benchmarks.bench.comparison.systems import systems, without
from benchmarks.bench.formats import report as formats_report
from benchmarks.bench.formats.plan import FormatsPlan
from benchmarks.bench.formats.run import run as run_formats
from integration_tests.services import ServiceError, obtain

_DOCS = Path(__file__).parents[2] / "docs"


class WrongError(Exception):
    """Of the command line, or of the files that it names."""


def main() -> int:
    """See --help."""
    arguments = parser().parse_args()
    commands = {"compare": _compare, "formats": _formats, "report": _report, "cases": _cases}
    try:
        return commands[arguments.command](arguments)
    except (ServiceError, WrongError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


def _compare(arguments: argparse.Namespace) -> int:
    known, missing = systems(), without()
    left_out = [name for name in arguments.systems if name in missing]
    if left_out:
        print(f"bench: left out, since {peers.VARIABLE} names no folder: {', '.join(left_out)}", file=sys.stderr)
    chosen = [known[name] for name in known if name in arguments.systems and name not in missing]
    if not chosen:
        raise WrongError("no system is left to measure")
    plan = Plan(chosen, arguments.kinds, arguments.rows, arguments.runs, arguments.latency_runs)
    patience = Patience(arguments.retries, arguments.wait_quiet_s)
    return 0 if run(plan, obtain(arguments.kind), arguments.out, patience) else 1


def _formats(arguments: argparse.Namespace) -> int:
    plan = FormatsPlan(arguments.formats, arguments.systems, arguments.rows, arguments.runs)
    if not list(plan.steps()):
        raise WrongError("none of these systems reads any of these formats")
    patience = Patience(arguments.retries, arguments.wait_quiet_s)
    return 0 if run_formats(plan, obtain(arguments.kind), arguments.out, patience) else 1


def _report(arguments: argparse.Namespace) -> int:
    docs = Docs(_DOCS / "explanation" / "benchmarks.md", _DOCS / "images" / "comparison.svg")
    try:
        of_formats = [path for path in arguments.files if formats_report.is_of_formats(path)]
        others = [path for path in arguments.files if path not in of_formats]
        if others:
            report(systems(), others, docs)
        if of_formats:
            formats_report.report(of_formats, docs.page)
    except (ValueError, FileNotFoundError) as error:
        raise WrongError(str(error)) from None
    print(f"bench: {docs.page} is written", file=sys.stderr)
    return 0


def _cases(arguments: argparse.Namespace) -> int:
    services = obtain(arguments.kind)
    for rows in arguments.rows:
        own_cases.measure(services, rows, arguments.runs, own_cases.with_those_beside(arguments.cases))
    return 0


if __name__ == "__main__":
    sys.exit(main())
