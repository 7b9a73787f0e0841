"""`python -m benchmarks.scale`: a JSON line for each number of partitions, and of workers."""

from __future__ import annotations

import json
import sys
import tempfile
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from benchmarks.scale.commits import measure as measure_commits
from benchmarks.scale.logins import measure as measure_logins
from benchmarks.scale.measured import Work, measure
from benchmarks.scale.pipelines import ManyPipelines, measure_pipelines
from benchmarks.scale.tables import ManyTables, measure_tables
from integration_tests.cluster.pipeline import cluster_conf
from integration_tests.cluster.standalone import Cluster
from integration_tests.services import Services, obtain

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

_LOG = "add the lines to this file, too"

_GOALS: Final = {100: ("protocol_ms", 20.0), 1000: ("protocol_share", 0.1)}
"""By partitions, each with a task of its own: what exactly-once may cost of a checkpoint, without the commits."""

Kind = Annotated[str, typer.Option(help="where Kafka and MySQL come from: docker, native (MariaDB) or auto")]


class Sink(Enum):
    """Where `partitions` writes to."""

    MYSQL = "mysql"
    POSTGRESQL = "postgresql"


@app.command()
def partitions(
    numbers: Annotated[list[int] | None, typer.Argument(help="of the topic")] = None,
    records: Annotated[int, typer.Option(help="of a checkpoint")] = 100_000,
    checkpoints: Annotated[int, typer.Option(help="so many, the first two of which do not count")] = 12,
    join_below: Annotated[int, typer.Option(help="as in a spec: 0 gives each partition its own task")] = 0,
    sink: Annotated[Sink, typer.Option(help="the server that is written to")] = Sink.MYSQL,
    kind: Kind = "auto",
    log: Annotated[Path | None, typer.Option(help=_LOG)] = None,
) -> None:
    """The same records from a topic of few partitions and of many: what a task costs, and what exactly-once does.

    `exactly_once_share` is the part of a checkpoint's time, from one's end to the next one's, in which the driver is at
    work for it once the tasks are done, and with its permits before. `commits_…` is of that the database's: it commits
    what is prepared. `protocol_…` is all the rest, R5 to R10 of the protocol, by its parts: `acknowledgements` are
    read, `permits` put and taken away, the `record` is written, `head` is swapped twice, a `listing` shows that nothing
    is left, `pruning` lets go of an old checkpoint, `offsets` are told to Kafka, the history is told, and `steps` is
    what lies between those. Medians of the warm checkpoints. Exit code 1 if the protocol takes more than 20 ms with 100
    partitions, or more than a tenth with 1,000.
    """
    services = obtain(kind)
    missed = []
    for number in numbers or [4, 100, 200, 1000]:
        found = measure(services, Work(number, records, checkpoints, join_below, sink.value), {"master": "local[2]"})
        facts = found.facts()
        _say({"partitions": number, "sink": sink.value, **facts}, services, log)
        name, most = _GOALS.get(found.writers, ("", 0.0))
        if name and facts[name] > most:
            missed.append(f"with {number} partitions {name} is {facts[name]:g}, {most:g} was to be reached")
    for each in missed:
        print(each, file=sys.stderr)
    raise typer.Exit(1 if missed else 0)


@app.command()
def workers(
    numbers: Annotated[list[int] | None, typer.Argument(help="worker processes, of one core each")] = None,
    records: Annotated[int, typer.Option(help="of a checkpoint")] = 50_000,
    checkpoints: Annotated[int, typer.Option(help="so many, the first two of which do not count")] = 6,
    sockets: Annotated[bool, typer.Option("--sockets", help="of the file system, between Spark and Python")] = False,
    kind: Kind = "auto",
    log: Annotated[Path | None, typer.Option(help=_LOG)] = None,
) -> None:
    """The same pipeline on standalone clusters of this machine: whether overhead grows with the workers."""
    services = obtain(kind)
    for number in numbers or [1, 2, 4]:
        with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder), workers=number) as cluster:
            conf = {**cluster_conf(cluster), "spark.python.unix.domain.socket.enabled": str(sockets).lower()}
            spark = {"master": cluster.master, "conf": conf}
            found = measure(services, Work(8, records, checkpoints), spark)
        _say({"workers": number, "sockets": sockets, **found.facts()}, services, log)


