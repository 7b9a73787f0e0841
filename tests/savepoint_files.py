"""A pipeline that has run, and savepoints of it, as files: for tests without Spark."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from connectors.spec import Spec, load_spec
from spark_jobs.savepoints import job as jobs
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints import plan as plans
from spark_jobs.savepoints.plan import Operator, Plan, describe
from spark_jobs.savepoints.take import Taken
from twophase.codec import decode_head, encode_head, encode_record, sha256_of
from twophase.documents import LocalDocuments
from twophase.head_value import HeadValue, RecordRef
from twophase.ids import Scope, TransactionId, sink_key
from twophase.local_head import LocalHead
from twophase.values import CheckpointRecord, Committable, OffsetRange

INCARNATION = "b" * 20
NEWEST = 5
SPEC = """\
pipeline: orders
checkpoint: {location: state}
sources: [{name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}}]
transforms: [{name: counted, sql: "SELECT count(*) AS value FROM s", output_mode: update}]
sinks:
  - {name: out, from: counted, connector: mysql, url: "mysql+pymysql://u:geheim@h/d", table: t, commit: two-phase}
"""
JOB_SPEC = """\
pipeline: orders
checkpoint: {location: state}
sinks:
  - {name: out, connector: sqlite, path: ./out.db, table: t, create: if-missing, commit: write-ahead-log}
"""
IDS = {"0": [["00000000-0000-0000-0000-000000000001"], ["00000000-0000-0000-0000-000000000002"]]}
COUNTED = Operator("counted", "Aggregate", ": count(int)")


def spec_in(folder: Path) -> Spec:
    """The spec, loaded from this folder."""
    path = folder / "orders.yaml"
    path.write_text(SPEC)
    return load_spec(path, {})


def folder_of(taken: Taken) -> Path:
    """Return the folder of a savepoint that is in a folder."""
    assert isinstance(taken.at, Path)
    return taken.at


def forge(savepoint: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest of a savepoint, as a stranger can: its checksum fits."""
    path = savepoint / manifests.NAME
    document = json.loads(path.read_text())
    del document["checksum"]
    change(document)
    path.write_bytes(manifests._dump({**document, "checksum": sha256_of(manifests._dump(document))}))


def run_job(folder: Path, *, done: int = NEWEST, committed: int = NEWEST) -> tuple[Spec, Path]:
    """A job of the user's own after NEWEST is completed, with a file source; returns its spec and Spark's folder."""
    spark = run_until(folder / "state", committed=committed, done=done)
    for name in ("5", "6", ".5.crc", ".6.tmp"):
        put(spark / "sources" / "0" / name, "v1\n{}")
    path = folder / "sink.yaml"
    path.write_text(JOB_SPEC)
    spec = load_spec(path, {})
    jobs.remember(spec, INCARNATION, str(spark))
    return spec, spark


def offsets(checkpoint_id: int) -> str:
    """Spark's `offsets/N`: each checkpoint has a hundred records."""
    source = json.dumps({"source": "s", "ends": {"t/0": 100 * (checkpoint_id + 1)}})
    return f'v1\n{{"batchWatermarkMs":0,"conf":{{"spark.sql.shuffle.partitions":"2"}}}}\n{source}'


def run_until(location: Path, *, committed: int = NEWEST, done: int = NEWEST) -> Path:
    """Head, records and Spark's folder after NEWEST is completed; returns that folder."""
    _head(location, committed)
    folder = location / "spark" / INCARNATION
    put(folder / "metadata", '{"id":"query"}')
    for number in range(NEWEST + 1):
        put(folder / "offsets" / str(number), offsets(number))
        if number <= done:
            put(folder / "commits" / str(number), "v2\n" + json.dumps({"stateUniqueIds": IDS}))
    state = folder / "state" / "0"
    put(state / "_metadata" / "metadata", 'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"x"}}')
    put(state / "_metadata" / ".metadata.crc", "crc")
    for partition, (unique,) in enumerate(IDS["0"]):
        store = state / str(partition)
        put(store / "_metadata" / "schema", "schema")
        for number in range(NEWEST + 2):
            snapshot(store, f"{number}_{unique}", [f"{number}.sst"])
        snapshot(store, f"{NEWEST + 1}_00000000-0000-0000-0000-00000000dead", ["losing.sst"])
    return folder


def keep_plan(location: Path, spec: Spec) -> None:
    """As a run does with its first batch."""
    plans.keep(LocalDocuments(location), INCARNATION, Plan(("s",), (COUNTED,), describe(spec), spec.text))


def _head(location: Path, committed: int) -> None:
    store, refs = LocalHead(location), []
    for number in (NEWEST - 1, NEWEST):
        content = encode_record(_record(number))
        digest = sha256_of(content)
        refs.append(RecordRef(number, f"{number}-{digest}", digest))
        store.put_record(refs[-1].name, content)
    head = HeadValue(
        "orders",
        INCARNATION,
        3,
        ("n",),
        query_id="query",
        completed=NEWEST,
        committed=committed,
        initial={"s": {"t/0": 0}},
        identities={"s": {"t": "topic-id"}},
        positions={"s": {"t/0": 100 * (NEWEST + 1)}},
        records=tuple(refs),
        sinks=("out",),
    )
    assert store.swap(None, encode_head(head))


def set_head_back(location: Path) -> None:
    """Restore head as it was one checkpoint earlier."""
    before = LocalHead(location).read()
    assert before is not None
    head = decode_head(before.value)
    shutil.rmtree(location / "head")
    older = replace(head, completed=NEWEST - 1, committed=NEWEST - 1, records=head.records[:1])
    assert LocalHead(location).swap(None, encode_head(older))


def _record(number: int) -> CheckpointRecord:
    scope = Scope(INCARNATION, 3, number)
    committable = Committable(TransactionId(scope, sink_key("out"), 0, 1), rows=90)
    ranges = {"s": (OffsetRange("t/0", 100 * number, 100 * number + 100),)}
    return CheckpointRecord(scope, ranges, offsets(number), {"out": (committable,)}, 1.7e9, 1.7e9 + 1)


def snapshot(store: Path, name: str, tables: list[str]) -> None:
    """One version of a store's state, with these files of RocksDB."""
    for table in tables:
        put(store / "SSTs" / table, f"rows of {table}")
    document = {"sstFiles": [{"localFileName": table, "dfsSstFileName": table} for table in tables]}
    with zipfile.ZipFile(store / f"{name}.zip", "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps(document))


def put(path: Path, content: str) -> None:
    """Write a file in folders that may be missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
