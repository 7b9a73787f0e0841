"""Stateful steps that a spec gets, loses or changes at a savepoint: each other one goes on with its totals."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from pathlib import Path

import pytest

from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine, Ended
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, TABLE, Pipeline
from integration_tests.harness.workload import Workload
from integration_tests.savepoints import facts, rescale, run, succeed, take
from integration_tests.services import Services

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_FIRST, _LATER = 2 * CHECKPOINT_RECORDS, 300
_SUMS = "SELECT '{0}' AS origin, word, COUNT(*) AS records, {1}(CAST(id AS {2})) AS total FROM {3} GROUP BY word"
_ONCE = "def once(rows, column):\n    return rows.dropDuplicates([column])\n"

Totals = dict[tuple[str, str], tuple[int, int]]
"""Origin and word -> count and sum."""


class Sums:
    """A pipeline that counts and sums the ids of each word of several topics, each in a step with state."""

    def __init__(self, pipeline: Pipeline, eos: CommandLine, services: Services, topic: TopicFactory) -> None:
        self.pipeline, self.eos = pipeline, eos
        self._bootstrap, self._topic = services.kafka_bootstrap, topic
        self._source = deepcopy(pipeline.source)
        self.workloads: dict[str, Workload] = {}
        (pipeline.folder / "once.py").write_text(_ONCE)
        pipeline.table.execute(
            "CREATE TABLE sums (origin VARCHAR(20), word VARCHAR(40) COLLATE utf8mb4_bin, records BIGINT, total BIGINT)"
        )
        pipeline.spec["sinks"][0] |= {"from": "rows", "table": "sums"}
        pipeline.spec["spark"]["conf"] = {"spark.sql.shuffle.partitions": 2}

    def steps(self, *origins: str, once: tuple[str, ...] = (), function: str = "SUM", integer: str = "BIGINT") -> None:
        """Have the spec count these topics, in this order, and of some of them each id once."""
        spec = self.pipeline.spec
        spec["sources"], spec["transforms"] = [], []
        for origin in origins:
            if origin not in self.workloads:
                self.workloads[origin] = Workload(self._bootstrap, self._topic(partitions=2), 2)
            spec["sources"].append({**self._source, "name": origin, "topics": [self.workloads[origin].topic]})
            rows = origin
            if origin in once:
                rows = f"once_{origin}"
                spec["transforms"].append(
                    {"name": rows, "python": "once:once", "from": origin, "options": {"column": "id"}}
                )
            sql = _SUMS.format(origin, function, integer, rows)
            spec["transforms"].append({"name": f"sums_{origin}", "sql": sql, "output_mode": "update"})
        union = " UNION ALL ".join(f"SELECT * FROM sums_{origin}" for origin in origins)
        spec["transforms"].append({"name": "rows", "sql": union, "output_mode": "update"})

    def produce(self, count: int, *origins: str) -> None:
        for origin in origins or self.workloads:
            self.workloads[origin].produce(count)

    def take(self, into: Path) -> Path:
        return take(self.pipeline, self.eos, into)

    def operators(self, savepoint: Path) -> list[tuple[str, str]]:
        found = facts(self.pipeline, self.eos, "inspect", str(savepoint))["operators"]
        return [(each["step"], each["kind"]) for each in found]

    def start(self, savepoint: Path, *options: str) -> Ended:
        return succeed(self.pipeline, self.eos, "--from-savepoint", str(savepoint), *options)

    def refuse(self, savepoint: Path) -> Ended:
        ended = run(self.pipeline, self.eos, "--from-savepoint", str(savepoint))
        assert ended.code == 1, ended.output
        return ended

    def catch_up(self) -> None:
        succeed(self.pipeline, self.eos)

    def totals(self) -> Totals:
        """The newest row of each word: a batch writes one for each word that it has records of."""
        rows = self.pipeline.table.execute("SELECT origin, word, records, total FROM sums")
        found: Totals = {}
        for origin, word, records, total in rows:
            found[origin, word] = max(found.get((origin, word), (0, 0)), (int(records), int(total)))
        counts = Counter((row[0], row[1], row[2]) for row in rows)
        assert set(counts.values()) <= {1}, "a count of a word was reached twice"
        return found

    def expected(self, *origins: str, since: int = 0, below: int = 1 << 31) -> Totals:
        """The totals of these topics' records with an id in this range."""
        found: Totals = {}
        for origin in origins or self.workloads:
            for (number, word, _), count in self.workloads[origin].expected.items():
                if since <= number < below:
                    records, total = found.get((origin, str(word)), (0, 0))
                    found[origin, str(word)] = (records + count, total + number * count)
        return found