@app.command()
def logins(
    tasks: Annotated[int, typer.Option(help="of a checkpoint")] = 100,
    rounds: Annotated[int, typer.Option(help="pairs of checkpoints")] = 5,
    kind: Kind = "auto",
    log: Annotated[Path | None, typer.Option(help=_LOG)] = None,
) -> None:
    """Tasks of 100 rows, without Spark: on a connection that is kept, and on one of their own, by turns.

    `own_…` and `kept_…` are medians: logins of a checkpoint, and of a task the time, and the CPU time of its process
    and of the server. The ratios are medians of the pairs, of which both halves meet the same machine.
    """
    services = obtain(kind)
    for sink, direct in ((Sink.POSTGRESQL, False), (Sink.POSTGRESQL, True), (Sink.MYSQL, True)):
        _say(measure_logins(services, sink.value, direct=direct, tasks=tasks, rounds=rounds), services, log)


@app.command()
def commits(
    connections: Annotated[list[int] | None, typer.Argument(help="over which a checkpoint is committed")] = None,
    transactions: Annotated[int, typer.Option(help="of a checkpoint")] = 1000,
    rounds: Annotated[int, typer.Option(help="each number of connections by turns")] = 5,
    sink: Annotated[Sink | None, typer.Option(help="the server that is written to; both without it")] = None,
    kind: Kind = "auto",
    log: Annotated[Path | None, typer.Option(help=_LOG)] = None,
) -> None:
    """Commit the transactions of a checkpoint over one connection and over several, without Spark.

    `commits_ms` is the time of all commits, with the look-up of their witnesses on MariaDB; CPU is that of the driver
    and of the server. `connections` are the committer's at the server. All are medians; `time_ratio` is the median of
    the rounds, to the first number of connections.
    """
    services = obtain(kind)
    for each in [sink] if sink is not None else list(Sink):
        for found in measure_commits(
            services, each.value, transactions=transactions, connections=connections or [1, 4, 8], rounds=rounds
        ):
            _say(found, services, log)


@app.command()
def tables(
    numbers: Annotated[list[int] | None, typer.Argument(help="of the pipeline")] = None,
    touched: Annotated[int, typer.Option(help="tables that get rows in a checkpoint, after the first one")] = 10,
    records: Annotated[int, typer.Option(help="of each of them")] = 100,
    checkpoints: Annotated[int, typer.Option(help="after the first one; two of them do not count")] = 12,
    kind: Kind = "auto",
    log: Annotated[Path | None, typer.Option(help=_LOG)] = None,
) -> None:
    """One pipeline that copies many tables, each from its topic, and checkpoints in which only a few get rows.

    The first checkpoint has rows of each table, and creates the tables: `first_s` is the time from the process's start
    until these rows are visible. The others are medians of the warm checkpoints: their time, CPU (driver, JVM and
    Python workers) and logins to the database. `connections` are the most at once. Memory is that of the driver, the
    JVM and the largest Python worker at the end.
    """
    services = obtain(kind)
    for number in numbers or [10, 100, 500]:
        work = ManyTables(number, min(touched, number), records, checkpoints)
        _say(measure_tables(services, work), services, log)


@app.command()
def pipelines(
    numbers: Annotated[list[int] | None, typer.Argument(help="of pipelines")] = None,
    one_driver: Annotated[bool, typer.Option(help="all in one, or each in its own")] = True,
    records: Annotated[int, typer.Option(help="of each pipeline in a round")] = 100,
    rounds: Annotated[int, typer.Option(help="after the first one; two of them do not count")] = 8,
    idle_s: Annotated[float, typer.Option(help="for which nothing is produced")] = 20.0,
    interval: Annotated[str, typer.Option(help="of their checkpoints")] = "1s",
    kind: Kind = "auto",
    log: Annotated[Path | None, typer.Option(help=_LOG)] = None,
) -> None:
    """Many pipelines, each from a topic of one partition into a table of one database, two-phase.

    `first_s` is the time from the start of the first process until each pipeline has committed its first records.
    In a round all get records at the same time: `round_s` ends when all have committed them. `connections` counts at
    the database after the last round, `idle_connections` and `idle_cores` while nothing comes. Memory is PSS, the sum
    of all processes: of the drivers, the JVMs and the Python workers.
    """
    services = obtain(kind)
    for each in numbers or [1, 10, 50]:
        work = ManyPipelines(each, one_driver, records, rounds, idle_s, interval)
        _say(measure_pipelines(services, work), services, log)


def _say(facts: dict[str, Any], services: Services, log: Path | None) -> None:
    line = json.dumps({**facts, "on": [str(services.kafka), str(services.database)]})
    print(line, flush=True)
    if log is not None:
        with log.open("a") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    app()
