"""`eos upgrade`: whether the installed version can continue a pipeline of another version."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Final

import typer

from eos.errors import SpecError
from spark_jobs.cli.doctor import table_of
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.operations.upgrade import stored_findings
from twophase.version import installed_version

Check = Annotated[bool, typer.Option("--check", help="Read all stored documents, and change nothing. Required.")]

_STEPS: Final = "stop the pipeline, install the new version, and start it; `eos upgrade --check` looks beforehand"


def upgrade(spec: SpecPath, check: Check = False, as_json: AsJson = False, debug: Debug = False) -> None:
    """Check that the installed version can continue a pipeline that another version has run.

    Reads head, its records, the requests, the plan of the query, the history, the savepoints, the counts of the sinks
    and their prepared transactions, as a start would. Each finding that is not ok has the error of that start, with its
    remedy. Install the new version in another environment, and run this there: the pipeline may run meanwhile. Changes
    nothing, except that a sink without the protocol's own tables gets them.

    `eos doctor` checks the services and this machine.

    Exit code: 0 if this version can continue; 1 if it cannot read something; 2 if the spec or the command line is
    wrong.

    Examples:

        eos upgrade --check orders.yaml

        eos upgrade --check orders.yaml --json
    """
    if not check:
        raise SpecError("eos upgrade needs --check", remedy=_STEPS)
    loaded = out.load(spec)
    findings = list(stored_findings(loaded))
    can_continue = all(finding.ok or not finding.fatal for _, finding in findings)
    if as_json:
        facts = [{"of": of, **asdict(finding)} for of, finding in findings]
        out.facts({"ok": can_continue, "version": installed_version(), "findings": facts})
    elif not findings:
        out.show(out.text(f"{loaded.pipeline} has never run: nothing is stored.", "bold"))
    else:
        out.show(table_of(findings))
        verdict = "can continue" if can_continue else "cannot continue"
        out.show(out.text(f"Version {installed_version()} {verdict} {loaded.pipeline}.", "bold"))
    if not can_continue:
        raise typer.Exit(1)
