"""`eos doctor`: goes to the real services and checks what a run will need."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Final

import typer
from rich.table import Table

from connectors.api.contracts import Finding, Source
from connectors.registry import build_sink, build_source, check_connections, check_head, check_location
from connectors.spec import Spec, exposures, promise
from eos.errors import ConnectorError
from spark_jobs.cli.environment import check_environment, tasks_at_once
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.observe.head_reader import read_head
from spark_jobs.run.known_sinks import KnownSinks
from spark_jobs.run.open_driver import limits_of
from spark_jobs.session.master import is_local
from spark_jobs.session.protection import findings, gaps_of
from twophase.values import StartingPoint

_PROTECT: Final = "see docs/how-to/security.md: TLS that verifies certificates and host names"


def doctor(spec: SpecPath, as_json: AsJson = False, debug: Debug = False) -> None:
    """Check this machine and the real services for everything that a run needs.

    Checks Java and Spark, the checkpoint location and its free space, the durability of head's database, the broker and
    its topics, the first positions, and the steps. If the checkpoint location or a log is in an object store, tries
    conditional puts, reads and listings there. Checks the database server's version, settings, privileges and free
    connections, and compares the target table with the rows of the steps. Tries XA and LOAD DATA LOCAL, which some
    managed databases and proxies refuse. If spark.master is a cluster, a job of a few seconds checks each worker's
    Python, packages and connections. Each finding that is not ok has a remedy.

    Reads no record, writes no row and prepares nothing. If a run will create or change a table, the statement is shown.
    The command may wait for a service that does not answer. It may create the protocol's own tables beside the target,
    as the first run would.

    Exit code: 0 if a run can start; 1 if a requirement is missing; 2 if the spec is wrong.

    Examples:

        eos doctor orders.yaml

        eos doctor orders.yaml --json
    """
    loaded = out.load(spec)
    findings = [(of, _shown_by_doctor(of, finding)) for of, finding in _findings(loaded)]
    healthy = all(finding.ok or not finding.fatal for _, finding in findings)
    if as_json:
        out.facts({"ok": healthy, "findings": [{"of": of, **asdict(finding)} for of, finding in findings]})
    else:
        out.show(table_of(findings))
        out.show(out.text("A run can start." if healthy else "A run cannot start yet.", "bold"))
    if not healthy:
        raise typer.Exit(1)


def _findings(spec: Spec) -> Iterator[tuple[str, Finding]]:
    """Each finding with what it is about."""
    yield "pipeline", Finding("guarantee", True, promise(spec))
    for each in exposures(spec):
        yield each.of, Finding("protection", False, each.what, _PROTECT, fatal=False)
    for finding in findings(spec, os.environ):
        yield "spark", finding
    here = list(check_environment(spec, os.environ))
    for finding in here:
        yield "this machine", finding
    for finding in check_head(spec):
        yield "head", finding
    for finding in check_location(spec):
        yield "checkpoint location", finding
    if not is_local(spec.spark.master) and all(gap.is_accepted(spec.spark) for gap in gaps_of(spec, os.environ)):
        from spark_jobs.cli.workers import check_workers  # imports Spark, which takes a second

        yield from check_workers(spec)
    sources = {entry.name: build_source(entry) for entry in spec.sources}
    for name, source in sources.items():
        found = [*source.check()]
        for finding in found if any(each.fatal and not each.ok for each in found) else [*found, _beginning(source)]:
            yield f"source {name}", finding
    schemas = {entry.name: sources[entry.from_].schema for entry in spec.sinks if entry.from_ in sources}
    if _is_behind_steps(spec) and all(each.ok for each in here if each.check in {"Java", "PySpark"}):
        from spark_jobs.operations.scratch import check_steps  # behind a step, only Spark knows the columns

        steps, schemas = check_steps(spec, list(sources.values()), debug=out.debug)
        for finding in steps:
            yield "steps", finding
    for entry in spec.sinks:
        for finding in build_sink(spec, entry).check(schemas.get(entry.name), tasks_at_once(spec)):
            yield f"sink {entry.name}", finding
    for finding in _connections(spec):
        yield "connections", finding
    yield from _absences(spec)
    if spec.dead_letter is not None:
        from connectors.dead_letters import SCHEMA  # loads pyarrow

        for finding in build_sink(spec, spec.dead_letter).check(SCHEMA, tasks_at_once(spec)):
            yield "dead letters", finding


def _shown_by_doctor(of: str, finding: Finding) -> Finding:
    """Return the finding without the advice to run this command, and with the key of head's URL.

    A check shares its texts with the errors of a run, which do not know who reads them.
    """
    advice = [part for part in finding.remedy.split("; ") if "eos doctor" not in part]
    detail, remedy = finding.detail, "; ".join(advice)
    if of == "head":
        detail, remedy = (text.replace("the url", "checkpoint.head") for text in (detail, remedy))
    return replace(finding, detail=detail, remedy=remedy)


def _connections(spec: Spec) -> Sequence[Finding]:
    with suppress(ConnectorError):  # a URL that cannot be read is a finding of its sink
        return check_connections(spec, tasks_at_once(spec))
    return []


def _absences(spec: Spec) -> Iterator[tuple[str, Finding]]:
    """Of a pipeline that has run: whether a start could go on without the sinks that may be away."""
    may_be_away = [name for name, limit in limits_of(spec).items() if limit.outlasts_outages]
    if not may_be_away:
        return
    with suppress(ConnectorError):  # what is wrong with head, its own findings say
        if (head := read_head(spec)) is not None:
            kept = KnownSinks.of(spec)
            for name in may_be_away:
                yield f"sink {name}", kept.finding(head, name)


def _is_behind_steps(spec: Spec) -> bool:
    read = {source.name for source in spec.sources}
    return any(entry.from_ not in (None, *read) for entry in spec.sinks)


def _beginning(source: Source) -> Finding:
    """Whether `starting_offsets` can be resolved, which the first start does once and for all (R6)."""
    check = f"{source.name}: starting_offsets"
    try:
        found = source.starting_point(StartingPoint()).positions
    except ConnectorError as error:
        remedy = f"{error.remedy} (a pipeline that has run already goes on where it is)".strip()
        return Finding(check, False, error.message, remedy, fatal=False)
    shown = ", ".join(f"{split}: {offset}" for split, offset in sorted(found.items())[:10])
    return Finding(check, True, f"a first run begins at {shown}{', …' if len(found) > 10 else ''}")


def table_of(findings: list[tuple[str, Finding]]) -> Table:
    """Return the findings for a terminal, each behind its subject."""
    table = Table()
    for heading in ("of", "check", "", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for of, finding in findings:
        word, style = (
            ("ok", "green") if finding.ok else ("FAILS", "bold red") if finding.fatal else ("warning", "yellow")
        )
        remedy = "" if finding.ok else finding.remedy
        table.add_row(
            out.text(of), out.text(finding.check), out.text(word, style), out.text(finding.detail), out.text(remedy)
        )
    return table
