"""Command line of the soak: `python -m benchmarks.soak --checkpoints 5000`."""

from __future__ import annotations

import json
import secrets
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import sqlalchemy
import typer

from benchmarks.bench import topic
from benchmarks.bench.product import Product, spec
from benchmarks.bench.targets import Place, Target, mysql, postgresql
from benchmarks.soak.growth import FEWEST_SAMPLES, TooFewSamplesError, flat_means, growths
from benchmarks.soak.sampled import Sample, sample
from integration_tests.services import obtain
from twophase.codec import decode_head
from twophase.local_head import LocalHead

_SAMPLES = 100
_RECORDS = 200  # of a checkpoint
_SPARK_KEEPS = 100  # spark.sql.streaming.minBatchesToRetain


_HELP = f"""Run a pipeline into MySQL (two-phase) and PostgreSQL (write-ahead log), thousands of checkpoints at full
speed, and say whether anything grows. Exit code 1 if something does, or if not every record is there once.

It takes some {_SAMPLES} samples. A line is fitted to those after the first quarter, which is for warming up: Spark
keeps the files of {_SPARK_KEEPS} checkpoints, so that these grow in a run of fewer than {4 * _SPARK_KEEPS}. Flat means
that from its beginning to its end the line rises by no more than, whichever is more:

\b
{flat_means()}

So a leak shows that comes to more than that in three quarters of the run: of 5,000 checkpoints and a driver of 200 MB,
one of 5.6 kB a checkpoint. A step shows at one and a half times its height, if it comes in the middle.
"""


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help=_HELP)
def main(
    checkpoints: Annotated[int, typer.Option(min=FEWEST_SAMPLES, help="so many, at full speed")] = 5000,
    kind: Annotated[
        str, typer.Option(help="where Kafka and MySQL come from: docker, native (MariaDB) or auto")
    ] = "auto",
    log: Annotated[Path, typer.Option(help="a JSON line for each sample, and what it came to")] = Path("soak.jsonl"),
) -> None:
    """See --help."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what it has started is ended
    services = obtain(kind)
    name = f"eos_soak_{secrets.token_hex(4)}"
    with tempfile.TemporaryDirectory() as folder, Place(services, name, Path(folder)) as place:
        targets = [mysql(place, "two-phase"), postgresql(place, "write-ahead-log")]
        topic.produce(services.kafka_bootstrap, name, 0, checkpoints * _RECORDS)
        checkpoint = {"max_records_per_checkpoint": _RECORDS}
        text = spec(services.kafka_bootstrap, name, "json", checkpoint, [target.entry for target in targets])
        samples = _watched(Path(folder), text, targets, checkpoints, log)
        arrived = [target.arrived() for target in targets]
    problems, growth = _grown(samples)
    if wrong := [each for each in arrived if each != (checkpoints * _RECORDS, checkpoints * _RECORDS)]:
        problems.append(f"rows and ids in the sinks: {wrong}, not {checkpoints * _RECORDS} each")
    took_s = samples[-1].elapsed_s
    found = {
        "verdict": "flat" if not problems else "; ".join(problems),
        "on": [str(services.kafka), str(services.database)],
        "checkpoints": samples[-1].checkpoints,
        "records": checkpoints * _RECORDS,
        "checkpoints_per_s": round(samples[-1].checkpoints / took_s, 2),
        "samples": len(samples),
        "growth": growth,
        "end": samples[-1].facts(),
    }
    with log.open("a") as lines:
        lines.write(json.dumps(found) + "\n")
    print(json.dumps(found), flush=True)
    raise typer.Exit(1 if problems else 0)


def _grown(samples: list[Sample]) -> tuple[list[str], dict[str, object]]:
    """What is wrong, and the figures of each quantity."""
    try:
        found = growths(samples)
    except TooFewSamplesError as error:
        return [str(error)], {}
    return [str(each) for each in found if not each.within], {each.name: each.facts() for each in found}


def _watched(folder: Path, text: str, targets: list[Target], checkpoints: int, log: Path) -> list[Sample]:
    samples: list[Sample] = []
    with Product(folder, text) as product, log.open("w") as lines:
        location, every = folder / "checkpoint", max(1, checkpoints // _SAMPLES)
        due, began_s = every, time.monotonic()
        while not samples or samples[-1].checkpoints < checkpoints:
            product.check()
            if (committed := _committed(location)) >= due:
                rows = sum(_ledger_rows(str(target.entry["url"])) for target in targets)
                samples.append(sample(product.pid, location, committed, time.monotonic() - began_s, rows))
                due = committed + every if committed + every <= checkpoints else checkpoints
                lines.write(json.dumps(samples[-1].facts()) + "\n")
                lines.flush()
                print(json.dumps(samples[-1].facts()), file=sys.stderr, flush=True)
            time.sleep(0.1)
    return samples


def _committed(location: Path) -> int:
    """Checkpoints that are; the number of the newest is one less."""
    read = LocalHead(location).read()
    return decode_head(read.value).committed + 1 if read is not None else 0


def _ledger_rows(url: str) -> int:
    """In all tables of the product's own."""
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        names = [each for each in sqlalchemy.inspect(engine).get_table_names() if each.startswith("eos_")]
        return sum(
            int(connection.execute(sqlalchemy.text(f"SELECT COUNT(*) FROM {each}")).scalar_one()) for each in names
        )


if __name__ == "__main__":
    app()
