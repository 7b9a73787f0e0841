"""A start from a savepoint that needs a word of the user's, and what is refused before Spark is asked anything."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from connectors.api.contracts import Horizon, Source
from eos.errors import AlreadyRunningError, ConnectorError, SavepointError
from spark_jobs.observe.run_lock import present
from spark_jobs.operations.from_savepoint import (
    Allowed,
    Beginning,
    _goes_on,
    _witnesses,
    begin,
    check_allowed,
    check_readable,
)
from spark_jobs.operations.new_state import Start
from spark_jobs.operations.repeated_records import Repeated, RepeatedSplit
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.changes import Changes
from spark_jobs.savepoints.take import take
from tests import savepoint_files as files
from twophase.codec import decode_head
from twophase.restore import Seed
from twophase.values import SinkState, SparkState, StartingPoint

NO_SPARK = cast(SparkSession, None)
"""Who uses it ends with an error of another kind."""


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    files.run_until(tmp_path / "state")
    files.keep_plan(tmp_path / "state", spec := files.spec_in(tmp_path))
    return files.folder_of(take(spec))


@pytest.fixture
def plain(savepoint: Path) -> Beginning:
    """A start that loses and repeats nothing."""
    return Beginning(manifests.read(savepoint), Changes((), ()), Repeated(), False, {}, forks=False)


AGAIN = Repeated((RepeatedSplit("s", "t/0", 600, 700),))


@pytest.mark.parametrize(
    ("change", "option", "said"),
    [
        ({"changes": Changes((), ("state of counted",))}, "non_restored_state", "cannot take over state of counted"),
        ({"foreign": {"out": "z" * 20}}, "take_over", "another"),
        ({"repeated": Repeated(other_life=True)}, "take_over", "has begun another incarnation since"),
        ({"repeated": AGAIN}, "duplicates", r"100 records were read after .* t/0\[600, 700\)"),
        ({"repeated": Repeated(beyond={"out": 7})}, "duplicates", "out has checkpoints up to 7"),
    ],
    ids=["state", "sink", "life", "records", "no head"],
)
def test_what_is_lost_or_repeated_takes_an_option_of_its_own(
    plain: Beginning, tmp_path: Path, change: dict[str, object], option: str, said: str
) -> None:
    options = {"non_restored_state": True, "duplicates": True, "take_over": True}
    beginning = replace(plain, **change)  # type: ignore[arg-type]
    check_allowed("orders", beginning, Allowed(tmp_path, **options))
    with pytest.raises(ConnectorError, match=said):
        check_allowed("orders", beginning, Allowed(tmp_path, **{**options, option: False}))
    check_allowed("orders", plain, Allowed(tmp_path))


def test_a_query_that_begins_at_batch_0_compares_what_the_savepoint_has_read(savepoint: Path) -> None:
    """Without state its first plan has no plan before it whose witnesses it could compare (H23)."""
    offsets = savepoint / "spark" / "offsets" / str(files.NEWEST)
    read = {"source": "s", "ends": {"t/0": 600}, "format": 2, "witnesses": {"t/0": "599 a", "t/1": "of a lost split"}}
    offsets.write_text("\n".join([*offsets.read_text().splitlines()[:2], json.dumps(read)]))
    manifest, head = manifests.read(savepoint), decode_head((savepoint / manifests.HEAD).read_bytes())
    compared: list[object] = []
    there = Horizon({"t/0": 700}, StartingPoint({"t/0": 0}))
    source = SimpleNamespace(
        name="s", horizon=lambda _: there, lost_ranges=lambda _: (), check_witnesses=compared.append
    )
    seed = Seed(manifest.id, -1, None, "", {"s": StartingPoint({"t/0": 600})}, {}, 0.0)
    check_readable([cast(Source, source)], seed, _witnesses(savepoint, manifest, head))
    assert compared == [{"t/0": "599 a"}]


def test_a_pipeline_that_runs_is_left_alone(savepoint: Path, tmp_path: Path) -> None:
    spec = files.spec_in(tmp_path)
    with present(spec, "session"), pytest.raises(AlreadyRunningError, match="orders runs, as process"):
        begin(spec, NO_SPARK, Allowed(savepoint), lambda _: None)


def test_a_savepoint_that_is_damaged_is_not_begun_from(savepoint: Path, tmp_path: Path) -> None:
    state = savepoint / "spark" / "state" / "0" / "1" / "SSTs" / "6.sst"
    state.write_bytes(state.read_bytes()[::-1])
    with pytest.raises(SavepointError, match=r"6\.sst: its content does not match its hash"):
        begin(files.spec_in(tmp_path), NO_SPARK, Allowed(savepoint), lambda _: None)


OURS = SinkState(files.INCARNATION, 3, files.NEWEST, (), files.NEWEST)
SPARK = SparkState("query", files.NEWEST, files.NEWEST, {})


@pytest.mark.parametrize(
    ("spark", "has_state", "sink", "changes", "goes_on"),
    [
        (SPARK, True, OURS, Changes((), (), {0: 0}), True),
        (SPARK, False, OURS, Changes((), (), {0: 0}), False),
        (replace(SPARK, query_id="another"), True, OURS, Changes((), (), {0: 0}), False),
        (replace(SPARK, newest_planned=files.NEWEST - 1), True, OURS, Changes((), (), {0: 0}), False),
        (SPARK, True, replace(OURS, claim_incarnation="z" * 20), Changes((), (), {0: 0}), False),
        (SPARK, True, OURS, Changes((), (), {0: 1}), False),
        (SPARK, True, OURS, Changes((), ("state of counted",), {0: 0}), False),
    ],
    ids=[
        "as it was",
        "its state is lost",
        "another query",
        "Spark is behind",
        "another life",
        "other numbers",
        "state that is left",
    ],
)
def test_a_pipeline_is_only_gone_on_with_where_nothing_differs(
    savepoint: Path,
    tmp_path: Path,
    spark: SparkState,
    has_state: bool,
    sink: SinkState,
    changes: Changes,
    goes_on: bool,
) -> None:
    manifest = manifests.read(savepoint)
    assert manifest.plan is not None
    start = Start(NO_SPARK, files.spec_in(tmp_path), cast(DataFrame, None), manifest.plan, savepoint, manifest)
    head = decode_head((savepoint / manifests.HEAD).read_bytes())
    log = cast(LocalSparkLog, SimpleNamespace(state=lambda _: spark, finds_state=lambda _: has_state))
    assert _goes_on(start, changes, head, log, {"out": sink}) is goes_on
    assert not _goes_on(start, changes, replace(head, completed=files.NEWEST + 1), log, {"out": sink})
