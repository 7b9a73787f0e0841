"""The lists of files of Spark's file sources, compared with the running batch and with each other (H25)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from eos.errors import IdentityError, PlanOverwrittenError
from spark_jobs.query.source_lists import BatchFiles, SourceLists, entries_of, path_text

_PLAN = 'v1\n{"conf":{}}\n{"kafka":{"0":5}}\n{"logOffset":%d}'
"""A plan of a topic, and of the file source under test."""


@dataclass
class _Store:
    """A checkpoint in memory. `put` writes a list."""

    url: str = "mem:/job"
    content: dict[str, bytes] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        if path not in self.content:
            raise FileNotFoundError(path)
        return self.content[path]

    def names(self, path: str) -> list[str]:
        return [name.removeprefix(f"{path}/") for name in self.content if name.startswith(f"{path}/")]

    def put(self, *lists: tuple[int, str], name: str = "") -> None:
        """Write the list of the last number, with a line for each number and file."""
        lines = [json.dumps({"path": f"mem:///in/{file}", "timestamp": 7, "batchId": n}) for n, file in lists]
        self.content[f"sources/1/{name or lists[-1][0]}"] = "\n".join(["v1", *lines]).encode()


@dataclass
class _Query:
    """A run of a query. Its batch reads `files` after list `after`."""

    store: _Store
    files: Sequence[str] = ()
    after: int = -1
    lists: SourceLists = field(init=False)

    def __post_init__(self) -> None:
        self.lists = SourceLists(self.store, ["", "sources/1"], self._held)

    def _held(self) -> Mapping[str, BatchFiles]:
        paths = [f"mem:/in/{file}" for file in self.files]
        return {"sources/1": BatchFiles(self.after, paths)} if paths else {}

    def decide(self, last: int, *files: str) -> str:
        """Return the digest that the decision of the next batch gets."""
        self.files = files
        found = self.lists.check(_PLAN % last)["sources/1"]
        self.after = last
        return found

    def start(self, last: int) -> str:
        return self.lists.digests({5: _PLAN % last})[5]["sources/1"]


@pytest.fixture
def store() -> _Store:
    """Lists of twelve files, one in each, as Spark has written them: each is there, and the tenth is compact."""
    store = _Store()
    for number in range(9):
        store.put((number, f"f{number}"))
    store.put(*((number, f"f{number}") for number in range(10)), name="9.compact")
    store.put((10, "f10"))
    store.put((11, "f11"))
    return store


def _decided(store: _Store) -> list[str]:
    query = _Query(store)
    return [query.decide(number, f"f{number}") for number in range(12)]


def test_a_start_finds_the_digests_of_the_decisions(store: _Store) -> None:
    decided = _decided(store)
    assert len(set(decided)) == 12
    assert [_Query(store).start(number) for number in range(12)] == decided


def test_a_digest_is_the_same_in_each_version(store: _Store) -> None:
    """Records have it, so another version has to compute the same."""
    assert _Query(store).start(1) == "5c56c48dc509f30c4f91f33d3f1e8ffa85218907de3bb2146298e78bef733e58"


def test_lists_that_spark_has_deleted_are_in_the_compact_one(store: _Store) -> None:
    decided = _decided(store)
    for number in range(9):
        del store.content[f"sources/1/{number}"]
    query = _Query(store)
    assert [query.start(number) for number in (10, 11)] == decided[10:]
    assert _Query(store, after=8).decide(9, "f9") == decided[9]


def test_a_batch_reads_the_newest_list_only(store: _Store) -> None:
    query = _Query(store)
    for number in range(11):
        query.decide(number, f"f{number}")
    store.reads.clear()
    query.decide(11, "f11")
    assert store.reads == ["sources/1/11"]


@pytest.mark.parametrize("number", [3, 9, 10])
def test_h25_a_batch_that_reads_other_files_than_its_list_is_not_decided(store: _Store, number: int) -> None:
    query = _Query(store)
    for before in range(number):
        query.decide(before, f"f{before}")
    with pytest.raises(PlanOverwrittenError, match=rf"own list of files over Spark's mem:/job/sources/1/{number}\n"):
        query.decide(number, "other")
    with pytest.raises(PlanOverwrittenError):
        query.decide(number, f"f{number}", "more")


def test_two_lists_of_one_batch_are_compared_as_one(store: _Store) -> None:
    """A driver that died between a list and its plan: the next batch has two lists."""
    decided = _decided(store)
    query = _Query(store)
    query.start(1)
    query.after = 1
    assert query.decide(3, "f3", "f2") == decided[3]


@pytest.mark.parametrize(("before", "last"), [(0, 4), (0, 11), (8, 11)])
def test_a_plan_with_many_lists(store: _Store, before: int, last: int) -> None:
    """Drivers that died between a list and its plan, one after the other: as if a second source does not answer."""
    decided = _decided(store)
    query = _Query(store, after=before)
    found = query.lists.digests({4: _PLAN % before, 5: _PLAN % last})
    assert [found[number]["sources/1"] for number in (4, 5)] == [decided[before], decided[last]]
    assert query.decide(last, *(f"f{number}" for number in range(before + 1, last + 1))) == decided[last]


def test_a_plan_with_lists_that_spark_has_deleted(store: _Store) -> None:
    """They are in the compact one. So is the list on which the plan before rests, which is decided."""
    decided = _decided(store)
    for number in range(9):
        del store.content[f"sources/1/{number}"]
    query = _Query(store, after=5)
    found = query.lists.digests({4: _PLAN % 5, 5: _PLAN % 11})
    assert [found[number]["sources/1"] for number in (4, 5)] == [decided[5], decided[11]]
    assert query.decide(11, *(f"f{number}" for number in range(6, 12))) == decided[11]


def test_a_batch_without_new_files(store: _Store) -> None:
    query = _Query(store)
    decided = query.decide(0, "f0")
    assert query.decide(0) == decided
    assert query.lists.check('v1\n{"conf":{}}\n{"kafka":{"0":5}}\n-') == {}
    store.put((0, "other"))
    with pytest.raises(PlanOverwrittenError, match="sources/1/0"):
        query.decide(0)


@pytest.mark.parametrize(("number", "last"), [(11, 11), (10, 11), (5, 8)])
def test_h25_a_list_that_is_written_over_after_its_decision_has_another_digest(
    store: _Store, number: int, last: int
) -> None:
    decided = _decided(store)
    store.put((number, "other"))
    assert _Query(store).start(last) != decided[last]
    store.put((number, f"f{number}"))
    assert _Query(store).start(last) == decided[last]


def test_h25_a_list_that_was_written_over_is_found_in_the_next_compact_one(store: _Store) -> None:
    query = _Query(store)
    for number in range(9):
        query.decide(number, f"f{number}")
    store.put(*((number, "other" if number == 8 else f"f{number}") for number in range(10)), name="9.compact")
    with pytest.raises(PlanOverwrittenError, match="sources/1/8"):
        query.decide(9, "f9")


def test_h25_two_lists_with_one_file_are_refused(store: _Store) -> None:
    """Spark itself would read it twice after a restart, and its memory would agree with the lists."""
    store.put((1, "f0"))
    with pytest.raises(IdentityError, match="lists 0 and 1 in mem:/job/sources/1 both name mem:///in/f0"):
        _Query(store).lists.digests({0: _PLAN % 0, 1: _PLAN % 1})


def test_h25_a_list_that_was_written_over_while_a_run_begins(store: _Store) -> None:
    """Spark has read list 2 with one file when its source began. The batch reads two, and Spark lists one once more."""
    query = _Query(store)
    query.start(1)
    query.after = 1
    store.put((2, "f2"), (2, "f4"))
    query.decide(2, "f2", "f4")
    query.decide(3, "f3")
    with pytest.raises(IdentityError, match="lists 2 and 4 in mem:/job/sources/1 both name mem:///in/f4"):
        query.decide(4, "f4")


def test_h25_two_lists_of_one_batch_with_one_file_are_refused(store: _Store) -> None:
    query = _Query(store)
    query.start(1)
    query.after = 1
    store.put((2, "f2"), (2, "f3"))
    with pytest.raises(IdentityError, match="lists 2 and 3 in mem:/job/sources/1 both name mem:///in/f3"):
        query.decide(3, "f2", "f3")


def test_a_missing_list_equals_no_decision(store: _Store) -> None:
    del store.content["sources/1/11"]
    assert _Query(store).start(11) == ""
    with pytest.raises(FileNotFoundError):
        _Query(store, after=10).decide(11, "f11")


_DEEP = "[" * 200_000
"""More than Python's reader of JSON follows."""


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"v1",
        b"v2\n{}",
        b"v1\n{}",
        b'v1\n{"path":"a","timestamp":1,"batchId":4}',
        b'v1\n{"path":"a","timestamp":Infinity,"batchId":3}',
        b'v1\n{"path":"a","timestamp":1,"batchId":NaN}',
        b'v1\n{"path":"a","timestamp":1,"batchId":"3"}',
        b'v1\n{"path":"a","timestamp":true,"batchId":3}',
        b'v1\n{"path":["a"],"timestamp":1,"batchId":3}',
        f"v1\n{_DEEP}".encode(),
    ],
    ids=lambda content: repr(content[:60]),
)
def test_damage_is_named(store: _Store, content: bytes) -> None:
    store.content["sources/1/3"] = content
    with pytest.raises(IdentityError, match="mem:/job/sources/1/3 is damaged"):
        _Query(store).start(3)


