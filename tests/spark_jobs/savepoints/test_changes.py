"""What a spec has changed since a savepoint was taken, and how Spark's folder is written for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eos.errors import IdentityError
from spark_jobs.operations import spark_rewriting
from spark_jobs.operations.repeated_records import repeated
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.changes import check_in_place, compare
from spark_jobs.savepoints.plan import Operator, Plan
from spark_jobs.savepoints.take import take
from tests import savepoint_files as files
from twophase.head_value import HeadValue, Origin
from twophase.status import Status
from twophase.values import CheckpointRecord, SinkState

ONCE, TWICE = Operator("once", "Deduplicate", "bigint"), Operator("twice", "Deduplicate", "string")
JOIN = Operator("paired", "Join", "INNER")
THEN = Plan(("orders", "users"), (TWICE, ONCE), {"sources": {"orders": {"topics": "a"}, "users": {"topics": "b"}}})


def plan(*operators: Operator, sources: tuple[str, ...] = THEN.sources) -> Plan:
    return Plan(sources, operators, {"sources": {name: {"topics": "a"} for name in sources}})


@pytest.mark.parametrize(
    ("now", "operators", "not_restored"),
    [
        (plan(TWICE, ONCE), {0: 0, 1: 1}, ()),
        (plan(ONCE, TWICE), {0: 1, 1: 0}, ()),
        (plan(ONCE), {0: 1}, ("state of twice (Deduplicate)",)),
        (plan(), {}, ("state of twice (Deduplicate)", "state of once (Deduplicate)")),
        (plan(TWICE, ONCE, JOIN), None, ("state of twice (Deduplicate)", "state of once (Deduplicate)")),
        (plan(TWICE, ONCE, sources=("users",)), {0: 0, 1: 1}, ("positions of source orders",)),
    ],
)
def test_state_and_positions_are_found_by_their_names(
    now: Plan, operators: dict[int, int] | None, not_restored: tuple[str, ...]
) -> None:
    changes = compare(THEN, now, kept=2)
    assert (changes.operators, changes.not_restored) == (operators, not_restored)


@pytest.mark.parametrize("now", [plan(ONCE, TWICE), plan(JOIN, TWICE, ONCE), plan(ONCE)])
def test_without_a_savepoint_steps_with_state_keep_their_places(now: Plan) -> None:
    """Spark knows them by their places alone, and gives each the state that it finds there."""
    with pytest.raises(
        IdentityError, match=r"steps that keep state stand in another order than before: .*once"
    ) as caught:
        check_in_place(THEN, now)
    assert "eos savepoint" in caught.value.remedy


@pytest.mark.parametrize("then", [THEN, None])
def test_a_step_that_is_renamed_or_changed_where_it_stands_is_left_to_spark(then: Plan | None) -> None:
    check_in_place(then, plan(TWICE, ONCE, sources=("users", "clients")))
    check_in_place(then, plan(TWICE, Operator("uniq", "Deduplicate", "int")))
    check_in_place(then, plan())


@pytest.mark.parametrize(
    ("sources", "found"),
    [(("orders", "users", "more"), "source more is added"), (("users",), "source orders is missing")],
)
def test_without_a_savepoint_sources_keep_their_number(sources: tuple[str, ...], found: str) -> None:
    """Spark has their positions in a list, and refuses one of another length."""
    with pytest.raises(IdentityError, match=f"reads other sources than before: {found}") as caught:
        check_in_place(THEN, plan(TWICE, ONCE, sources=sources))
    assert "eos savepoint" in caught.value.remedy
    check_in_place(None, plan(TWICE, ONCE, sources=sources))


def test_state_of_another_type_is_other_state() -> None:
    other = Operator("once", "Deduplicate", "int")
    changes = compare(THEN, plan(TWICE, other), kept=2)
    assert changes.operators is None
    assert "state of once (Deduplicate): added (int)" in [str(each) for each in changes.changes]


def test_without_state_before_nothing_is_left_behind() -> None:
    changes = compare(plan(), plan(ONCE), kept=0)
    assert (changes.operators, changes.not_restored) == (None, ())


def test_two_operators_of_one_step_keep_their_order() -> None:
    changes = compare(plan(ONCE, ONCE, TWICE), plan(TWICE, ONCE, ONCE), kept=3)
    assert changes.operators == {0: 2, 1: 0, 2: 1}


def test_what_is_said_of_each_change() -> None:
    now = Plan(("orders",), (TWICE, ONCE), {"sources": {"orders": {"topics": "c"}}, "sinks": {"out": {}}})
    told = [str(each) for each in compare(THEN, now, kept=2).changes]
    assert told == ["source users: dropped", "source orders: changed (topics: a -> c)", "sink out: added"]


def test_a_savepoint_without_names_is_taken_over_whole_or_not() -> None:
    assert compare(None, plan(ONCE, TWICE), kept=2).operators == {0: 0, 1: 1}
    refused = compare(None, plan(ONCE), kept=2)
    assert (refused.operators, len(refused.not_restored)) == (None, 1)


def test_sources_stand_where_the_new_query_has_them() -> None:
    lines = [json.dumps({"source": name, "ends": {f"{name}/0": 7}}) for name in ("orders", "users")]
    content = "\n".join(["v1", "{}", *lines])
    assert spark_rewriting.offsets(content, ["orders", "users"]) == content
    moved = spark_rewriting.offsets(content, ["users", "new", "orders"])
    assert moved.split("\n")[2:] == [lines[1], "-", lines[0]]


def test_state_lies_under_its_new_number(tmp_path: Path) -> None:
    folder = files.run_until(tmp_path / "state")
    schema = f'file:{folder}/of "quotes"/state/0/_stateSchema/default/0_x'
    told = {
        "operatorInfo": {"operatorId": 0, "operatorName": "x"},
        "stateStoreInfo": [{"stateSchemaFilePaths": [schema]}],
    }
    (folder / "state/0/_metadata/metadata").write_text("v2\n" + json.dumps(told))
    taken = take(files.spec_in(tmp_path))
    target = tmp_path / "new"
    target.mkdir()
    spark_rewriting.write(taken.folder, taken.manifest, target, ["s"], {3: 0})
    assert [path.name for path in (target / "state").iterdir()] == ["3"]
    commit = (target / "commits" / "5").read_text()
    assert json.loads(commit.partition("\n")[2]) == {"stateUniqueIds": {"3": files.IDS["0"]}}
    moved = json.loads((target / "state/3/_metadata/metadata").read_text().partition("\n")[2])
    assert moved["operatorInfo"]["operatorId"] == 3
    assert moved["stateStoreInfo"][0]["stateSchemaFilePaths"] == [f"file:{target}/state/3/_stateSchema/default/0_x"]
    assert (target / "state/3/1/SSTs/6.sst").read_bytes() == (folder / "state/0/1/SSTs/6.sst").read_bytes()
    dropped = tmp_path / "dropped"
    dropped.mkdir()
    spark_rewriting.write(taken.folder, taken.manifest, dropped, ["s"], {})
    assert not (dropped / "state").exists()
    assert manifests.damage(taken.folder, taken.manifest) == []


AT = HeadValue("p", "i" * 20, 1, (), completed=4, committed=4, initial={"s": {"t/0": 0}}, positions={"s": {"t/0": 50}})
NOW = HeadValue(
    "p",
    "i" * 20,
    2,
    (),
    completed=6,
    committed=6,
    initial={"s": {"t/0": 0, "t/1": 10}},
    positions={"s": {"t/0": 70, "t/1": 15}},
)


def status(head: HeadValue) -> Status:
    checkpoints: tuple[CheckpointRecord, ...] = ()
    return Status(head, checkpoints)


def test_what_comes_twice_is_what_was_read_since() -> None:
    found = repeated(AT, "id", status(NOW), {}, {"s": None})
    assert [(each.split, each.start, each.end) for each in found.splits] == [("t/0", 50, 70), ("t/1", 10, 15)]
    assert (found.records, found.other_life) == (25, False)
    assert not repeated(AT, "id", status(AT), {}, {"s": None}).any
    assert not repeated(AT, "id", status(NOW), {}, {"other": None}).any, "a source that is not read any more"


def test_of_another_life_only_what_that_one_has_read() -> None:
    other = HeadValue("p", "k" * 20, 2, (), completed=1, initial={"s": {"t/0": 60}}, positions={"s": {"t/0": 70}})
    found = repeated(AT, "id", status(other), {}, {"s": None})
    assert ([(each.start, each.end) for each in found.splits], found.other_life) == ([(60, 70)], True)
    reset = repeated(AT, "id", status(HeadValue("p", "k" * 20, 2, ())), {}, {"s": None})
    assert (reset.any, reset.splits) == (True, ()), "it has read nothing, and nobody knows what the first life has"
    assert "are not known any more" in str(reset)
    born = HeadValue("p", "k" * 20, 2, (), completed=4, positions=AT.positions, origin=Origin("id", 4, None))
    assert repeated(AT, "id", status(born), {}, {"s": None}).other_life is False


def test_without_a_head_the_sinks_tell_how_far_they_are() -> None:
    sinks = {"a": SinkState("i" * 20, 1, 4), "b": SinkState("i" * 20, 1, 6), "c": SinkState("k" * 20, 1, 9)}
    found = repeated(AT, "id", None, sinks, {"s": None})
    assert (dict(found.beyond), found.any, found.other_life) == ({"b": 6}, True, True)
    del sinks["b"]
    assert repeated(AT, "id", None, sinks, {"s": None}).any, "another life has come after it: c is of that one"
    del sinks["c"]
    assert not repeated(AT, "id", None, sinks, {"s": None}).any
