"""Runs the cases and prints one JSON line for each: `case`, `rows`, `rows_per_s`, `ratio_to_raw`, `peak_rss_mb`."""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import sqlalchemy

from integration_tests import databases, topics
from integration_tests.bench import raw, topic
from integration_tests.bench.product import Product
from integration_tests.services import Services, obtain
from twophase.codec import decode_head
from twophase.local_head import LocalHead

_FEW = 10  # see that the pipeline waits for records
_TWO_PHASE = "two-phase"
_EXACTLY_ONCE = "exactly-once"

_Case = Callable[[Services, str, str, int, Path], tuple[float, float]]


def main() -> None:
    """See --help."""
    parser = argparse.ArgumentParser(prog="python -m integration_tests.bench", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 3_000_000], help="sizes to measure")
    parser.add_argument("--runs", type=int, default=1, help="rounds of all cases; medians are printed")
    parser.add_argument("--cases", nargs="+", default=list(_CASES), choices=list(_CASES)[1:], help="beside raw")
    parser.add_argument("--kind", default="auto", choices=["auto", "docker", "native"], help="where services come from")
    arguments = parser.parse_args()
    services = obtain(arguments.kind)
    for rows in arguments.rows:
        _measure(services, rows, arguments.runs, {"raw", *arguments.cases})


def _measure(services: Services, rows: int, runs: int, cases: set[str]) -> None:
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in _CASES if name in cases}
    for _ in range(runs):
        for name, measured in results.items():
            measured.append(_in_place(services, rows, _CASES[name]))
    limits = [rate for rate, _ in results["raw"]]
    for case, measured in results.items():
        rates = [rate for rate, _ in measured]
        # Of each round by itself: a machine that others use as well is slower at one time than at another.
        ratios = [rate / limit for rate, limit in zip(rates, limits, strict=True)]
        line = {
            "case": case,
            "rows": rows,
            "rows_per_s": round(statistics.median(rates)),
            "ratio_to_raw": round(statistics.median(ratios), 3),
            "peak_rss_mb": round(max(rss for _, rss in measured)),
            "database": str(services.database),
            "runs": runs,
        }
        print(json.dumps(line), flush=True)


def _in_place(services: Services, rows: int, case: _Case) -> tuple[float, float]:
    """Run a case with a topic, a database and a folder of its own. Returns rows per second and MiB."""
    name = f"eos_bench_{secrets.token_hex(4)}"
    databases.create(services, name)
    topic.create(services.kafka_bootstrap, name)
    url = sqlalchemy.make_url(services.database_url).set(database=name).render_as_string(hide_password=False)
    try:
        _execute(url, f"CREATE TABLE bench {topic.TABLE}")
        with tempfile.TemporaryDirectory() as folder:
            return case(services, name, url, rows, Path(folder))
    finally:
        databases.drop(services, name)
        topics.delete(services.kafka_bootstrap, [name])


def _raw(services: Services, name: str, url: str, rows: int, _folder: Path) -> tuple[float, float]:
    topic.produce(services.kafka_bootstrap, name, 0, rows)
    result = raw.copy(services.kafka_bootstrap, name, url, "bench", rows)
    _check(url, rows)
    return rows / result.seconds, result.peak_rss_mb


def _cold(services: Services, name: str, url: str, rows: int, folder: Path) -> tuple[float, float]:
    """From the start of the process to the last row visible."""
    topic.produce(services.kafka_bootstrap, name, 0, rows)
    with Product(folder, services.kafka_bootstrap, name, url, "bench", _TWO_PHASE) as product, _visible(url) as visible:
        at = product.wait_for(visible, rows)
    _check(url, rows)
    return rows / (at - product.started_at), product.peak_rss_mb


def _warm(
    services: Services,
    name: str,
    url: str,
    rows: int,
    folder: Path,
    commit: str = _TWO_PHASE,
    mode: str = _EXACTLY_ONCE,
) -> tuple[float, float]:
    """A running pipeline that has moved as many records before: from when it may read them to the last one visible."""
    topic.produce(services.kafka_bootstrap, name, 0, rows)
    product = Product(folder, services.kafka_bootstrap, name, url, "bench", commit, mode)
    see = _visible(url) if mode == _EXACTLY_ONCE else _noted(product.location)
    with product, see as visible:
        product.wait_for(visible, rows)
        topic.produce(services.kafka_bootstrap, name, rows, _FEW)
        product.wait_for(visible, rows + _FEW)
        product.pause()
        topic.produce(services.kafka_bootstrap, name, rows + _FEW, rows)
        resumed_at = product.resume()
        at = product.wait_for(visible, 2 * rows + _FEW)
    _check(url, 2 * rows + _FEW)
    return rows / (at - resumed_at), product.peak_rss_mb


@contextmanager
def _visible(url: str) -> Iterator[Callable[[], int]]:
    """Tells the rows visible now, from the witnesses: counting rows again and again would slow what is measured."""
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")

    def rows() -> int:
        with connection.begin():
            try:
                return int(connection.scalar(total) or 0)
            except sqlalchemy.exc.ProgrammingError:  # the table is not there yet
                return 0

    total = sqlalchemy.text("SELECT SUM(row_count) FROM eos_witness")
    with engine.connect() as connection:
        yield rows
    engine.dispose()


@contextmanager
def _noted(location: Path) -> Iterator[Callable[[], int]]:
    """The same where no witness tells: the records that head has, which is told of each when its rows are visible."""

    head = LocalHead(location)

    def rows() -> int:
        read = head.read()
        positions = decode_head(read.value).positions if read is not None else {}
        return sum(end for splits in positions.values() for end in splits.values())

    yield rows


def _check(url: str, rows: int) -> None:
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        found = connection.execute(sqlalchemy.text("SELECT COUNT(*), COUNT(DISTINCT id) FROM bench")).one()
    if tuple(found) != (rows, rows):
        raise RuntimeError(f"{rows} records produced, {found[0]} rows written, {found[1]} distinct")


def _execute(url: str, statement: str) -> None:
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(statement))


_CASES: dict[str, _Case] = {
    "raw": _raw,
    "eos cold": _cold,
    "eos warm": _warm,
    "eos warm log": partial(_warm, commit="write-ahead-log"),
    "eos warm at-least-once": partial(_warm, mode="at-least-once"),
}

if __name__ == "__main__":
    main()