@pytest.mark.parametrize("content", ["", "v1"])
def test_a_plan_that_is_cut_off_has_no_lists(store: _Store, content: str) -> None:
    """A start compares it with the decision, and names it."""
    assert _Query(store).lists.digests({4: _PLAN % 3, 5: content})[5] == {}


def test_a_plan_with_another_source_in_its_place_is_refused(store: _Store) -> None:
    with pytest.raises(IdentityError, match="offset of a file source"):
        _Query(store).lists.digests({5: 'v1\n{"conf":{}}\n{"logOffset":1}\n{"kafka":{"0":5}}'})


def test_a_file_may_be_older_than_1970() -> None:
    content = b'v1\n{"path":"a","timestamp":-1,"batchId":3}'
    assert entries_of(content, range(3, 4), "place") == [("a", -1, 3)]


@pytest.mark.parametrize(
    "offset",
    ['{"logOffset":-1}', '{"logOffset":1e999}', '{"logOffset":true}', '{"logOffset":"1"}', '{"logOffset":1.5}', _DEEP],
    ids=lambda offset: offset[:20],
)
def test_an_offset_that_spark_does_not_write_is_refused(store: _Store, offset: str) -> None:
    with pytest.raises(IdentityError, match="offset of a file source") as found:
        _Query(store).lists.digests({5: f'v1\n{{"conf":{{}}}}\n{{"kafka":{{"0":5}}}}\n{offset}'})
    assert "`offsets`" in found.value.remedy


@pytest.mark.parametrize("plan", ["", "v1", 'v1\n{"conf":{}}', 'v2\n{"conf":{}}\n0:{"kafka":{}}\n1:{"logOffset":1}'])
def test_a_plan_that_cannot_be_read_is_for_the_comparison_of_plans(store: _Store, plan: str) -> None:
    assert _Query(store).lists.digests({5: plan}) == {5: {}}


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("file:///tmp/a%20b%25.json", "file:/tmp/a b%.json"),
        ("s3a://bucket/x/%C3%BC+1.json", "s3a://bucket/x/\u00fc+1.json"),
        ("hdfs://host:9000/x", "hdfs://host:9000/x"),
    ],
)
def test_paths_are_as_hadoop_prints_them(url: str, text: str) -> None:
    assert path_text(url) == text
