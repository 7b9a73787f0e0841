"""What a spec has changed since a savepoint was taken, and how Spark's folder is written for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eos.errors import IdentityError
from spark_jobs.operations import spark_rewriting
from spark_jobs.operations.repeated_records import repeated, repeated_by_job
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.changes import Changes, check_in_place, compare
from spark_jobs.savepoints.plan import Operator, Plan
from spark_jobs.savepoints.take import take
from tests import savepoint_files as files
from tests.savepoint_files import folder_of
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
        (plan(TWICE, ONCE, JOIN), {0: 0, 1: 1}, ()),
        (plan(JOIN, ONCE), {1: 1}, ("state of twice (Deduplicate)",)),
        (plan(JOIN), None, ("state of twice (Deduplicate)", "state of once (Deduplicate)")),
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


def test_without_a_savepoint_bytes_of_values_keep_their_types() -> None:
    """Spark compares the columns of the state, where these are BINARY, or hashes, as before."""
    before = plan(Operator("sums", "Aggregate", "int: collect_list(int), sum(int)"))
    check_in_place(before, plan(Operator("sums", "Aggregate", "int: collect_list(int), sum(bigint)")))
    check_in_place(before, plan(Operator("others", "Aggregate", "int: collect_list(bigint), sum(int)")))
    with pytest.raises(IdentityError, match=r"sums \(Aggregate\) holds bytes of other types: int: collect_list\(int\)"):
        check_in_place(before, plan(Operator("sums", "Aggregate", "int: collect_list(bigint), sum(int)")))


def test_a_step_that_is_added_begins_empty_and_the_others_keep_their_state() -> None:
    changes = compare(THEN, plan(JOIN, ONCE, TWICE), kept=2)
    assert (changes.operators, changes.empty, changes.widened) == ({1: 1, 2: 0}, (0,), ())
    assert not changes.keeps_numbers
    assert state_lines(changes) == [
        "state of paired (Join): begins empty (INNER)",
        "state of once (Deduplicate): kept",
        "state of twice (Deduplicate): kept",
    ]


def test_where_all_state_is_other_state_spark_begins_with_batch_0() -> None:
    changes = compare(THEN, plan(JOIN), kept=2)
    assert (changes.operators, changes.empty) == (None, ())
    assert not changes.keeps_numbers


@pytest.mark.parametrize(
    ("then", "now", "is_wider"),
    [
        ("int: sum(int), count(int)", "bigint: sum(bigint), count(int)", True),
        ("tinyint, string", "smallint, string", True),
        ("bigint: max(int)", "int: max(bigint)", False),
        ("int: max(int)", "bigint: min(bigint)", False),
        ("int", "bigint, string", False),
        ("int", "string", False),
        ("float", "double", False),
        ("string: approx_count_distinct(int)", "string: approx_count_distinct(bigint)", False),
        ("string: collect_list(int), sum(int)", "string: collect_list(bigint), sum(bigint)", False),
        ("decimal(10,2): collect_set(int), max(int)", "decimal(10,2): collect_set(int), max(bigint)", True),
        ("string: percentile(int, double, bigint)", "string: percentile(bigint, double, bigint)", False),
    ],
)
def test_integers_that_become_wider_keep_their_state(then: str, now: str, is_wider: bool) -> None:
    before, after = Operator("sums", "Aggregate", then), Operator("sums", "Aggregate", now)
    changes = compare(plan(ONCE, before), plan(after, ONCE), kept=2)
    if is_wider:
        assert (changes.operators, changes.widened, changes.empty) == ({0: 1, 1: 0}, (0,), ())
        assert (changes.not_restored, changes.keeps_numbers) == ((), False)
        assert f"state of sums (Aggregate): widened ({then} -> {now})" in state_lines(changes)
    else:
        assert (changes.operators, changes.widened, changes.empty) == ({1: 0}, (), (0,))
        assert changes.not_restored == (f"state of sums (Aggregate), whose types have changed ({then} -> {now})",)
        assert f"state of sums (Aggregate): dropped ({then} -> {now})" in state_lines(changes)


def test_state_that_only_becomes_wider_where_it_is_cannot_be_gone_on_with_as_it_is() -> None:
    wide = Operator("once", "Deduplicate", "bigint")
    changes = compare(plan(Operator("once", "Deduplicate", "int")), plan(wide), kept=1)
    assert (changes.operators, changes.widened, changes.keeps_numbers) == ({0: 0}, (0,), False)


def test_state_that_cannot_be_rewritten_is_named_with_the_reason_and_begins_empty() -> None:
    narrow, wide = Operator("once", "Deduplicate", "int"), ONCE
    changes = compare(plan(TWICE, narrow), plan(wide, TWICE), kept=2, refused={0: "a reason"})
    assert (changes.operators, changes.widened, changes.empty) == ({1: 0}, (), (0,))
    assert changes.not_restored == ("state of once (Deduplicate), whose types have changed (int -> bigint: a reason)",)


@pytest.mark.parametrize("kind", ["Join", "TransformWithState", "GlobalLimit"])
def test_other_kinds_are_not_rewritten(kind: str) -> None:
    changes = compare(plan(ONCE, Operator("x", kind, "int")), plan(ONCE, Operator("x", kind, "bigint")), kept=2)
    assert (changes.operators, changes.widened, changes.empty) == ({0: 0}, (), (1,))


def test_of_two_operators_of_one_step_each_becomes_wider_once() -> None:
    narrow, wide = Operator("sums", "Aggregate", "int"), Operator("sums", "Aggregate", "bigint")
    changes = compare(plan(narrow, narrow, ONCE), plan(wide, ONCE, wide), kept=3)
    assert (changes.operators, changes.widened, changes.empty) == ({0: 0, 1: 2, 2: 1}, (0, 2), ())


@pytest.mark.parametrize(
    ("then", "now", "kept"),
    [
        (("int", "bigint"), ("bigint", "bigint"), ()),  # the wider one could get the state of the other one
        (("int", "bigint"), ("bigint",), ()),
        (("tinyint", "smallint"), ("int", "int"), ()),
        (("tinyint",), ("smallint", "int"), ()),
        (("int",), ("bigint", "bigint"), ()),
        (("int", "int"), ("int",), ()),
        (("int",), ("int", "int"), ()),
        (("int",), ("int", "bigint"), ("int",)),
        (("int", "string"), ("string", "bigint"), ("string", "bigint")),
    ],
)
def test_no_operator_gets_the_state_of_another_one_of_its_kind_in_the_step(
    then: tuple[str, ...], now: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    before, after = (plan(*(Operator("sums", "Aggregate", each) for each in states)) for states in (then, now))
    changes = compare(before, after, kept=len(then))
    assert tuple(now[number] for number in changes.operators or ()) == kept
    assert len(changes.not_restored) == len(then) - len(kept)
    for each in changes.not_restored:
        assert each == "state of sums (Aggregate): the step has several of this kind, and now others"


def state_lines(changes: Changes) -> list[str]:
    return [str(each) for each in changes.changes if each.kind == "state"]


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
    without_state = compare(None, plan(ONCE), kept=0)
    assert (without_state.operators, len(without_state.not_restored)) == (None, 1)


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
    spark_rewriting.write(folder_of(taken), taken.manifest, target, ["s"], {3: 0})
    assert [path.name for path in (target / "state").iterdir()] == ["3"]
    commit = (target / "commits" / "5").read_text()
    assert json.loads(commit.partition("\n")[2]) == {"stateUniqueIds": {"3": files.IDS["0"]}}
    moved = json.loads((target / "state/3/_metadata/metadata").read_text().partition("\n")[2])
    assert moved["operatorInfo"]["operatorId"] == 3
    assert moved["stateStoreInfo"][0]["stateSchemaFilePaths"] == [f"file:{target}/state/3/_stateSchema/default/0_x"]
    assert (target / "state/3/1/SSTs/6.sst").read_bytes() == (folder / "state/0/1/SSTs/6.sst").read_bytes()
    dropped = tmp_path / "dropped"
    dropped.mkdir()
    spark_rewriting.write(folder_of(taken), taken.manifest, dropped, ["s"], {})
    assert not (dropped / "state").exists()
    assert manifests.damage(folder_of(taken), taken.manifest) == []


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


def test_state_that_begins_empty_lies_beside_state_that_is_kept(tmp_path: Path) -> None:
    """Of the trial, whose state is version 1; only of the operator that is new, and with the version of the rest."""
    files.run_until(tmp_path / "state")
    taken = take(files.spec_in(tmp_path))
    trial = tmp_path / "trial"
    unique = "00000000-0000-0000-0000-00000000aaaa"
    files.put(trial / "metadata", '{"id":"query"}')
    files.put(trial / "offsets" / "0", files.offsets(0))
    files.put(trial / "commits" / "0", "v2\n" + json.dumps({"stateUniqueIds": {"0": [[unique]], "1": [[unique]]}}))
    for number in (0, 1):
        described = {"operatorInfo": {"operatorId": number, "operatorName": "y"}}
        files.put(trial / f"state/{number}/_metadata/metadata", "v1\n" + json.dumps(described))
        files.put(trial / f"state/{number}/0/_metadata/schema", "columns of the trial")
        files.snapshot(trial / f"state/{number}/0", f"1_{unique}", ["1.sst"])
    target = tmp_path / "new"
    target.mkdir()
    empty = spark_rewriting.EmptyState(trial, (1,))
    spark_rewriting.write(folder_of(taken), taken.manifest, target, ["s"], {0: 0}, empty)
    commit = json.loads((target / "commits" / "5").read_text().partition("\n")[2])
    assert commit == {"stateUniqueIds": {"0": files.IDS["0"], "1": [[unique]]}}
    written = sorted(path.relative_to(target / "state/1").as_posix() for path in (target / "state/1").rglob("*.*"))
    assert written == [f"0/6_{unique}.zip", "0/SSTs/1.sst"]
    assert (target / "state/1/_metadata/metadata").exists()
    assert not (target / "state/1/0/_metadata").exists(), "Spark writes the columns that the query needs"
    assert not (target / f"state/0/0/6_{unique}.zip").exists()


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


def test_sinks_that_are_beyond_a_head_that_was_set_back_are_named() -> None:
    sinks = {"a": SinkState("i" * 20, 1, 4), "b": SinkState("i" * 20, 1, 6), "c": SinkState("k" * 20, 1, 9)}
    for found in (repeated(AT, "id", status(AT), sinks, {"s": None}), repeated_by_job(AT, "id", status(AT), sinks)):
        assert (dict(found.beyond), found.any, found.other_life) == ({"b": 6}, True, False)
