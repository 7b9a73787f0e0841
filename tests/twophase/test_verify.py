"""R2: every refusal, with what it says; and what is not refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eos.errors import HeadFormatError, IdentityError
from tests.twophase_values import INCARNATION, committable, head, record, scope
from twophase.head_value import HeadValue
from twophase.values import DIGEST_METHODS, CheckpointRecord, SinkState, SparkState
from twophase.verify import may_be_under_way, verify

HEAD = head(query_id="query", completed=4, committed=4, epoch=7)
NEWEST = record(4)
SPARK = SparkState("query", newest_planned=5, newest_committed=4, offsets_log={4: "v1 4", 5: "v1 5"})
SINK = SinkState(INCARNATION, claim_epoch=7, highest_witness=4)


def compare(
    of: HeadValue | None = HEAD,
    newest: CheckpointRecord | None = NEWEST,
    spark: SparkState = SPARK,
    sink: SinkState = SINK,
) -> None:
    verify("orders", of, newest, spark, {"warehouse": sink})


@pytest.mark.parametrize(
    "stores",
    [
        {},
        {"spark": replace(SPARK, newest_planned=4)},  # killed before the next batch was planned
        {"spark": replace(SPARK, newest_planned=4, newest_committed=3)},  # killed before commits/4
        {"spark": replace(SPARK, newest_committed=-1)},  # the commits folder is gone: Spark runs the batch again
        {"of": replace(HEAD, query_id=None)},
        {"of": replace(HEAD, committed=3)},  # killed between the decision and the commits
        {"of": replace(HEAD, epoch=9)},  # killed after the claim of head, before those of the sinks
        {"sink": replace(SINK, claim_epoch=0)},
        {"of": None, "newest": None, "spark": SparkState(), "sink": SinkState()},
        {"of": head(), "newest": None, "spark": SparkState(), "sink": SinkState()},
        {"of": head(), "newest": None, "spark": SparkState("query", 0), "sink": SinkState(INCARNATION, 1)},
    ],
    ids=str,
)
def test_what_a_crash_leaves_behind_is_accepted(stores: dict[str, Any]) -> None:
    compare(**stores)


@pytest.mark.parametrize(
    ("stores", "said"),
    [
        (
            {"of": None, "newest": None, "spark": SparkState()},
            "sink warehouse belongs to another incarnation of pipeline",
        ),
        ({"of": replace(HEAD, pipeline="payments")}, "belongs to pipeline 'payments', the spec names 'orders'"),
        ({"spark": replace(SPARK, query_id=None)}, "Spark's checkpoint is gone; head belongs to query query"),
        ({"spark": replace(SPARK, query_id="other")}, "Spark's checkpoint is of query other; head belongs to query"),
        ({"spark": replace(SPARK, newest_planned=3)}, "Spark has planned batch 3, but the newest completed .* is 4"),
        ({"spark": replace(SPARK, newest_planned=6)}, "Spark has planned batch 6, but the newest completed .* is 4"),
        ({"spark": replace(SPARK, newest_committed=5)}, "Spark has committed batch 5, but the newest completed .* 4"),
        ({"spark": replace(SPARK, offsets_log={4: "other"})}, "Spark's offsets/4 is not what checkpoint 4 was decided"),
        ({"spark": replace(SPARK, offsets_log={5: "v1 5"})}, "Spark's offsets/4 is not what checkpoint 4 was decided"),
        ({"sink": replace(SINK, claim_incarnation="z" * 20)}, "claimed by incarnation z+, this pipeline is 0123"),
        ({"sink": SinkState()}, "sink warehouse knows nothing of this pipeline, which has completed checkpoint 4"),
        ({"sink": replace(SINK, claim_epoch=8)}, "has seen epoch 8, head is at 7: head was set back"),
        ({"sink": replace(SINK, highest_witness=5)}, "holds rows of checkpoint 5, the newest completed is 4: head was"),
        (
            {"sink": replace(SINK, counted=5)},
            "counts checkpoints up to 5, the newest completed is 4: head was set back",
        ),
        (
            {"sink": replace(SINK, missing=(committable(scope(4)).transaction,))},
            f"sink warehouse lacks what head calls committed: {INCARNATION}-00000001-000000000004-0001/",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_is_refused(stores: dict[str, Any], said: str) -> None:
    with pytest.raises(IdentityError, match=said) as caught:
        compare(**stores)
    assert "eos reset" in caught.value.remedy or "location of its own" in caught.value.remedy
    assert not caught.value.retriable


def _decided_with(method: int, written_by: str = "7.1.0", digest: int = 255) -> CheckpointRecord:
    group = (replace(committable(scope(4)), digest=digest),)
    return replace(NEWEST, committables={"warehouse": group}, digest_method=method, written_by=written_by)


@pytest.mark.parametrize("written_by", ["7.1.0", "", "(not installed)"])
def test_digests_that_this_version_does_not_compute_are_refused_before_the_claim(written_by: str) -> None:
    unfinished = replace(SPARK, newest_committed=3)
    with pytest.raises(HeadFormatError, match=r"row digests of method 3\..* it computes methods 1, 2") as caught:
        compare(newest=_decided_with(3, written_by), spark=unfinished)
    version = "eos 7.1.0" if written_by == "7.1.0" else "the version that wrote it"
    assert caught.value.remedy == f"finish it with {version}, by `eos run --until-caught-up`"
    for method in DIGEST_METHODS:
        compare(newest=_decided_with(method), spark=unfinished)


def test_digests_that_nobody_compares_any_more_are_not_refused() -> None:
    compare(newest=_decided_with(3))  # Spark has done the batch
    empty = _decided_with(3, digest=0)  # no state, or no rows: 0 by every method
    compare(newest=empty, spark=replace(SPARK, newest_committed=3))
    assert empty.digest_methods == DIGEST_METHODS[-1:]


@pytest.mark.parametrize("left", ["", "v", "v1", "\0\0\0\0", "v1\0\0"])
def test_a_decided_plan_that_a_disk_has_cut_off_is_named_as_that(left: str) -> None:
    with pytest.raises(IdentityError, match="offsets/4 is empty or cut off, and checkpoint 4 was decided") as caught:
        compare(spark=replace(SPARK, offsets_log={4: left}))
    assert "restore it from a backup, or begin from a savepoint" in caught.value.remedy


def test_a_sink_is_not_taken_out_of_the_spec_while_something_waits_for_it() -> None:
    left = {"other": SINK}
    with_both = replace(HEAD, sinks=("other", "warehouse"))
    settled = replace(SPARK, newest_planned=4)
    verify("orders", with_both, NEWEST, settled, left)
    verify("orders", with_both, NEWEST, SPARK, {**left, "warehouse": SINK})
    with pytest.raises(IdentityError, match="4 is not yet committed to sink warehouse, which the spec no longer names"):
        verify("orders", replace(with_both, committed=3), NEWEST, settled, left)
    said = "sink warehouse, which the spec no longer names, may hold prepared transactions of checkpoint 5"
    with pytest.raises(IdentityError, match=said) as caught:
        verify("orders", with_both, NEWEST, SPARK, left)
    assert "put the sink back" in caught.value.remedy
    assert "eos reset" in caught.value.remedy


@pytest.mark.parametrize(
    ("of", "spark", "may_be"),
    [
        (HEAD, replace(SPARK, newest_planned=4), False),
        (HEAD, SPARK, True),
        (HEAD, SparkState(), True),  # Spark's checkpoint is gone: nobody knows
        (head(query_id="query"), SparkState("other"), True),
        (head(), SparkState("query"), False),  # killed before the first batch was planned
        (head(), SparkState("query", 0), True),
    ],
)
def test_what_spark_has_not_planned_nobody_has_prepared(of: HeadValue, spark: SparkState, *, may_be: bool) -> None:
    assert may_be_under_way(of, spark) is may_be


def test_every_sink_is_looked_at() -> None:
    both = replace(HEAD, sinks=("first", "second"))
    with pytest.raises(IdentityError, match="sink second"):
        verify("orders", both, NEWEST, SPARK, {"first": SINK, "second": replace(SINK, highest_witness=9)})


@pytest.mark.parametrize("committed", [4, 3])
@pytest.mark.parametrize("state", [SinkState(), SINK], ids=["never here", "taken out before"])
def test_a_sink_that_lacks_what_was_decided_does_not_join(committed: int, state: SinkState) -> None:
    """It would get no row of it, and nobody would say so."""
    of = replace(HEAD, committed=committed)
    with pytest.raises(IdentityError, match="sink more is new to this pipeline: what was written up to checkpoint 4"):
        verify("orders", of, NEWEST, SPARK, {"warehouse": SINK, "more": state})


def test_h25_lists_of_files_are_compared_with_the_decision() -> None:
    lists = {"sources/0": "a1", "sources/1": "b2"}
    newest = replace(NEWEST, source_lists=lists)
    compare(newest=newest, spark=replace(SPARK, source_lists={4: lists, 5: {**lists, "sources/0": "c3"}}))
    for found in ({**lists, "sources/1": "c3"}, {**lists, "sources/1": ""}, {"sources/0": "a1"}):
        with pytest.raises(IdentityError, match="list of files in sources/1 is not what checkpoint 4 was decided with"):
            compare(newest=newest, spark=replace(SPARK, source_lists={4: found}))


def test_lists_of_files_that_one_side_lacks_are_not_compared() -> None:
    """A checkpoint that was copied from a store to a local disk, or the reverse."""
    compare(newest=replace(NEWEST, source_lists={"sources/0": "a1"}))
    compare(spark=replace(SPARK, source_lists={4: {"sources/0": "a1"}}))
