"""Every kind of document that is stored, with what its golden files of three versions hold and how they are read.

Of a kind `K`, `tests/golden/neighbours` has `K.before`, as the version before wrote it, `K.today`, `K.next`, as the
next version may write it for readers of today, and `K.refused`, of a version that today's readers would misread.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from connectors.kafka.sink.markers import encode
from connectors.known import decode_known, encode_known
from connectors.owner import Owner
from connectors.sql.mysql.target import Target
from connectors.stores.token import Token, decode_token
from spark_jobs.adapters.kafka_format import _decoded, _encoded
from spark_jobs.query import state_manifest
from spark_jobs.query.source_offset import SourceOffset
from spark_jobs.run.known_sinks import KnownSink
from spark_jobs.savepoints import manifest as manifests
from tests import stored_values as stored
from tests.project.test_stored_documents import markers_with
from tests.twophase.test_codec import COMMITTABLE, HEAD, RECORD
from twophase import codec, requests
from twophase.requests import Answer, Request


@dataclass(frozen=True)
class Kind:
    """One kind of stored document."""

    sites: tuple[str, ...]
    """Where the product writes it, as `path:function`; tests/project/test_neighbours.py finds all of them."""
    format: tuple[str, int] | None
    """The module that has the number of its format, and that number; None: it has none (`why`)."""
    read: Callable[[bytes], Any]
    value: Any
    """Of `K.today`."""
    written: Callable[[], bytes] | None
    """Today's bytes of the value; None where they are not the same each time."""
    before: Any = None
    """Of `K.before`; None: the value of today, too."""
    after: Any = None
    """Of `K.next`, likewise."""
    refusal: str = ""
    """Words of the error for `K.refused`; empty: there is no such file (`why`)."""
    why: str = ""


_TOKEN: Final = Token(Owner("a" * 20, 3), 7, "5f1c", 12)

_MARKERS: Final = "connectors/kafka/sink/markers.py:encode"

