"""Segments in an object store: one put, whose answer may be lost."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="an object of the same size is taken for the one that was put",
        rule="H20",
        path="wal/upload.py",
        before="""            if found.seek(0, os.SEEK_END) == content.seek(0, os.SEEK_END) and is_equal(found, content):
""",
        after="""            if found.seek(0, os.SEEK_END) == content.seek(0, os.SEEK_END):
""",
        caught_by=("tests/wal/test_object.py::TestOnMoto::test_the_same_bytes_again_are_the_same_object",),
    ),
    Mutant(
        name="a put without an answer is taken for landed",
        rule="H20",
        path="wal/object.py",
        before="""            if not failure.retriable or not holds_in_doubt(self, name, content, failure):
""",
        after="""            if not failure.retriable:
""",
        caught_by=("tests/wal/test_object.py::TestOnMoto::test_a_store_that_is_away",),
    ),
    Mutant(
        name="a put without an answer is taken for failed",
        rule="H20",
        path="wal/object.py",
        before="""            if not failure.retriable or not holds_in_doubt(self, name, content, failure):
""",
        after="""            if failure:
""",
        caught_by=(
            "tests/wal/test_object.py::TestOnMoto::test_one_request_fails_and_the_segment_is_acknowledged_only_where_it_is",
        ),
    ),
    Mutant(
        name="an object is put over another one",
        rule="H8",
        path="wal/object.py",
        before='mode="create", use_multipart=False',
        after='mode="overwrite", use_multipart=False',
        caught_by=("tests/wal/test_object.py::TestOnMoto::test_the_same_bytes_again_are_the_same_object",),
    ),
    Mutant(
        name="an object that the client has sent twice is taken for another writer's",
        rule="H20",
        path="wal/object.py",
        before="""            if not holds(self, name, content):
                message = f"{place}: another""",
        after="""            if holds(self, name, content):
                message = f"{place}: another""",
        caught_by=("tests/wal/test_object.py::TestOnMoto::test_the_same_bytes_again_are_the_same_object",),
    ),
    Mutant(
        name="segments of a bucket that is gone are called lost",
        rule="R7",
        path="wal/object.py",
        before="""        self.names(name)  # that lists nothing: many may be missing at once
""",
        after="",
        caught_by=(
            "tests/wal/test_object.py::TestOnMoto::test_a_bucket_that_is_not_there_is_not_an_object_that_is_lost",
        ),
    ),
    Mutant(
        name="a listing takes objects of folders below it",
        rule="R5",
        path="wal/object.py",
        before="""            found = obstore.list_with_delimiter(self._store, start)
        except Failure as error:
            raise failed(f"list {self._place(start)}", error) from error
        paths = (each["path"] for each in found["objects"])
""",
        after="""            found = obstore.list(self._store, start).collect()
        except Failure as error:
            raise failed(f"list {self._place(start)}", error) from error
        paths = (each["path"] for each in found)
""",
        caught_by=("tests/wal/test_object.py::TestOnMoto::test_only_what_lies_flat_below_the_prefix_is_seen",),
    ),
    Mutant(
        name="an outage of an object store is a refusal",
        rule="R7",
        path="wal/refusals.py",
        before="(status < 500 or status == _NOT_BUILT)",
        after="(status <= 503 or status == _NOT_BUILT)",
        caught_by=("tests/wal/test_object.py::test_who_may_try_again",),
    ),
    Mutant(
        name="a refusal of an object store is tried again",
        rule="R7",
        path="wal/refusals.py",
        before="        refused = status not in _AGAIN and (status",
        after="        refused = status not in _AGAIN and status > 404 and (status",
        caught_by=(
            "tests/wal/test_object.py::TestOnMoto::test_a_bucket_that_is_not_there_is_not_an_object_that_is_lost",
        ),
    ),
    Mutant(
        name="an object may become larger than one request takes",
        rule="docs/reference/sinks.md",
        path="wal/upload.py",
        before="""        if self._left < 0:
""",
        after="""        if self._left < -len(data):
""",
        caught_by=("tests/wal/test_object.py::test_an_object_that_becomes_too_large_is_refused_while_it_is_written",),
    ),
    Mutant(
        name="an object that comes short is filled with zeros",
        rule="R5",
        path="wal/remote.py",
        before="""        if got != len(target):
""",
        after="""        if got > len(target):
""",
        caught_by=("tests/wal/test_object.py::test_an_object_that_comes_short_is_no_object_with_zeros",),
    ),
    Mutant(
        name="a swap is sent more than once",
        rule="H20",
        path="wal/small_objects.py",
        before="""                put = obstore.put(self._once, name, content, mode=mode""",
        after="""                put = obstore.put(self._store, name, content, mode=mode""",
        caught_by=("tests/twophase/test_object_head.py::TestOnMoto::test_a_swap_through_a_fault",),
    ),
    Mutant(
        name="a swap replaces another object than the expected one",
        rule="R1",
        path="wal/small_objects.py",
        before="""                mode: PutMode = "create" if expected is None else _update(expected)
""",
        after="""                mode: PutMode = "create" if expected is None else "overwrite"
""",
        caught_by=("tests/twophase/test_object_head.py::TestOnMoto::test_a_swap_that_arrives_late_changes_nothing",),
    ),
    Mutant(
        name="a swap that meets another request is taken for refused",
        rule="H2",
        path="wal/small_objects.py",
        before="""            if status_of(error) == _CONFLICT and (""",
        after="""            if status_of(error) is None and (""",
        caught_by=("tests/twophase/test_object_head.py::TestOnMoto::test_a_swap_through_a_fault",),
    ),
    Mutant(
        name="a record that meets another request is taken for one of another content",
        rule="R7",
        path="wal/small_objects.py",
        before="""            if found is None:  # deleted since""",
        after="""            if found is error:  # deleted since""",
        caught_by=("tests/twophase/test_object_head.py::TestOnMoto::test_a_record_through_a_fault",),
    ),
    Mutant(
        name="a swap without an answer is taken for one that has not landed",
        rule="H2",
        path="twophase/object_head.py",
        before="""            raise HeadUnknownError(error.message""",
        after="""            raise HeadError(error.message""",
        caught_by=("tests/twophase/test_object_head.py::TestOnMoto::test_a_swap_through_a_fault",),
    ),
    Mutant(
        name="a bucket that is gone is taken for a record that is missing",
        rule="R7",
        path="wal/small_objects.py",
        before="""        self.names("")  # raises where the bucket is not there
        return False
""",
        after="""        return False
""",
        caught_by=(
            "tests/twophase/test_object_head.py::TestOnMoto::test_a_bucket_that_is_not_there_is_not_an_empty_head",
        ),
    ),
)
