"""What a spec promises, sink by sink, and what takes from it; and values of a source that would begin elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connectors.spec import Spec, SpecMistakesError, guarantees, load_spec
from connectors.spec.guarantees import promise
from tests.connectors.spec.entries import kafka_source

SPEC = """\
pipeline: p
checkpoint: {location: state%(checkpoint)s}
sources:
  - {name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}%(source)s}
transforms:
  - {name: b, %(step)s}
sinks:
  - {name: out, from: b, %(sink)s}
"""
SQL = "sql: SELECT * FROM s"
MYSQL = "connector: mysql, url: 'mysql+pymysql://u@h/d', table: t, commit: "
POSTGRES = "connector: postgresql, url: 'postgresql+psycopg://u@h/d', table: t, commit: "
SQLITE = "connector: sqlite, path: x.db, table: t, commit: "
TOPIC = "connector: kafka, bootstrap_servers: a, topic: u, format: raw"


def load(folder: Path, *, source: str = "", step: str = SQL, sink: str = TOPIC, checkpoint: str = "") -> Spec:
    path = folder / "spec.yaml"
    path.write_text(SPEC % {"source": source, "step": step, "sink": sink, "checkpoint": checkpoint})
    return load_spec(path, {})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"source": ", on_bad_record: skip"}, "a record that does not decode is counted and left out"),
        ({"source": ", isolation_level: read_uncommitted"}, "records of aborted Kafka transactions are written, too"),
        ({"source": ", fail_on_data_loss: false"}, "records that retention deletes before they are read are left out"),
        ({"source": ", starting_offsets: latest"}, "the very first start begins at latest, not before"),
        ({"step": "python: 'm:f', from: s"}, "Python steps must give the same rows for the same records"),
    ],
)
def test_what_takes_from_a_guarantee_is_said(tmp_path: Path, change: dict[str, str], said: str) -> None:
    (plain,) = guarantees(load(tmp_path))
    (less,) = guarantees(load(tmp_path, **change))
    (more,) = set(less.limits) - set(plain.limits)
    assert said in more
    assert set(plain.limits) < set(less.limits)


@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize(
    ("sink", "always", "exactly", "at_least"),
    [
        (
            MYSQL + "two-phase",
            ["XA_RECOVER_ADMIN", "sync_binlog=1", "InnoDB"],
            "prepared rows keep their locks",
            "unique",
        ),
        (POSTGRES + "two-phase", ["max_prepared_transactions", "fsync=on", "logged"], "VACUUM", "unique key"),
        (MYSQL + "write-ahead-log", ["InnoDB"], "a constraint of the table refuses", "unique key"),
        (SQLITE + "write-ahead-log", ["a table"], "one writer at a time", "unique key"),
        (TOPIC, ["a compacted topic for the markers"], "read_committed", "not compacted"),
    ],
    ids=["MySQL", "PostgreSQL", "log", "SQLite", "Kafka"],
)
def test_each_sink_and_variant_says_what_it_needs(
    tmp_path: Path, mode: str, sink: str, always: list[str], exactly: str, at_least: str
) -> None:
    spec = load(tmp_path, sink=sink, checkpoint=f", mode: {mode}")
    (found,) = guarantees(spec)
    said = "\n".join([*found.needs, *found.limits])
    assert all(each in said for each in always)
    assert (exactly in said, at_least in said) == (mode == "exactly-once", mode == "at-least-once")
    assert found.promise.startswith(mode)
    assert promise(spec).startswith(mode)
    assert ("may come twice" in said) is (mode == "at-least-once")


@pytest.mark.parametrize("commit", ["upsert, key: [value]"])
@pytest.mark.parametrize("sink", [MYSQL, POSTGRES, SQLITE])
def test_merging_says_which_row_wins(tmp_path: Path, sink: str, commit: str) -> None:
    (found,) = guarantees(load(tmp_path, sink=sink + commit))
    assert "of each key the newest row of its partition" in found.promise
    assert any("records of one key must lie in one partition of one topic" in limit for limit in found.limits)


@pytest.mark.parametrize(
    ("more", "promised", "needs_one_partition"),
    [
        ("order_by: _offset", "of each key the row with the greatest _offset", False),
        ("order_by: _offset, deleted_at: _timestamp", "of each key the row with the greatest _offset", False),
        ("deleted_at: _timestamp", "of each key the newest row of its partition", True),
        ("on_existing: keep", "of each key the first row", True),
    ],
)
@pytest.mark.parametrize("sink", [MYSQL, POSTGRES, SQLITE])
def test_other_ways_to_merge_say_which_row_wins(
    tmp_path: Path, sink: str, more: str, promised: str, needs_one_partition: bool
) -> None:
    (found,) = guarantees(load(tmp_path, sink=f"{sink}upsert, key: [value], {more}"))
    assert promised in found.promise
    assert any("lie in one partition of one topic" in limit for limit in found.limits) is needs_one_partition


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("2026-01-31T12:00:00.123Z", 1_769_860_800_123),
        ("2026-01-31T12:00:00.123+01:00", 1_769_857_200_123),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_a_moment_is_kept_to_the_millisecond(tmp_path: Path, written: str, ms: int) -> None:
    spec = load(tmp_path, source=f", starting_offsets: {{timestamp: '{written}'}}")
    starting: Any = kafka_source(spec).starting_offsets
    assert starting.timestamp_ms == ms
    assert starting.resolvable().timestamp_ms == ms


@pytest.mark.parametrize("offsets", ["{t/0: -1}", "{t/0: 1.5}", "{t/0: true}", "{t/00: 1}", "{t: 1}", "{/0: 1}", "{}"])
def test_offsets_that_are_none_are_refused(tmp_path: Path, offsets: str) -> None:
    with pytest.raises(SpecMistakesError) as caught:
        load(tmp_path, source=f", starting_offsets: {{offsets: {offsets}}}")
    assert all(each.path.startswith("sources[0].starting_offsets") for each in caught.value.mistakes)
    spec = load(tmp_path, source=", starting_offsets: {offsets: {t/0: 0, t/10: 7}}")
    found: Any = kafka_source(spec).starting_offsets
    assert found.resolvable().offsets == {"t/0": 0, "t/10": 7}


@pytest.mark.parametrize("written", ["007", "0x1F", "1_000", "+1", "1" * 30])
def test_a_number_that_text_could_not_be_made_from_again_stays_text(tmp_path: Path, written: str) -> None:
    assert kafka_source(load(tmp_path, source=f", group_id: {written}")).group_id == written