@pytest.fixture
def sums(pipeline: Pipeline, eos: CommandLine, services: Services, topic: TopicFactory) -> Sums:
    return Sums(pipeline, eos, services, topic)


@pytest.mark.timeout(900)
def test_a_step_with_state_is_added_in_front_of_two_others(sums: Sums, tmp_path: Path) -> None:
    """The operators of both get other numbers, and stand in another order."""
    sums.steps("one", "two")
    sums.produce(_FIRST)
    sums.catch_up()
    assert sums.totals() == sums.expected()
    folder = sums.take(tmp_path / "kept")
    before = sums.pipeline.head

    sums.steps("three", "two", "one", once=("one",))
    sums.workloads["three"].produce(_LATER)
    sums.produce(_LATER, "one", "two")
    ended = sums.start(folder)
    shown = " ".join(ended.output.split())
    for told in (
        "state of sums_three (Aggregate): begins empty",
        "state of once_one (Deduplicate): begins empty",
        "state of sums_one (Aggregate): kept",
        "state of sums_two (Aggregate): kept",
    ):
        assert told in shown, (told, ended.output)
    head = sums.pipeline.head
    assert (head.incarnation != before.incarnation, head.completed > before.completed) == (True, True)
    assert sums.totals() == sums.expected()
    assert sums.totals()["three", "alpha"][0] == _LATER // 10
    assert sums.totals()["one", "alpha"][0] == (_FIRST + _LATER) // 10

    # State that began empty is state like any other: an id from before is counted once more, and not a third time.
    for _ in range(2):
        sums.workloads["one"].repeat(_FIRST)
        sums.catch_up()
    expected = sums.expected()
    for key, (records, total) in sums.expected("one", below=_FIRST).items():
        expected[key] = (expected[key][0] + records, expected[key][1] + total)
    assert sums.totals() == expected
    names = [("sums_three", "Aggregate"), ("sums_two", "Aggregate"), ("sums_one", "Aggregate")]
    assert sums.operators(sums.take(tmp_path / "kept")) == [*names, ("once_one", "Deduplicate")]


@pytest.mark.timeout(900)
def test_a_step_with_state_is_removed_and_the_others_go_on(sums: Sums, tmp_path: Path) -> None:
    sums.steps("one", "two", "three", once=("two",))
    sums.produce(_FIRST)
    sums.catch_up()
    folder = sums.take(tmp_path / "kept")
    gone = sums.expected("one")

    sums.steps("three", "two")
    sums.produce(_LATER)
    shown = " ".join(sums.refuse(folder).output.split())
    for told in (
        "state of sums_one (Aggregate): dropped",
        "state of once_two (Deduplicate): dropped",
        "state of sums_two (Aggregate): kept",
        "cannot take over positions of source one, state of sums_one (Aggregate), state of once_two (Deduplicate)",
        "--allow-non-restored-state",
    ):
        assert told in shown, (told, shown)
    sums.start(folder, "--allow-non-restored-state")
    assert sums.totals() == {**gone, **sums.expected("two", "three")}
    assert sums.totals()["three", "alpha"][0] == (_FIRST + _LATER) // 10
    assert sums.operators(sums.take(tmp_path / "kept")) == [("sums_three", "Aggregate"), ("sums_two", "Aggregate")]

    # The step that was removed is added once more: it begins empty, at the offsets where its source begins.
    folder = sums.take(tmp_path / "kept")
    sums.steps("one", "two", "three")
    sums.start(folder)
    assert sums.operators(sums.take(tmp_path / "kept"))[0] == ("sums_one", "Aggregate")
    found = sums.pipeline.table.execute("SELECT MAX(records) FROM sums WHERE origin = 'one' AND word = 'alpha'")
    assert int(found[0][0]) == (_FIRST + _LATER) // 10


