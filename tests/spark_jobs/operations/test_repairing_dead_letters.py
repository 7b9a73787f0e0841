"""`eos repair` beside dead letters: which can be found again, as far as that is known before anything changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from connectors.spec import load_spec
from eos.errors import ConnectorError, IdentityError, ReplayMismatchError
from spark_jobs.operations import repair
from spark_jobs.operations.repair import Rerun
from tests.spark_jobs.cli.test_status import INCARNATION, SPEC, record
from twophase.head_value import HeadValue
from twophase.ids import TransactionId, sink_key
from twophase.messages import Acknowledged, Failed
from twophase.repair import Loss
from twophase.status import Status
from twophase.values import CheckpointRecord, Committable

_WITH_LETTERS = SPEC + "dead_letter: {connector: sqlite, path: y.db, table: l, commit: write-ahead-log}\n"


def _committable(of: CheckpointRecord, sink: str, task: int, rows: int, refused: int = 0) -> Committable:
    return Committable(TransactionId(of.scope, sink_key(sink), task, 1), rows, refused=refused)


def _decided(refused: tuple[int, int]) -> CheckpointRecord:
    """By two tasks, of whose rows so many were refused (all of them, if five), and three of letters, one without."""
    made = record(5)
    rows = tuple(_committable(made, "out", task, 45 * (each != 5), each) for task, each in enumerate(refused))
    letters = tuple(_committable(made, "dead_letter", task, task < 4) for task in (2, 3, 4))
    return replace(made, committables={"out": rows, "dead_letter": letters})


def _rerun(folder: Path, made: CheckpointRecord, *, sinks: tuple[str, ...] = ("out", "dead_letter")) -> Rerun:
    path = folder / "orders.yaml"
    path.write_text(_WITH_LETTERS)
    initial: Mapping[str, Any] = {"another": {}}  # so that a check goes no further than to the sources' names
    head = HeadValue("orders", INCARNATION, 3, ("n",), completed=5, committed=4, initial=initial, sinks=sinks)
    return Rerun(load_spec(path, {}), cast(Any, None), Status(head, (made,)))


@pytest.mark.parametrize(
    ("refused", "rows", "letters", "said"),
    [
        ((0, 0), (), (0,), ""),
        ((0, 0), (0,), (0, 1), ""),
        ((0, 3), (0,), (), ""),  # the dead letters are there: what is refused again must be what they hold
        ((0, 3), (1,), (), ""),
        ((0, 3), (1,), (0, 1), ""),
        ((0, 3), (0,), (0, 1), "sink out refused 3 rows of checkpoint 5 in task 1, of which dead letters are lost"),
        ((0, 3), (), (1,), "sink out refused 3 rows of checkpoint 5 in task 1, of which dead letters are lost"),
        ((0, 5), (0,), (0, 1), ""),  # of that task nothing was written: it refused whatever it got
        ((0, 5), (), (0, 1), ""),
        ((0, 5), (0,), (1,), "some of the dead letters of checkpoint 5 are lost and others are not"),
        ((0, 3), (0, 1), (1,), "some of the dead letters of checkpoint 5 are lost and others are not"),
    ],
)
def test_dead_letters_of_refused_rows_are_found_where_their_rows_are_lost_too(
    tmp_path: Path, refused: tuple[int, int], rows: tuple[int, ...], letters: tuple[int, ...], said: str
) -> None:
    made = _decided(refused)
    gone = {
        "out": tuple(made.committables["out"][each] for each in rows),
        "dead_letter": tuple(made.committables["dead_letter"][each] for each in letters),
    }
    lost = {sink: group for sink, group in gone.items() if group}
    rerun = _rerun(tmp_path, made)
    with pytest.raises(ConnectorError) as caught:
        rerun.check(Loss(made, lost))
    if not said:
        assert "head holds the positions of another" in caught.value.message
        return
    assert isinstance(caught.value, ReplayMismatchError)
    assert said in caught.value.message
    assert "eos reset --abandon-lost" in caught.value.remedy
    answer = rerun(made.scope, made, lost)  # what is lost is asked once more, after the claim
    assert isinstance(answer, Failed)
    assert answer.error.message == caught.value.message


def test_a_dead_letter_that_the_pipeline_never_had_is_left_out_for_the_repair(tmp_path: Path) -> None:
    made = record(5)
    with pytest.raises(IdentityError, match="sink dead_letter is new to this pipeline") as caught:
        _rerun(tmp_path, made, sinks=("out",)).check(Loss(made, dict(made.committables)))
    assert "leave it out for the repair" in caught.value.remedy


@pytest.mark.parametrize("had", [True, False])
def test_rows_are_shared_out_as_they_were_before_a_dead_letter_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, had: bool
) -> None:
    """A checkpoint of before has none of it, whatever the pipeline has now: else its rows were in other tasks."""
    given: list[Any] = []

    class _EnoughError(OSError):
        pass

    def build(*arguments: Any, **_: Any) -> Any:
        given.extend(arguments)
        raise _EnoughError

    monkeypatch.setattr(repair, "build", build)
    made = _decided((0, 0)) if had else record(5)
    rerun = _rerun(tmp_path, made)
    rerun.history = replace(rerun.history, head=replace(rerun.history.head, initial={"s": {}}, identities={"s": {}}))
    answer = rerun(made.scope, made, {"out": made.committables["out"]})
    assert not isinstance(answer, Acknowledged)
    assert (given[-1].name if given[-1] is not None else None) == ("dead_letter" if had else None)
