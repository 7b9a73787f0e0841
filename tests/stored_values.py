"""Values of every kind of stored document, and how those are written and read that are not read from bytes alone."""

from __future__ import annotations

import fcntl
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from connectors import dead_letters
from connectors.dead_letter_names import COLUMNS, MESSAGE_HEADERS
from connectors.kafka.sink.markers import Claim, Marker
from connectors.owner import Owner
from connectors.sql.mysql.target import KeyPart, Target, TargetColumn, UniqueIndex
from spark_jobs.adapters.kafka_format import Begun
from spark_jobs.observe import checkpoint_listener, schema_events
from spark_jobs.observe.history.entries import LagMeasured
from spark_jobs.observe.history.model import SplitLag
from spark_jobs.observe.history.store import History
from spark_jobs.observe.lag import Lag, SourceLag, read_lag, write_lag
from spark_jobs.observe.run_lock import RunLock, _living
from spark_jobs.observe.withheld import WithheldSplit, read_withheld
from spark_jobs.query.pacing.admission import AdaptiveAdmission
from spark_jobs.query.pacing.pacing import RememberedAdmission
from spark_jobs.query.source_offset import SourceOffset
from spark_jobs.query.state_manifest import KeptState, Located
from spark_jobs.run.known_sinks import KnownSink
from spark_jobs.savepoints import job as jobs
from spark_jobs.savepoints import plan as plans
from spark_jobs.savepoints.job import JobCheckpoint
from spark_jobs.savepoints.manifest import Entry, Manifest
from spark_jobs.savepoints.plan import Operator, Plan
from tests.history_values import AT, RUN, whole, writing
from tests.twophase import test_codec as before
from tests.twophase_values import INCARNATION
from twophase import codec
from twophase.documents import LocalDocuments
from twophase.head_value import HeadValue, Origin, RecordRef
from twophase.requests import Answer, Request
from twophase.values import StartingPoint
from wal.local import LocalStorage
from wal.segment import SegmentWriter, read_segment, stat_segment


@contextmanager
def _file(content: bytes, name: str = "document") -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        yield path


def plan_of(content: bytes) -> Plan | None:
    with _file(content, f"plans/{INCARNATION}.json") as path:
        return plans.kept(LocalDocuments(path.parents[1]), INCARNATION)


def written_plan(plan: Plan) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        plans.keep(LocalDocuments(Path(folder)), INCARNATION, plan)
        return (Path(folder) / "plans" / f"{INCARNATION}.json").read_bytes()


def job_of(content: bytes) -> JobCheckpoint | None:
    with _file(content, f"jobs/{INCARNATION}.json") as path:
        return jobs.find(LocalDocuments(path.parents[1]), INCARNATION)


def written_job(checkpoint: JobCheckpoint) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        jobs.keep(LocalDocuments(Path(folder)), INCARNATION, checkpoint)
        return (Path(folder) / "jobs" / f"{INCARNATION}.json").read_bytes()


def rows_of(content: bytes) -> dict[str, list[Any]]:
    with _file(content, "one.segment") as path:
        storage = LocalStorage(path.parent)
        rows: dict[str, list[Any]] = pa.Table.from_batches(
            read_segment(storage, stat_segment(storage, path.name))
        ).to_pydict()
        return rows


def written_segment() -> bytes:
    """A segment of the rows in the golden files. Arrow's bytes differ between its versions."""
    rows = pa.table({"id": pa.array([1, None]), "text": ["ä", ""]})
    with tempfile.TemporaryDirectory() as folder:
        writer = SegmentWriter(LocalStorage(Path(folder)), "one.segment", rows.schema)
        for batch in rows.to_batches():
            writer.write(batch)
        writer.seal()
        return (Path(folder) / "one.segment").read_bytes()


def history_of(content: bytes) -> tuple[Any, ...]:
    """Of a dump: the totals and the newest checkpoint, before and after this version has written one more."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.sqlite"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(content.decode())
        found = _told(path)
        with writing(path) as writer:
            writer.write([RUN, *whole(1)], AT + 100.0)
        return *found, *_told(path)


def _told(path: Path) -> tuple[Any, ...]:
    history = History(path)
    return history.totals().checkpoints, history.totals().records, history.checkpoints()[0].checkpoint_id


def dumped_history() -> bytes:
    """A history of one checkpoint, as SQL."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.sqlite"
        with writing(path) as writer:
            writer.write([RUN, *whole(0), LagMeasured(AT, 5)], AT + 100.0)
        with closing(sqlite3.connect(path)) as connection:
            pragmas = [
                f"PRAGMA {name}={connection.execute(f'PRAGMA {name}').fetchone()[0]};"
                for name in ("application_id", "user_version")
            ]
            return "\n".join([*pragmas, *connection.iterdump(), ""]).encode()


def presence_of(content: bytes) -> RunLock | None:
    with _file(content) as path, path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        return _living(path)


def records_of(content: bytes) -> int:
    with _file(content) as path:
        return RememberedAdmission(AdaptiveAdmission(1.0, probes=True), path).adaptive.records


def withheld_of(content: bytes) -> tuple[WithheldSplit, ...]:
    with _file(content, "withheld.json") as path:
        return read_withheld(path.parent)