@pytest.mark.timeout(900)
def test_integers_become_wider_beside_a_step_that_is_added(sums: Sums, tmp_path: Path) -> None:
    sums.steps("one", "two", once=("two",), function="MAX", integer="INT")
    sums.produce(_FIRST)
    sums.catch_up()
    assert sums.totals()["one", "alpha"] == (_FIRST // 10, _FIRST - 10)
    folder = sums.take(tmp_path / "kept")

    sums.steps("three", "two", "one", once=("two",), function="MAX", integer="BIGINT")
    sums.produce(_LATER)
    ended = sums.start(folder)
    shown = " ".join(ended.output.split())
    widened = "widened (string: count(int), max(int) -> string: count(int), max(bigint))"
    for told in (
        f"state of sums_one (Aggregate): {widened}",
        f"state of sums_two (Aggregate): {widened}",
        "state of once_two (Deduplicate): kept",
        "state of sums_three (Aggregate): begins empty",
    ):
        assert told in shown, (told, ended.output)
    each = (_FIRST + _LATER) // 10
    for origin in ("one", "two"):
        assert sums.totals()[origin, "alpha"] == (each, _FIRST + _LATER - 10)
    assert sums.totals()["three", "alpha"] == (_LATER // 10, _LATER - 10)

    # Narrower once more: the state cannot keep these values, and only that of these steps is dropped.
    folder = sums.take(tmp_path / "kept")
    sums.steps("three", "two", "one", once=("two",), function="MAX", integer="INT")
    shown = " ".join(sums.refuse(folder).output.split())
    assert "state of sums_one (Aggregate), whose types have changed" in shown
    assert "state of once_two (Deduplicate): kept" in shown


_KEYS = """
def keyed(rows, type):
    value = f"IF(id % 5 = 0, NULL, CAST(-id AS {type})) AS v"
    return rows.selectExpr(f"CAST(id % 7 - 3 AS {type}) AS k", value, "word")


def summed(rows):
    from pyspark.sql import functions as F

    found = rows.groupBy("k", "word").agg(F.count("*").alias("n"), F.min("v").alias("low"), F.count("v").alias("some"))
    return found.selectExpr("CAST(k AS BIGINT) AS k", "word", "n", "CAST(low AS BIGINT) AS low", "some")
"""


@pytest.mark.timeout(900)
def test_a_key_becomes_wider_and_each_row_of_state_is_found_by_it(sums: Sums, tmp_path: Path) -> None:
    """Keys below zero, and values that are NULL. Spark finds another partition for a key of another type."""
    pipeline = sums.pipeline
    (pipeline.folder / "keys.py").write_text(_KEYS)
    pipeline.table.execute(
        "CREATE TABLE lows (k BIGINT, word VARCHAR(40) COLLATE utf8mb4_bin, n BIGINT, low BIGINT, some BIGINT)"
    )
    pipeline.spec["sinks"][0]["table"] = "lows"
    pipeline.spec["spark"]["conf"] = {"spark.sql.shuffle.partitions": 5}
    workload = pipeline.workload
    options: list[str] = []
    for integer in ("TINYINT", "INT", "BIGINT"):
        pipeline.spec["transforms"] = [
            {"name": "keyed", "python": "keys:keyed", "from": "incoming", "options": {"type": integer}},
            {"name": "rows", "python": "keys:summed", "from": "keyed", "output_mode": "update"},
        ]
        workload.produce(1000 if options else 120)  # a TINYINT has no place for more
        ended = succeed(pipeline, sums.eos, *options)
        if options:
            assert "state of rows (Aggregate): widened" in " ".join(ended.output.split()), ended.output
        options = ["--from-savepoint", str(sums.take(tmp_path / integer))]
    found = pipeline.table.execute(
        "SELECT k, word, MAX(n), MIN(low), MAX(some), COUNT(*), COUNT(DISTINCT n) FROM lows GROUP BY k, word"
    )
    expected: dict[tuple[int, str], tuple[int, int, int]] = {}
    for number, word, _ in workload.expected:
        n, low, some = expected.get((number % 7 - 3, str(word)), (0, 0, 0))
        is_null = number % 5 == 0
        expected[number % 7 - 3, str(word)] = (n + 1, low if is_null else min(low, -number), some + (not is_null))
    assert {(row[0], row[1]): (row[2], row[3] or 0, row[4]) for row in found} == expected
    assert sum(int(row[2]) for row in found) == len(workload.expected) == 2120
    assert all(row[5] == row[6] for row in found), "a count of a key was reached twice"


@pytest.mark.timeout(900)
def test_the_watermark_is_kept_where_a_step_is_added(sums: Sums, tmp_path: Path) -> None:
    """A record of a window that is closed opens no second one, and the open window keeps what it has counted."""
    pipeline, second = sums.pipeline, "TIMESTAMP_SECONDS(id)"
    pipeline.table.execute("CREATE TABLE windows (since BIGINT, records BIGINT)")
    pipeline.spec["sinks"][0]["table"] = "windows"
    late = {"column": "at", "delay": "10s"}
    timed = {"name": "timed", "sql": f"SELECT id, {second} AS at FROM incoming", "watermark": late}
    once = {"name": "once", "python": "once:once", "from": "timed", "options": {"column": "id"}}
    counted = "SELECT unix_timestamp(window.start) AS since, records FROM "
    counted += "(SELECT window(at, '60 seconds') AS window, COUNT(*) AS records FROM {} GROUP BY window)"
    pipeline.spec["transforms"] = [timed, {"name": "rows", "sql": counted.format("timed")}]
    pipeline.workload.produce(_FIRST)
    sums.catch_up()
    folder = sums.take(tmp_path / "kept")

    pipeline.spec["transforms"] = [timed, once, {"name": "rows", "sql": counted.format("once")}]
    pipeline.workload.repeat(120)  # late
    pipeline.workload.produce(_LATER)
    ended = sums.start(folder)
    assert "state of once (Deduplicate): begins empty" in " ".join(ended.output.split()), ended.output
    for _ in range(2):
        pipeline.workload.produce(60)
        sums.catch_up()
    found = pipeline.table.execute("SELECT since, records FROM windows ORDER BY since")
    starts = [int(since) for since, _ in found]
    assert starts == list(range(0, starts[-1] + 1, 60)), "a window was written twice, or not at all"
    assert {int(records) for _, records in found} == {60}
    assert starts[-1] > _FIRST, "the windows after the start are closed, too"


_MACHINE = """
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor


class Count(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows, timers):
        count = self.count.get()[0] if self.count.exists() else 0
        for row in rows:
            count += 1
            yield Row(id=row.id, word=key[0], payload=str(count))
        self.count.update((count,))

    def close(self):
        pass


def counted(rows):
    return rows.groupBy("word").transformWithState(Count(), "id long, word string, payload string", "append", "none")
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("backend", ["rocksdb", "rocksdb-changelog"])
def test_state_of_several_stores_and_variables_begins_empty_beside_other_state(
    sums: Sums, topic: TopicFactory, tmp_path: Path, backend: str
) -> None:
    """A join has four stores in each partition, and `transformWithState` describes its variables in files."""
    pipeline, workload = sums.pipeline, sums.pipeline.workload
    pipeline.spec["state"] = {"backend": backend}
    pipeline.spec["sinks"][0]["table"] = TABLE
    (pipeline.folder / "machine.py").write_text(_MACHINE)
    once = {"name": "once", "python": "once:once", "from": "incoming", "options": {"column": "id"}}
    columns = "SELECT id, word, payload FROM"
    pipeline.spec["transforms"] = [once, {"name": "rows", "sql": f"{columns} once"}]
    workload.produce(_FIRST)
    sums.catch_up()
    folder = sums.take(tmp_path / "kept")

    other, first = topic(partitions=1), pipeline.source
    pipeline.spec["sources"] = [{**first, "name": "other", "topics": [other]}, first]
    pair = "SELECT a.id, a.word, a.payload FROM once AS a JOIN other AS b ON a.id = b.id"
    pipeline.spec["transforms"] = [
        once,
        {"name": "paired", "sql": pair},
        {"name": "rows", "python": "machine:counted", "from": "paired"},
    ]
    workload.repeat(_FIRST)  # seen: none of them reaches the join
    workload.produce(_LATER)
    second = Workload(first["bootstrap_servers"], other, 1)
    second.produce(_FIRST + _LATER // 2)
    shown = " ".join(sums.start(folder).output.split())
    for told in (
        "state of paired (Join): begins empty",
        "state of rows (TransformWithStateInPySpark): begins empty",
        "state of once (Deduplicate): kept",
    ):
        assert told in shown, (told, shown)

    # All three keep state from here on: the partners of the rest come now.
    second.produce(_LATER // 2)
    workload.repeat(_FIRST + _LATER)
    sums.catch_up()
    pipeline.spec["spark"]["conf"]["spark.sql.shuffle.partitions"] = 3
    rescale(pipeline, sums.eos, 3)
    workload.repeat(_FIRST + _LATER)
    sums.catch_up()
    found = pipeline.table.execute(f"SELECT id, word, payload FROM `{TABLE}` WHERE id >= {_FIRST}")
    assert len(found) == len({row[0] for row in found}) == _LATER
    for word in {row[1] for row in found}:
        counts = sorted(int(row[2]) for row in found if row[1] == word)
        assert counts == list(range(1, _LATER // 10 + 1)), word
    assert int(pipeline.table.execute(f"SELECT COUNT(*) FROM `{TABLE}` WHERE id < {_FIRST}")[0][0]) == _FIRST


@pytest.mark.timeout(900)
def test_killed_while_the_new_state_is_written(sums: Sums, tmp_path: Path) -> None:
    """The incarnation that there is goes on as if there had been no start, and the next start ends the work."""
    pipeline = sums.pipeline
    sums.steps("one", function="MAX", integer="INT")
    before = deepcopy(pipeline.spec)
    sums.produce(_FIRST)
    sums.catch_up()
    folder = sums.take(tmp_path / "kept")
    options = ("--until-caught-up", "--from-savepoint", str(folder))
    head = pipeline.head
    for stem in ("trial-run", f"state-widened@{head.completed}", "before-restore"):
        sums.steps("two", "one", function="MAX", integer="BIGINT")
        process = pipeline.command("run", *options, arm=[stem])
        process.await_point(stem)
        process.kill()
        assert (pipeline.head.incarnation, pipeline.head.completed) == (head.incarnation, head.completed), stem
        pipeline.spec |= deepcopy(before)
        sums.catch_up()
        assert sums.totals()["one", "alpha"] == (_FIRST // 10, _FIRST - 10), stem
    sums.steps("two", "one", function="MAX", integer="BIGINT")
    sums.produce(_LATER)
    sums.start(folder)
    assert sums.totals()["one", "alpha"] == ((_FIRST + _LATER) // 10, _FIRST + _LATER - 10)
    assert sums.totals()["two", "alpha"] == (_LATER // 10, _LATER - 10)
    for name in ("trial", "widening"):
        assert list((pipeline.location / name).iterdir()) == [], "files of a killed start are left"
    assert len(list((pipeline.location / "spark").iterdir())) == 1
