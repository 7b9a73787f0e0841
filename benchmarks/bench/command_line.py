"""The command line of `scripts/bench`: which runs, and what becomes of their results."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.bench.cases import CASES
from benchmarks.bench.comparison.results import KINDS
from benchmarks.bench.comparison.systems import systems
from benchmarks.bench.formats.forms import FORMS
from benchmarks.bench.formats.plan import SYSTEMS
from benchmarks.bench.formats.plan import systems as systems_of
from integration_tests.services.obtain import KINDS as SERVICES

_ABOUT = """\
Measures this project beside what a user would take instead, on one machine and with one measure for all: from Kafka
into MySQL, the same records into the same table. Services are started where needed, and left running."""
_EXAMPLES = """\
Examples:
  scripts/bench compare                                   all systems, 1 and 3 million records, three rounds, latency
  scripts/bench compare --rows 100000 --runs 1 --kinds cold --systems raw eos-two-phase
                                                          a first look, in a minute
  scripts/bench compare --rows 3000000 --kinds cold warm --systems raw eos-two-phase flink-xa --out big.jsonl
  scripts/bench formats --rows 100000 --runs 1 --formats avro debezium-json --systems flink eos
                                                          Avro and change events beside Flink SQL, a first look
  scripts/bench report bench.jsonl big.jsonl              the tables and the picture of docs/explanation/benchmarks.md
  scripts/bench cases --rows 1000000 --runs 2             this project alone: other databases, topics, several sinks

EOS_PEERS names a folder with the harness of Flink and Debezium; without it those are left out.
Exit code: 0 done, 1 a run failed, 2 the command line is wrong."""
_COMPARE = """\
Prints a JSON line for each run, and keeps it in a file.
  cold     from the start of the first process to the last row visible; all records are there
  warm     this project only: a pipeline that has moved as many records before
  latency  from produce() to the row visible, at 2,000 records a second for a minute, the first 20 s left out"""

_FORMATS = """\
Prints a JSON line for each run, and keeps it in a file. All records are there before a run, which is from the start of
the first process to the last row visible. Flink and Debezium are built by Maven, the first time. EOS_PROVIDE_REGISTRY
names a program that runs a schema registry, which all formats but debezium-json need."""


def parser() -> argparse.ArgumentParser:
    """Of all commands; each names itself as `command`."""
    top = _described(argparse.ArgumentParser(prog="scripts/bench"), _ABOUT, _EXAMPLES)
    commands = top.add_subparsers(dest="command", required=True)
    _compare(commands.add_parser("compare", help="this project beside others"))
    _formats(commands.add_parser("formats", help="this project beside others, with Avro, Protobuf and change events"))
    report = commands.add_parser("report", help="put results into docs/explanation/benchmarks.md, with a picture")
    report.add_argument(
        "files", type=Path, nargs="*", default=[Path("bench.jsonl")], help="of `compare` and `formats`: bench.jsonl"
    )
    cases = commands.add_parser("cases", help="this project's own cases, beside the machine's raw limit")
    cases.add_argument("--rows", type=_count, nargs="+", default=[1_000_000, 3_000_000], help="sizes to measure")
    cases.add_argument("--runs", type=_count, default=1, help="rounds of all cases; medians are printed")
    cases.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES), help="with what they are beside")
    _services(cases)
    return top


def _compare(command: argparse.ArgumentParser) -> None:
    known = systems()
    names = "\n".join(f"  {system.name:16} {system.label}: {system.guarantee}" for system in known.values())
    _described(command, _COMPARE, f"Systems:\n{names}\n\n{_EXAMPLES}")
    command.add_argument("--rows", type=_count, nargs="+", default=[1_000_000, 3_000_000], help="records of a run")
    command.add_argument("--runs", type=_count, default=3, help="rounds; every system once in each")
    command.add_argument("--latency-runs", type=_count, default=3, help="rounds of latency, over a minute a system")
    command.add_argument("--systems", nargs="+", choices=list(known), default=list(known), metavar="NAME")
    command.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    _kept(command, Path("bench.jsonl"))


def _formats(command: argparse.ArgumentParser) -> None:
    names = [f"  {form.name:16} {'; '.join(system.label for system in systems_of(form))}" for form in FORMS.values()]
    _described(command, _FORMATS, "\n".join(["Formats, and the systems that read them:", *names, "", _EXAMPLES]))
    command.add_argument("--rows", type=_count, nargs="+", default=[1_000_000, 3_000_000], help="records of a run")
    command.add_argument("--runs", type=_count, default=3, help="rounds; every system once for each format in each")
    command.add_argument("--formats", nargs="+", choices=list(FORMS), default=list(FORMS), metavar="NAME")
    command.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    _kept(command, Path("formats.jsonl"))


def _kept(command: argparse.ArgumentParser, out: Path) -> None:
    command.add_argument("--out", type=Path, default=out, help=f"file of results, made anew: {out}")
    command.add_argument("--retries", type=int, default=1, help="of a run that other processes have disturbed")
    command.add_argument("--wait-quiet-s", type=float, default=15.0, help="before each run, at most")
    _services(command)


def _services(command: argparse.ArgumentParser) -> None:
    command.add_argument("--kind", default="auto", choices=SERVICES, help="where services come from")


def _described(command: argparse.ArgumentParser, about: str, more: str) -> argparse.ArgumentParser:
    command.description, command.epilog = about, more
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    return command


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number
