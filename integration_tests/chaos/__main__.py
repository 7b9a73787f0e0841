"""Command line of the chaos runs."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from integration_tests.chaos import log as logs
from integration_tests.chaos import report as reports
from integration_tests.chaos.arena import possible_kinds, stack
from integration_tests.chaos.plan import KINDS, round_of
from integration_tests.chaos.round import fight
from integration_tests.chaos.trials import trials
from integration_tests.services import obtain
from integration_tests.services.postgres_native import Postgres

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    minutes: Annotated[float, typer.Option(help="begin no round after this time")] = 10.0,
    seed: Annotated[int | None, typer.Option(help="of the faults and their order; without it a new one")] = None,
    faults: Annotated[int, typer.Option(help="in each round")] = 12,
    rate: Annotated[float, typer.Option(help="records a second")] = 1500.0,
    kind: Annotated[str, typer.Option(help="where MySQL comes from: docker, native (MariaDB) or auto")] = "auto",
    log: Annotated[
        Path, typer.Option(help="a line for each round; with the seed's rounds in it, goes on after them")
    ] = (Path("chaos.jsonl")),
    only: Annotated[list[str] | None, typer.Option(help="a kind of fault, again and again for several")] = None,
) -> None:
    """Run rounds until the time is over. Ends with one JSON line; exit code 1 if anything is lost or doubled."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what it has started is ended
    chosen = seed if seed is not None else secrets.randbelow(1_000_000)
    until_s = time.monotonic() + 60 * minutes
    postgres = Postgres()
    services = obtain(kind, _tell)
    postgres.up()
    folder = Path(tempfile.mkdtemp(prefix="eos-chaos-"))
    folder.chmod(0o755)
    possible = possible_kinds(folder)
    if missing := set(KINDS) - possible:
        _tell(f"not possible on this machine, and left out: {', '.join(sorted(missing))}")
    chosen_kinds = sorted(possible & set(only or KINDS))
    made_with = {"faults": faults, "rate": rate, "kinds": chosen_kinds, "server": str(services.database)}
    revision = _revision()
    before = logs.read(log)
    if (other := logs.begun_otherwise(before, chosen, made_with)) is not None:
        message = f"{log} has rounds of seed {chosen} that were made with {other}: give the same, or another log"
        raise typer.BadParameter(message)
    number = logs.next_round(before, chosen)
    _tell(f"seed {chosen}, from round {number}; logs of the pipeline and its servers in {folder}")
    mine: list[logs.Line] = []

    def keep(facts: logs.Line) -> None:
        mine.append({**facts, "revision": revision, "made_with": made_with})
        logs.append(log, mine[-1])

    try:
        with stack(folder, services, postgres) as held:
            while not mine or time.monotonic() < until_s:
                fought = round_of(chosen, number, faults, chosen_kinds)
                _tell(f"round {number}: {fought.count} faults; {fought.setup}")
                try:
                    keep(fight(held, fought, rate, _tell).facts())
                except Exception as error:
                    keep(logs.broken(chosen, number, repr(error)))
                    raise
                _tell(json.dumps(mine[-1]))
                if mine[-1]["verdict"] not in logs.VERDICTS:
                    break  # what is there is to be looked at
                number += 1
    finally:  # also of a run that somebody has ended
        found = logs.summed(mine)
        print(json.dumps(found), flush=True)
    raise typer.Exit(0 if found["verdict"] == "exactly once" else 1)


@app.command("sum")
def sum_up(files: Annotated[list[Path], typer.Argument(help="logs of runs")]) -> None:
    """Sum up logs of several runs into one JSON object. Exit code 1 if a round was broken."""
    found = logs.summed([line for file in files for line in logs.read(file)])
    print(json.dumps(found, indent=2))
    raise typer.Exit(0 if found["verdict"] == "exactly once" else 1)


@app.command()
def report(
    page: Annotated[Path, typer.Argument(help="of the docs; its part between the two marks is made anew")],
    files: Annotated[list[Path], typer.Argument(help="logs")],
    of_trials: Annotated[bool, typer.Option("--trials", help="of trials, not of runs")] = False,
) -> None:
    """Write what logs of several runs, or of trials, come to into a page of the docs."""
    written = reports.written_trials if of_trials else reports.written
    page.write_text(written(page.read_text(), [line for file in files for line in logs.read(file)]))


@app.command("trials")
def run_trials(
    kind: Annotated[str, typer.Option(help="where MySQL comes from: docker, native (MariaDB) or auto")] = "auto",
) -> None:
    """Kill while prepared, and between commit and note; start again with the same and a fresh identity. A line each.

    Exit code 1 if a row came twice, if the same command did not bring all to its end, or if a start without its memory
    was not refused.
    """
    services = obtain(kind, _tell)
    with tempfile.TemporaryDirectory(prefix="eos-trials-") as folder:
        are_well = True
        for trial in trials(services, Path(folder)):
            print(json.dumps(trial.facts()), flush=True)
            are_well = are_well and trial.is_well
    raise typer.Exit(0 if are_well else 1)


@app.command()
def kinds() -> None:
    """Show the kinds of fault, with their weights and how long they last."""
    for name, each in KINDS.items():
        lasts = f"{each.hold_s[0]:g} to {each.hold_s[1]:g} s" if each.hold_s[1] else "at once"
        print(f"{name:26} weight {each.weight:g}, {lasts:12} {', '.join(filter(None, each.targets))}")


def _revision() -> str:
    """Of the product, by git: with "-dirty" where files were changed since; empty outside of a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()


def _tell(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    app()
