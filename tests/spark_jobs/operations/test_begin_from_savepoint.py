"""A start from a savepoint that needs a word of the user's, and what is refused before Spark is asked anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from eos.errors import AlreadyRunningError, ConnectorError, SavepointError
from spark_jobs.observe.run_lock import present
from spark_jobs.operations.from_savepoint import Allowed, Beginning, _goes_on, begin, check_allowed
from spark_jobs.operations.repeated_records import Repeated, RepeatedSplit
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.changes import Changes
from spark_jobs.savepoints.take import take
from tests import savepoint_files as files
from twophase.codec import decode_head
from twophase.values import SinkState, SparkState

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
    ("spark", "sink", "changes", "goes_on"),
    [
        (SPARK, OURS, Changes((), (), {0: 0}), True),
        (replace(SPARK, query_id="another"), OURS, Changes((), (), {0: 0}), False),
        (replace(SPARK, newest_planned=files.NEWEST - 1), OURS, Changes((), (), {0: 0}), False),
        (SPARK, replace(OURS, claim_incarnation="z" * 20), Changes((), (), {0: 0}), False),
        (SPARK, OURS, Changes((), (), {0: 1}), False),
        (SPARK, OURS, Changes((), ("state of counted",), {0: 0}), False),
    ],
    ids=["as it was", "another query", "Spark is behind", "another life", "other numbers", "state that is left"],
)
def test_a_pipeline_is_only_gone_on_with_where_nothing_differs(
    savepoint: Path, spark: SparkState, sink: SinkState, changes: Changes, goes_on: bool
) -> None:
    manifest = manifests.read(savepoint)
    head = decode_head((savepoint / manifests.HEAD).read_bytes())
    assert _goes_on(manifest, changes, ("s",), head, spark, {"out": sink}) is goes_on
    assert not _goes_on(manifest, changes, ("s",), replace(head, completed=files.NEWEST + 1), spark, {"out": sink})
