"""Head or a sink that was set back over the begin of the savepoint's incarnation: the rows in between are gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eos.errors import IdentityError
from spark_jobs.operations.set_back_since import check_not_set_back
from twophase.head_value import HeadValue, Origin
from twophase.values import SinkState

ONE, TWO = "1" * 20, "2" * 20
BEFORE = HeadValue("p", ONE, 4, ("a",), completed=5, committed=5, sinks=("out",))
AT = HeadValue("p", TWO, 9, ("b",), completed=10, committed=10, sinks=("out",), origin=Origin("first", 5, ONE))
"""Head of a savepoint whose incarnation began from another savepoint, which ended the one of BEFORE."""
SINK = SinkState(claim_incarnation=ONE, claim_epoch=4, highest_witness=5, counted=5)


def test_a_head_of_the_incarnation_before_is_refused() -> None:
    with pytest.raises(IdentityError, match="head of pipeline p was set back to an earlier incarnation, and the save"):
        check_not_set_back(AT, None, BEFORE, {"out": SINK})


def test_without_a_head_a_sink_of_the_incarnation_before_is_refused() -> None:
    with pytest.raises(IdentityError, match="sink out was set back to an earlier incarnation, and the savepoint"):
        check_not_set_back(AT, None, None, {"out": SINK})


@pytest.mark.parametrize("head", [None, replace(BEFORE, incarnation="3" * 20)], ids=["no head", "a later one"])
def test_what_went_on_since_is_not_set_back(head: HeadValue | None) -> None:
    check_not_set_back(AT, None, head, {"out": replace(SINK, claim_incarnation="3" * 20)})


def test_a_sink_that_the_savepoint_does_not_name_may_be_of_any_incarnation() -> None:
    check_not_set_back(AT, None, None, {"out": replace(SINK, claim_incarnation=TWO), "again": SINK})
