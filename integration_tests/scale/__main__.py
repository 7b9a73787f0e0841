"""`python -m integration_tests.scale`: a JSON line for each number of partitions, and of workers."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from integration_tests.cluster.pipeline import cluster_conf
from integration_tests.cluster.standalone import Cluster
from integration_tests.scale.measured import Work, measure
from integration_tests.services import obtain

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

Kind = Annotated[str, typer.Option(help="where Kafka and MySQL come from: docker, native (MariaDB) or auto")]


@app.command()
def partitions(
    numbers: Annotated[list[int] | None, typer.Argument(help="of the topic")] = None,
    records: Annotated[int, typer.Option(help="of a checkpoint")] = 4000,
    checkpoints: Annotated[int, typer.Option(help="so many, the first two of which do not count")] = 8,
    join_below: Annotated[int, typer.Option(help="as in a spec: 0 gives each partition its own task")] = 0,
    kind: Kind = "auto",
) -> None:
    """The same records from a topic of few partitions and of many: what a task costs, and what exactly-once does.

    `exactly_once_share` is the part of a checkpoint's time, from one's end to the next one's, in which the driver is at
    work for it once the tasks are done, and with its permits before. `commits_…` is of that the database's: it commits
    what is prepared. `protocol_…` is all the rest, R5 to R10 of docs/protocol.md, by its parts: `acknowledgements` are
    read, `permits` put and taken away, the `record` is written, `head` is swapped twice, a `listing` shows that nothing
    is left, `pruning` lets go of an old checkpoint, `offsets` are told to Kafka, the history is told, and `steps` is
    what lies between those. Medians of the warm checkpoints.
    """
    services = obtain(kind)
    for number in numbers or [4, 40, 200]:
        found = measure(services, Work(number, records, checkpoints, join_below), {"master": "local[2]"})
        print(json.dumps({"partitions": number, **found.facts()}), flush=True)


@app.command()
def workers(
    numbers: Annotated[list[int] | None, typer.Argument(help="worker processes, of one core each")] = None,
    records: Annotated[int, typer.Option(help="of a checkpoint")] = 100_000,
    checkpoints: Annotated[int, typer.Option(help="so many, the first two of which do not count")] = 8,
    sockets: Annotated[bool, typer.Option("--sockets", help="of the file system, between Spark and Python")] = False,
    kind: Kind = "auto",
) -> None:
    """The same pipeline on standalone clusters of this machine: whether overhead grows with the workers."""
    services = obtain(kind)
    for number in numbers or [1, 2, 4]:
        with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder), workers=number) as cluster:
            conf = {**cluster_conf(cluster), "spark.python.unix.domain.socket.enabled": str(sockets).lower()}
            spark = {"master": cluster.master, "conf": conf}
            found = measure(services, Work(8, records, checkpoints), spark)
        print(json.dumps({"workers": number, **found.facts()}), flush=True)


app()
