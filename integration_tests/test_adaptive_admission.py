"""`max_records_per_checkpoint: auto`: under a backlog, with a slow sink, checkpoints take about as long as they should.

One that is under way while the sink gets much slower is replanned, with fewer records.

With EOS_MATRIX_SEED=all the backlog is of three million records, and the sink gets slower on the way, and faster again.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import pytest
import sqlalchemy

from benchmarks.bench import topic as records
from integration_tests.conftest import TopicFactory
from integration_tests.harness.link import Link
from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.rotation import seed_of_run
from integration_tests.services import Services

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_TARGET_S = 4.0  # on a busy machine a checkpoint takes two seconds however small it is
_LINE = re.compile(r"checkpoint=(\d+) state=committed .*? records=(\d+) .*?duration_s=([\d.]+)")

_OVERRUN = re.compile(
    r"checkpoint (\d+) was cancelled: it ran longer than such a checkpoint should \((\S+) s\); "
    r"it is replanned, with at most (\d+) records"
)


@dataclass(frozen=True)
class _Done:
    number: int
    records: int
    duration_s: float


def _done(output: str) -> list[_Done]:
    return [_Done(int(n), int(count), float(seconds)) for n, count, seconds in _LINE.findall(output)]


def _await(pipeline: Pipeline, count: int) -> None:
    """Until so many rows are visible."""
    while sum(each.records for each in _done(pipeline.processes[-1].output())) < count:
        time.sleep(0.5)


def _assert_settled(done: list[_Done]) -> None:
    """Of checkpoints under a backlog, at one rate of the sink: the first half of them look for their size."""
    assert len(done) >= 6, str(done)
    pairs = list(pairwise(done))
    probes = {one.number for one, following in pairs if following.records > 2.5 * one.records}
    settled = [each for each in done[len(done) // 2 :] if each.number not in probes]
    assert len(settled) >= len(done) // 3, f"too many probes: {done}"
    assert 0.5 * _TARGET_S < statistics.median(each.duration_s for each in settled) < 1.75 * _TARGET_S, str(done)
    steps = [following.records / one.records for one, following in pairwise(settled)]
    reversals = [1 for one, following in pairwise(steps) if max(one, following) > 1.3 and min(one, following) < 1 / 1.3]
    assert len(reversals) <= len(settled) // 4, f"it oscillates: {done}"


@contextmanager
def _behind_a_link(
    pipeline: Pipeline, services: Services, topic: str, count: int, bytes_per_s: float, target_s: float
) -> Iterator[Link]:
    """A backlog of so many records, and a link to the sink, for this block."""
    records.produce(services.kafka_bootstrap, topic, 0, count)
    pipeline.table.execute("DROP TABLE records")
    pipeline.table.execute("CREATE TABLE records (id BIGINT, user VARCHAR(64), amount DOUBLE, ts DATETIME(6))")
    pipeline.source.update(topics=[topic], format={"type": "json", "schema": records.SCHEMA})
    pipeline.spec["transforms"] = [{"name": "rows", "sql": "SELECT id, user, amount, ts FROM incoming"}]
    pipeline.spec["checkpoint"] |= {"interval": f"{target_s:g}s", "max_records_per_checkpoint": "auto"}
    url = sqlalchemy.make_url(pipeline.table.url)
    assert url.host is not None
    with Link(url.host, url.port or 3306, bytes_per_s) as link:
        slow = url.set(host="127.0.0.1", port=link.port).render_as_string(hide_password=False)
        pipeline.environment["SINK_URL"] = slow
        yield link


def _assert_exact(pipeline: Pipeline, count: int) -> None:
    found = pipeline.table.execute("SELECT COUNT(*), COUNT(DISTINCT id), MIN(id), MAX(id) FROM records")
    assert found == [(count, count, 0, count - 1)]
    assert pipeline.prepared() == []


@pytest.mark.timeout(2400)
def test_a_backlog_goes_in_checkpoints_of_about_one_length(
    pipeline: Pipeline, services: Services, topic: TopicFactory
) -> None:
    is_long = seed_of_run() is None
    count, bytes_per_s = (3_000_000, 2_000_000.0) if is_long else (100_000, 200_000.0)
    with _behind_a_link(
        pipeline, services, topic(partitions=records.PARTITIONS), count, bytes_per_s, _TARGET_S
    ) as link:
        process = pipeline.start()
        stages = [[0, count]]
        if is_long:
            stages = [[0, count // 2], [count // 2, count * 5 // 8], [count * 5 // 8, count]]
            _await(pipeline, stages[0][1])
            link.bytes_per_s /= 5
            _await(pipeline, stages[1][1])
            link.bytes_per_s *= 5
        process.succeed(timeout_s=1800)
    done = _done(process.output())
    print(*done, sep="\n")
    for first, last in stages:
        ends = [sum(each.records for each in done[: n + 1]) for n in range(len(done))]
        _assert_settled([each for each, end in zip(done[:-1], ends, strict=False) if first < end - each.records < last])
    _assert_exact(pipeline, count)


@pytest.mark.timeout(600)
def test_a_checkpoint_under_way_when_the_sink_gets_slower_is_replanned(
    pipeline: Pipeline, services: Services, topic: TopicFactory
) -> None:
    """At the new rate it would take a minute. The restart strategy allows no failure."""
    count = 600_000
    pipeline.spec["restart"] = {"strategy": "none"}
    with _behind_a_link(pipeline, services, topic(partitions=records.PARTITIONS), count, 2_000_000.0, 2.0) as link:
        process = pipeline.start()
        _await(pipeline, count // 3)
        link.bytes_per_s /= 40
        process.await_output("it is replanned, with at most")
        link.bytes_per_s *= 40
        process.succeed()
    output, done = process.output(), _done(process.output())
    print(*done, sep="\n")
    ((number, limit_s, most),) = _OVERRUN.findall(output)
    assert 8 <= float(limit_s) < 20
    largest = max(each.records for each in done if each.number < int(number))
    (planned,) = (each.records for each in done if each.number == int(number))
    assert planned <= int(most) <= largest / 2
    assert f"offsets/{number}: its tasks took too long; nothing of it is decided, and it is replanned" in output
    assert pipeline.head.epoch == 2
    _assert_exact(pipeline, count)