KINDS: Final[dict[str, Kind]] = {
    "head": Kind(
        ("twophase/codec.py:_dump", "twophase/codec.py:encode_head"),
        ("twophase/codec.py", 2),
        codec.decode_head,
        stored.HEAD,
        lambda: codec.encode_head(stored.HEAD),
        before=HEAD,
        after=replace(stored.HEAD, unknown=("colour",)),
        refusal="this head has format 4, which is read from format 3 on; this version reads 2",
    ),
    "head-in-parts": Kind(
        ("twophase/codec.py:_dump", "twophase/codec.py:encode_head"),
        ("twophase/codec.py", 2),
        stored.head_in_parts,
        HEAD,
        lambda: codec.encode_head(HEAD, stored.PART),
        after=replace(HEAD, unknown=("colour",)),
        refusal="this head has format 4, which is read from format 3 on; this version reads 2",
    ),
    "record": Kind(
        ("twophase/codec.py:_dump", "twophase/codec.py:encode_record"),
        ("twophase/codec.py", 1),
        codec.decode_record,
        stored.RECORD,
        lambda: codec.encode_record(stored.RECORD),
        before=RECORD,
        refusal="this record has format 3, which is read from format 2 on; this version reads 1",
    ),
    "committable": Kind(
        ("twophase/codec.py:_dump", "twophase/codec.py:encode_committable"),
        ("twophase/codec.py", 1),
        codec.decode_committable,
        stored.COMMITTABLE,
        lambda: codec.encode_committable(stored.COMMITTABLE),
        before=COMMITTABLE,
        refusal="this committable has format 3, which is read from format 2 on; this version reads 1",
    ),
    "request": Kind(
        ("twophase/requests.py:_dump",),
        ("twophase/requests.py", 1),
        lambda content: requests._load(content, Request),
        stored.REQUEST,
        lambda: requests._dump(stored.REQUEST),
        refusal="a request beside head has format 3, which is read from format 2 on; this version reads 1",
    ),
    "answer": Kind(
        ("twophase/requests.py:_dump",),
        ("twophase/requests.py", 1),
        lambda content: requests._load(content, Answer),
        stored.ANSWER,
        lambda: requests._dump(stored.ANSWER),
        refusal="a request beside head has format 3, which is read from format 2 on; this version reads 1",
    ),
    "savepoint": Kind(
        ("spark_jobs/savepoints/manifest.py:_dump", "spark_jobs/savepoints/manifest.py:encode"),
        ("spark_jobs/savepoints/manifest.py", 1),
        lambda content: manifests.decode(content, Path("/savepoint")),
        stored.MANIFEST,
        lambda: manifests.encode(stored.MANIFEST),
        before=replace(stored.MANIFEST, plan=None),
        refusal="/savepoint has format 3, which is read from format 2 on; this version reads 1",
    ),
    "kept-state": Kind(
        ("spark_jobs/query/state_manifest.py:_dump", "spark_jobs/query/state_manifest.py:encode"),
        ("spark_jobs/query/state_manifest.py", 1),
        lambda content: state_manifest.decode(content, "the manifest"),
        stored.KEPT_STATE,
        lambda: state_manifest.encode(stored.KEPT_STATE),
        refusal="the manifest has format 3, which is read from format 2 on; this version reads 1",
    ),
    "plan": Kind(
        (
            "spark_jobs/savepoints/plan.py:keep",
            "spark_jobs/savepoints/plan.py:_step",
            "connectors/kafka/entry.py:KafkaEntry.description",
        ),
        ("spark_jobs/savepoints/plan.py", 1),
        stored.plan_of,
        stored.PLAN,
        lambda: stored.written_plan(stored.PLAN),
        refusal="has format 3, which is read from format 2 on; this version reads 1",
    ),
    "job": Kind(
        ("spark_jobs/savepoints/job.py:keep",),
        ("spark_jobs/savepoints/job.py", 1),
        stored.job_of,
        stored.JOB,
        lambda: stored.written_job(stored.JOB),
        refusal="has format 3, which is read from format 2 on; this version reads 1",
    ),
    "known-sink": Kind(
        ("spark_jobs/run/known_sinks.py:KnownSink.encoded",),
        ("spark_jobs/run/known_sinks.py", 1),
        lambda content: KnownSink.decoded(content, "the file"),
        stored.KNOWN,
        stored.KNOWN.encoded,
        refusal="the file has format 3, which is read from format 2 on; this version reads 1",
    ),
    "learned": Kind(
        ("connectors/known.py:encode_known",),
        None,
        lambda content: decode_known("warehouse", "here, table orders", Target, content.decode()),
        stored.TARGET,
        lambda: encode_known("here, table orders", Target, stored.TARGET).encode(),
        refusal="the start cannot go on without it: its cached description cannot be read",
        why="it is a text in a known sink's document, whose number it has",
    ),
    "first-offsets": Kind(
        ("spark_jobs/adapters/kafka_format.py:_encoded",),
        ("spark_jobs/adapters/kafka_format.py", 1),
        lambda content: _decoded(content, "/location"),
        stored.BEGUN,
        lambda: _encoded(stored.BEGUN),
        before=replace(stored.BEGUN, source_id=""),
        after=replace(stored.BEGUN, unknown=("colour",)),
        refusal="the first offsets at /location has format 3, which is read from format 2 on; this version reads 1",
    ),
    "source-offset": Kind(
        ("spark_jobs/query/source_offset.py:SourceOffset.to_json",),
        ("spark_jobs/query/source_offset.py", 2),
        lambda content: SourceOffset.from_json(json.loads(content)),
        stored.OFFSET,
        lambda: json.dumps(stored.OFFSET.to_json()).encode(),
        before=replace(stored.OFFSET, witnesses={}),
        refusal="the offset of source orders in Spark's plan has format 4, which is read from format 3 on",
    ),
    "claim": Kind(
        (_MARKERS,),
        ("connectors/kafka/sink/markers.py", 1),
        lambda content: markers_with(content).claim("key"),
        stored.CLAIM,
        lambda: encode(stored.CLAIM.record()),
        refusal="the record 'key' of topic eos-markers has format 3, which is read from format 2 on",
    ),
    "marker": Kind(
        (_MARKERS,),
        ("connectors/kafka/sink/markers.py", 1),
        lambda content: markers_with(content).markers(["key"])["key"],
        stored.MARKER,
        lambda: encode(stored.MARKER.record()),
        refusal="the record 'key' of topic eos-markers has format 3, which is read from format 2 on",
    ),
    "store-token": Kind(
        ("connectors/stores/token.py:Token.encode",),
        ("connectors/stores/token.py", 1),
        lambda content: decode_token(content.decode(), "sink t"),
        _TOKEN,
        lambda: _TOKEN.encode().encode(),
        refusal="the token of sink t has format 3, which is read from format 2 on; this version reads 1",
    ),
    "replayed": Kind(
        (_MARKERS,),
        ("connectors/kafka/sink/markers.py", 1),
        lambda content: markers_with(content).found(["key"])["key"],
        {"checkpoint_id": 7},
        lambda: encode({"checkpoint_id": 7}),
        refusal="the record 'key' of topic eos-markers has format 3, which is read from format 2 on",
    ),
    "segment": Kind(
        (
            "wal/segment.py:Footer.encode",
            "wal/segment.py:SegmentWriter.__init__",
            "connectors/log/chunks.py:TablePart.write",
            "connectors/log/merge.py:Merge.metadata",
        ),
        ("wal/segment.py", 1),
        stored.rows_of,
        stored.ROWS,
        None,
        refusal="one.segment has format 2, this version reads format 1",
        why="a segment has no `least_reader`: it is applied before a version goes back",
    ),
    "history": Kind(
        ("spark_jobs/observe/history/rows.py:packed", "spark_jobs/observe/history/writer.py:HistoryWriter._add"),
        ("spark_jobs/observe/history/database.py", 1),
        stored.history_of,
        stored.HISTORY,
        None,
        refusal="has format 2; this version reads 1",
        why="SQLite has one number for a file: tables may be added under it, and nothing is decided by a history",
    ),
    "dead-letter": Kind(
        ("connectors/dead_letters.py:encode_refused_row", "connectors/dead_letters.py:encode_headers"),
        None,
        stored.letter_of,
        stored.letter_of(stored.written_letter()),
        stored.written_letter,
        why="its columns and headers are a promise to users: no version changes them",
    ),
    "presence": Kind(
        ("spark_jobs/observe/run_lock.py:present",),
        None,
        stored.presence_of,
        stored.PRESENCE,
        None,
        before=replace(stored.PRESENCE, page=None),
        why="it ends with its process, and informs only; fields that are not known are passed over",
    ),
    "admission": Kind(
        ("spark_jobs/query/pacing/pacing.py:RememberedAdmission._keep",),
        None,
        stored.records_of,
        5000,
        None,
        why="a hint: what cannot be read is ignored",
    ),
    "withheld": Kind(
        ("spark_jobs/observe/withheld.py:_write",),
        None,
        stored.withheld_of,
        stored.WITHHELD,
        None,
        why="a hint: what cannot be read is ignored",
    ),
    "lag": Kind(
        ("spark_jobs/observe/lag.py:write_lag",),
        None,
        stored.lag_of,
        stored.LAG,
        stored.written_lag,
        why="a measurement: what cannot be read is not measured",
    ),
    "columns": Kind(
        ("spark_jobs/observe/schema_events.py:changes",),
        None,
        stored.columns_of,
        stored.SINK_COLUMNS,
        stored.written_columns,
        why="what cannot be read is compared with nothing: a change of columns is then not in the history",
    ),
    "listener": Kind(
        ("spark_jobs/observe/checkpoint_listener.py:_write",),
        None,
        stored.cursor_of,
        stored.CURSOR,
        stored.written_cursor,
        why="what cannot be read is damaged, which is logged: calls begin at the next checkpoint",
    ),
}
