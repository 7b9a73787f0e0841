from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, TABLE, Pipeline
from integration_tests.harness.oracle import compare
from integration_tests.savepoints import facts, keep_ids, run, succeed, take
from integration_tests.test_backlog import _Archived, _await_rows
from spark_jobs.spark_log import LocalSparkLog


def rescale(p, eos, n, code=0):
    ended = eos.run(["rescale", str(p.write_spec()), "--state-partitions", str(n), "--yes"], p.environment)
    print("RESCALE", n, ended.code, ended.output[-1500:])
    assert ended.code == code, ended.output
    return ended


@pytest.mark.timeout(900)
def test_e4(pipeline, eos, tmp_path):
    p = pipeline
    keep_ids(p)
    both = _Archived(p, tmp_path / "archive.db")
    both.entry["from"] = "once"
    both.entry["max_backlog"] = {"checkpoints": 6, "bytes": "1GiB"}
    p.workload.produce(1000)
    succeed(p, eos)
    process = p.start(until_caught_up=False)
    p.workload.produce(500)
    _await_rows(process, p, 1500)
    while p.head.waiting:
        time.sleep(0.1)
    with closing(sqlite3.connect(both.file, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        p.workload.produce(1500)
        _await_rows(process, p, 3000)
        time.sleep(3)
        print(p.head.completed, p.head.committed)
        folder = take(p, eos, tmp_path / "kept")
        f = facts(p, eos, "inspect", str(folder))
        print({k: f[k] for k in ("checkpoint_id", "later", "positions")})
        holder.execute("COMMIT")
    stopped = eos.run(["stop", str(p.write_spec())], p.environment)
    print(stopped.output)
    process.succeed()
    both.assert_exact(3000)
    done = sum(f["positions"]["incoming"].values())
    p.workload.repeat(1000)
    succeed(p, eos, "--from-savepoint", str(folder), "--accept-duplicates")
    for v in (p.verdict(), compare(p.workload.expected, both.archived())):
        print(str(v))
        assert (v.duplicated, v.lost, v.unexpected) == (3000 - done, 0, 0)


STEP = '''
import pandas as pd
from pyspark.sql.streaming import StatefulProcessor

class Count(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "n long")
        self.seen = handle.getMapState("seen", "id long", "n long")
    def handleInputRows(self, key, rows, timers):
        n = self.count.get()[0] if self.count.exists() else 0
        for row in rows:
            for i in row["id"]:
                i = int(i)
                if not self.seen.containsKey((i,)):
                    self.seen.updateValue((i,), (1,))
                    n += 1
                    self.count.update((n,))
                    yield pd.DataFrame({"id": [i], "word": [key[0]], "payload": [str(n)]})
    def close(self):
        pass

def counted(rows):
    return rows.groupBy("word").transformWithStateInPandas(Count(), "id long, word string, payload string", "append", "none")
'''


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["my döcs 100%20", 'a "b" #c'])
def test_e5(services, database, topic, tmp_path, eos, name, _first_run):
    folder = tmp_path / "all" / name
    folder.mkdir(parents=True)
    with Pipeline(folder, services.kafka_bootstrap, topic(partitions=PARTITIONS), database) as p:
        p.table.create()
        (p.folder / "count.py").write_text(STEP)
        p.spec["transforms"] = [{"name": "rows", "python": "count:counted", "from": "incoming"}]
        p.workload.produce(1000)

        def check(n):
            rows = p.table.execute(f"SELECT word, COUNT(*), COUNT(DISTINCT id), MAX(CAST(payload AS INT)) FROM `{TABLE}` GROUP BY word")
            assert len(rows) == 10
            assert all(r[1:] == (n // 10,) * 3 for r in rows), rows

        r = run(p, eos)
        assert r.code == 0, r.output
        check(1000)
        if name.startswith("my"):
            rescale(p, eos, 3)
        f = take(p, eos, tmp_path / "kept")
        print(sorted(facts(p, eos, "inspect", str(f))["operators"], key=str))
        for q in f.rglob("*metadata*/**/*"):
            if q.is_file() and q.stat().st_size < 3000:
                print(q.relative_to(f), q.read_text(errors="replace")[:1500])
        shutil.move(p.location, p.folder / "old place")
        p.workload.repeat(1000)
        p.workload.produce(100)
        r = run(p, eos, "--from-savepoint", str(f), "--take-over")
        assert r.code == 0, r.output
        check(1100)
        for q in p.location.rglob("state/*/_metadata/**/*"):
            if q.is_file() and not q.name.startswith("."):
                print(q.relative_to(p.location), q.read_text(errors="replace")[:1500])
        shutil.rmtree(p.folder / "old place")
        rescale(p, eos, 5)
        p.workload.repeat(1000)
        p.workload.produce(100)
        r = run(p, eos)
        assert r.code == 0, r.output
        check(1200)