def lag_of(content: bytes) -> Lag:
    with _file(content, "lag.json") as path:
        return read_lag(path.parent, ["orders", "clicks"])


def written_lag() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write_lag(Path(folder), LAG)
        return (Path(folder) / "lag.json").read_bytes()


def columns_of(content: bytes) -> dict[str, dict[str, str]]:
    with _file(content, schema_events.NAME) as path:
        return schema_events._read(path)


def written_columns() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        schema_events.changes(Path(folder), SINK_COLUMNS, AT)
        return (Path(folder) / schema_events.NAME).read_bytes()


def cursor_of(content: bytes) -> checkpoint_listener._Cursor | None:
    with _file(content, checkpoint_listener.NAME) as path:
        return checkpoint_listener._read(LocalDocuments(path.parent))


def written_cursor() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / checkpoint_listener.NAME
        checkpoint_listener._write(LocalDocuments(path.parent), CURSOR)
        return path.read_bytes()


def letter_of(content: bytes) -> dict[str, Any]:
    document = json.loads(content)
    return {**document, "headers": [list(each) for each in dead_letters.decode_headers(document["headers"])]}


def written_letter() -> bytes:
    row = pa.record_batch({"id": pa.array([7]), "amount": [float("nan")], "raw": [b"\xff"], "_topic": ["t"]})
    document = {
        "columns": list(COLUMNS),
        "types": [str(each.type) for each in dead_letters.SCHEMA],
        "message headers": list(MESSAGE_HEADERS),
        "headers": dead_letters.encode_headers([("h", b"x"), ("none", None)]),
        "row": dead_letters.encode_refused_row("warehouse", row, "too long").to_pylist()[0]["value"].decode(),
    }
    return json.dumps(document, indent=1).encode()


SPLITS: Final = (before.GOLDEN / "head-2-splits.json").read_bytes()
PART: Final = codec.Part("splits-of-17.json", codec.sha256_of(SPLITS))


def head_in_parts(content: bytes) -> HeadValue:
    return codec.decode_head(content, partial(codec.decode_splits, SPLITS))


HEAD: Final = replace(
    before.HEAD,
    records=(*before.HEAD.records, RecordRef(18, "later", "1" * 64, direct=True)),
    origin=Origin("k2x9qa", 17, INCARNATION),
)
RECORD: Final = replace(before.RECORD_OF_METHOD_2, direct=True, state_partitions=8)
COMMITTABLE: Final = replace(before.COMMITTABLE, refused=3, refused_digest=77)
REQUEST: Final = Request("1700000000000-00000000", "stop", {"savepoint": "/s"}, 1.5, 9.5, "somebody")
ANSWER: Final = Answer(ok=True, message="stopped", facts={"checkpoint_id": 7}, at=2.5)
PLAN: Final = Plan(
    ("orders",), (Operator("count", "Aggregate", "int"),), {"sources": {"orders": {"topics": "t"}}}, "pipeline: orders"
)
JOB: Final = JobCheckpoint("/checkpoints/spark", "here")
MANIFEST: Final = Manifest(
    *("k2x9qa", "orders", INCARNATION, 7, 1.5, 2.5, 1),
    versions={"eos": "0.1.0"},
    plan=PLAN,
    files={"spec.yaml": Entry(3, "0" * 64)},
)
TARGET: Final = Target(
    *("shop", "orders", "InnoDB"),
    (TargetColumn("id", "bigint", "bigint", nullable=False, filled=False, generated=False),),
    (UniqueIndex("PRIMARY", (KeyPart("id"),)),),
)
KEPT_STATE: Final = KeptState(
    7,
    {
        "commits/7": Located("00000003.0123456789abcdef.files", 0, 120, "a" * 64),
        "state/0/1/SSTs/9.sst": Located("00000002.fedcba9876543210.files", 4096, 65536, "b" * 64),
    },
    {"00000002.fedcba9876543210.files": 69632, "00000003.0123456789abcdef.files": 120},
)

KNOWN: Final = KnownSink(7, frozenset({1, 4}), "what was learned")
POINT: Final = StartingPoint({"t/0": 1}, {"t": "id"})
BEGUN: Final = Begun("/location", "eos_kafka-1", POINT)
OFFSET: Final = SourceOffset("orders", {"t/0": 5}, POINT, {"t/0": "4:1700000000000:7ab7afa7af331519"})
CLAIM: Final = Claim(Owner(INCARNATION, 2), 4)
MARKER: Final = Marker(7, "56915d98", "a1", 12)
PRESENCE: Final = RunLock("run1.0", 4711, "here", 1.5, "http://127.0.0.1:8080")
WITHHELD: Final = (WithheldSplit("orders", "t/0", 5, 9, 1.5, 2.5, "waiting"),)
LAG: Final = Lag(
    (
        SourceLag("orders", 2.5, (SplitLag(2.5, "orders", "t/0", 9, 5),), {"t/0": [9, 12]}),
        SourceLag("clicks", failure="no answer", every_s=7.5),
    )
)
SINK_COLUMNS: Final = {"warehouse": {"id": "bigint", "größe": "string"}}
CURSOR: Final = checkpoint_listener._Cursor(INCARNATION, 7)
ROWS: Final = {"id": [1, None], "text": ["ä", ""]}
HISTORY: Final = (1, 10, 0, 2, 20, 1)
