"""Cells of pipelines with state: the state moves to other folders, other savepoints and other partitions.

Each returns how many rows are in the table at the end.
"""

from __future__ import annotations

from typing import Final

import pyspark

from integration_tests.compatibility.world import RECORDS, World
from integration_tests.counting import assert_counted, count_words
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS
from integration_tests.harness.stores import assert_moved, move, put_location
from integration_tests.savepoints import ONCE, begin_from, keep_ids, take_elsewhere
from spark_jobs.query.spark_log import STATE_PARTITIONS
from spark_jobs.session.versions import WIDEN, is_supported
from tests.object_store import Bucket, server

_KILLS: Final = (
    ("state-sent@1", "rocksdb-changelog"),
    ("before-decide@3", "rocksdb"),
    ("between-commits@5", "rocksdb-changelog"),
    ("state-kept@6", "rocksdb"),
)
"""Points, with the state backend of the driver that is killed there."""
_NARROW: Final = "SELECT CAST(id AS INT) AS id, word, payload FROM incoming"
_WIDE: Final = "SELECT id, word, payload FROM incoming"


def run_state(world: World) -> int:
    """Counts by key, with the location in an object store. Each driver begins in an empty folder."""
    with server() as port, world.pipeline() as pipeline:
        count_words(pipeline)
        pipeline.spec["spark"]["conf"] = {STATE_PARTITIONS: 2}
        put_location(pipeline, Bucket(port))
        pipeline.workload.produce(RECORDS)
        for stem, backend in _KILLS:
            pipeline.spec["state"] = {"backend": backend}
            move(pipeline)
            pipeline.start(arm=[stem]).kill_at(stem)
        del pipeline.spec["state"]
        move(pipeline)
        assert " bytes restored in " in pipeline.catch_up().output()
        assert_counted(pipeline, checkpoints=RECORDS // CHECKPOINT_RECORDS)
        assert pipeline.head.epoch == len(_KILLS) + 1
        assert not pipeline.location.exists()
        assert_moved(pipeline)
        return pipeline.table.count()


def run_savepoint(world: World) -> int:
    """Distinct ids. The location is lost, and the start from the savepoint has one step with state more.

    The ids of the first step become wider where the version can rewrite state; otherwise that is refused.
    """
    half = RECORDS // 2
    with server() as port, world.pipeline() as pipeline:
        bucket, transforms = Bucket(port), pipeline.spec["transforms"]
        keep_ids(pipeline)
        transforms[0]["sql"] = _NARROW
        put_location(pipeline, bucket)
        pipeline.workload.produce(half)
        pipeline.catch_up()
        savepoint = take_elsewhere(pipeline, world.folder / "savepoints")
        transforms[0]["sql"] = _WIDE
        transforms.append({**ONCE, "name": "twice", "from": "once", "options": {"column": "payload"}})
        pipeline.spec["sinks"][0]["from"] = "twice"
        put_location(pipeline, bucket, prefix="eos/second")
        pipeline.workload.repeat(half)
        pipeline.workload.produce(half)
        if not is_supported(pyspark.__version__, WIDEN):
            refused = begin_from(pipeline, savepoint, "--take-over")
            refused.fail("--allow-non-restored-state")
            assert WIDEN.lacking in " ".join(refused.output().split()), refused.output()
            assert not pipeline.was_born()
            transforms[0]["sql"] = _NARROW
        begin_from(pipeline, savepoint, "--take-over").succeed()
        pipeline.assert_exact(at_least=RECORDS)
        return pipeline.verdict().in_sink


def run_rescale(world: World) -> int:
    """Counts by key, with five state partitions instead of two, and then three. Killed before and after a decision."""
    half = RECORDS // 2
    with world.pipeline() as pipeline:
        count_words(pipeline)
        pipeline.spec["spark"]["conf"] = {STATE_PARTITIONS: 2}
        pipeline.workload.produce(half)
        pipeline.catch_up()
        pipeline.spec["spark"]["conf"] = {}
        five = ("rescale", "--state-partitions", "5", "--yes")
        for stem in ("before-decide@5", "after-decide@5"):
            pipeline.command(*five, arm=[stem]).kill_at(stem)
            if stem == "before-decide@5":
                pipeline.start().fail("a rescale to 5 state partitions has begun")
        pipeline.workload.produce(half)
        pipeline.catch_up()
        pipeline.command("rescale", "--state-partitions", "3", "--yes").succeed()
        assert_counted(pipeline, checkpoints=RECORDS // CHECKPOINT_RECORDS)
        pipeline.workload.produce(CHECKPOINT_RECORDS)
        pipeline.catch_up()
        assert_counted(pipeline, checkpoints=RECORDS // CHECKPOINT_RECORDS + 1)
        return pipeline.table.count()
