"""A whole checkpoint location as an earlier version wrote it is read as it was meant, and one from the future is not.

`python -m integration_tests.golden` writes one, beside the others, with each change of a format.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.log.segments import segment_of, slots_of
from eos.errors import IdentityError
from integration_tests.golden import LOCATIONS
from spark_jobs.cli import run_command_line
from spark_jobs.query.spark_log import LocalSparkLog, planned
from tests.twophase.test_codec import GOLDEN
from twophase.codec import NEWEST, decode_head, encode_head, sha256_of
from twophase.local_head import LocalHead
from twophase.status import read_status
from twophase.values import OffsetRange, SinkState
from twophase.verify import verify
from wal.local import LocalStorage
from wal.segment import read_segment

LOCATION = GOLDEN / "location"
TOPIC = "eos-golden"
SPEC = f"""\
pipeline: {TOPIC}
checkpoint: {{location: checkpoints}}
sources: [{{name: incoming, connector: kafka, bootstrap_servers: a, topics: [t], format: {{type: raw}}}}]
sinks: [{{name: warehouse, from: incoming, connector: sqlite, path: sink.db, table: records, commit: write-ahead-log}}]
"""


@pytest.fixture(params=LOCATIONS)
def location(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of each, beside a spec."""
    (tmp_path / "pipeline.yaml").write_text(SPEC)
    shutil.copytree(GOLDEN / request.param, tmp_path / "checkpoints")
    return tmp_path / "checkpoints"


def test_head_records_and_sparks_folder_tell_one_story(location: Path) -> None:
    found = read_status(LocalHead(location))
    assert found is not None
    head, newest = found.head, found.checkpoints[0]
    assert (head.pipeline, head.epoch, head.completed, head.committed) == (TOPIC, 1, 2, 1)
    assert head.positions == {"incoming": {f"{TOPIC}/0": 750, f"{TOPIC}/1": 750}}
    assert newest.ranges == {"incoming": (OffsetRange(f"{TOPIC}/0", 500, 750), OffsetRange(f"{TOPIC}/1", 500, 750))}
    assert [record.rows for record in found.checkpoints] == [10, 10, 10]

    spark = LocalSparkLog(location).state(head.incarnation)
    assert (spark.newest_planned, spark.newest_committed, spark.query_id) == (2, 1, head.query_id)
    assert (spark.state_partitions, spark.rescaled_to) == ({1: 2, 2: 2}, None)
    LocalSparkLog(location).check_divisible(head.incarnation)
    plan = planned(spark.offsets_log[2], ["incoming"])["incoming"]
    assert (plan.ends, plan.began.positions) == (head.positions["incoming"], {})
    sink = SinkState(head.incarnation, 1, highest_witness=1)
    verify(TOPIC, head, newest, spark, {"warehouse": sink})


def test_the_segments_that_wait_have_the_rows_that_were_decided(location: Path) -> None:
    found = read_status(LocalHead(location))
    assert found is not None
    committables = found.checkpoints[0].committables["warehouse"]
    assert slots_of(committables) == 1
    refs = [ref for each in committables if (ref := segment_of(each)) is not None]
    storage = LocalStorage(location / "log")
    rows = [row for ref in refs for batch in read_segment(storage, ref) for row in pa.table(batch).to_pylist()]
    assert sorted(row["payload"] for row in rows) == ["150"] * 10
    assert max(row["id"] for row in rows) == 1499


@pytest.mark.parametrize("what", ["head", "record"])
def test_a_location_from_the_future_is_refused_by_name(
    location: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    store = LocalHead(location)
    seen = store.read()
    assert seen is not None
    head = decode_head(seen.value)
    newest = location / "head" / f"{seen.version:020}.json"
    path = newest if what == "head" else location / "records" / head.records[-1].name
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "format": 3}))
    if what == "record":
        _point_at(newest, path)
    assert run_command_line(["status", str(location.parent / "pipeline.yaml")]) == 1
    said = capsys.readouterr().err
    assert f"this {what} has format 3; this version reads format {NEWEST[what]}" in said
    assert "run the version that wrote it, or a newer one" in said


def test_sparks_offsets_in_another_form_are_refused_by_name(location: Path) -> None:
    (folder,) = (location / "spark").iterdir()
    log = LocalSparkLog(location).offsets_log(folder.name, 2)
    with pytest.raises(IdentityError, match=r"has version v2 and 1 sources .*; expected v1"):
        planned(log.replace("v1\n", "v2\n", 1), ["incoming"])


def _point_at(head: Path, record: Path) -> None:
    """As the version that wrote the record has its hash in head."""
    value = decode_head(head.read_bytes())
    *before, newest = value.records
    after = replace(newest, sha256=sha256_of(record.read_bytes()))
    head.write_bytes(encode_head(replace(value, records=(*before, after))))
