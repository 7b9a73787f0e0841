"""Head in an object store, with faults between the client and the store. Run on each kind of store.

A test module subclasses this. Its fixtures `bucket` and `wire` are of one store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from eos.errors import HeadAccessError, HeadError, HeadFormatError, HeadUnknownError
from tests.object_store import (
    LANDED,
    REFUSED,
    Behaviour,
    Bucket,
    Request,
    Wire,
    answer,
    cut,
    half_sent,
    late,
    lost_answer,
    lost_request,
    silent,
    slow,
    through,
    unavailable,
)
from twophase.head import Versioned
from twophase.object_head import ObjectHead
from wal import small_objects

Lay = Callable[..., Wire]

PREFIX = "eos/orders"
ONE, TWO = Versioned(1, b"one " * 50), Versioned(2, b"two " * 50)

slow_down = answer(503, "SlowDown", "Please reduce your request rate.")
throttled = answer(429, "TooManyRequests", "Please reduce your request rate.")
_conflicting = answer(409, "ConditionalRequestConflict", "A conflicting operation occurred during the upload.")


def conflict(wire: Wire, request: Request) -> bytes:
    """Not done: another put of this object is under way."""
    return _conflicting(wire, request) if request.method == "PUT" else wire.relay(request)


def conflict_landed(wire: Wire, request: Request) -> bytes:
    """Done, and answered as if it had not been: by a proxy that sends a request twice."""
    given = wire.relay(request)
    return _conflicting(wire, request) if request.method == "PUT" else given


def named(*behaviours: tuple[str, Behaviour]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fault", [pytest.param(each, id=name) for name, each in behaviours])


NOT_DONE = (("503", slow_down), ("429", throttled), ("409", conflict), ("cut", lost_request), ("half sent", half_sent))
DONE = (
    ("503 after it was done", unavailable),
    ("409 after it was done", conflict_landed),
    ("answer lost", lost_answer),
    ("answer cut", cut),
    ("answer slow", slow),
    ("never answered", silent),
)
OF_READS = (("503", slow_down), ("429", throttled), ("answer cut", cut), ("answer slow", slow), ("silent", silent))


@pytest.mark.usefixtures("hasty")
class ObjectHeadSuite:
    """The store behind `wire` is the one that `bucket` is of."""

    @pytest.fixture
    def direct(self, bucket: Bucket) -> ObjectHead:
        """Another driver, with nothing in between, and with patience."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(small_objects, "_REQUEST_S", 60.0)
            return ObjectHead(bucket.address(PREFIX))

    @named(*OF_READS)
    def test_a_read_through_a_fault(self, bucket: Bucket, wire: Lay, direct: ObjectHead, fault: Behaviour) -> None:
        """An error that may pass, never an empty or a shorter head; and the value once the fault is over."""
        assert direct.swap(None, ONE.value)
        direct.put_record("a.json", b"content " * 50)
        line = wire(fault)
        store = ObjectHead(bucket.address(PREFIX, line.port))
        others = (store.list_records, lambda: store.get_record("a.json"))
        for read in (store.read, *(others if fault not in (slow, silent) else ())):  # these take their time
            with pytest.raises(HeadError) as caught:
                read()
            assert type(caught.value) is HeadError
            assert caught.value.retriable
        assert "PUT" not in line.requests
        line.behaviours[:] = [fault, through]
        assert store.read() == ONE
        line.behaviours[:] = [fault, through]
        assert store.get_record("a.json") == b"content " * 50

    @pytest.mark.parametrize("is_first", [True, False])
    @named(*NOT_DONE, *DONE)
    def test_a_swap_through_a_fault(
        self, bucket: Bucket, wire: Lay, direct: ObjectHead, fault: Behaviour, is_first: bool
    ) -> None:
        """It is sent once, nobody knows whether it landed, and the next read says so."""
        before, wanted = (None, ONE) if is_first else (ONE, TWO)
        if before is not None:
            assert direct.swap(None, before.value)
        line = wire(through)
        store = ObjectHead(bucket.address(PREFIX, line.port))
        assert store.read() == before
        line.behaviours[:] = [fault, through]
        already_there = fault is conflict_landed and is_first
        if already_there:  # 409 is also Azure's answer where the object exists
            assert not store.swap(before, wanted.value)
        else:
            with pytest.raises(HeadUnknownError) as caught:
                store.swap(before, wanted.value)
            assert caught.value.retriable
        assert line.requests.count("PUT") == 1
        has_landed = fault in [each for _, each in DONE]
        assert direct.read() == (wanted if has_landed else before)
        assert store.read() == direct.read()
        assert store.swap(store.read(), b"next")
        assert direct.read() == Versioned((wanted.version if has_landed else wanted.version - 1) + 1, b"next")

    @named(*NOT_DONE, *DONE)
    def test_a_record_through_a_fault(self, bucket: Bucket, wire: Lay, direct: ObjectHead, fault: Behaviour) -> None:
        """It is put once more, by the client or by its caller, and meets what it has put itself."""
        line = wire(fault, through)
        store = ObjectHead(bucket.address(PREFIX, line.port))
        if fault in (conflict, slow, silent):  # the client repeats no put after a timeout
            words = "another request for this name was under way" if fault is conflict else "Timeout"
            with pytest.raises(HeadError, match=words) as caught:
                store.put_record("a.json", b"content")
            assert (type(caught.value), caught.value.retriable) == (HeadError, True)
        store.put_record("a.json", b"content")
        assert direct.get_record("a.json") == b"content"
        assert direct.list_records() == ["a.json"]
        with pytest.raises(HeadFormatError, match="exists with another content"):
            store.put_record("a.json", b"other")

    @named(*NOT_DONE, *DONE)
    def test_a_record_while_a_fault_lasts(
        self, bucket: Bucket, wire: Lay, direct: ObjectHead, fault: Behaviour
    ) -> None:
        """An error that may pass, and never one about the content. A read that gets an answer may settle it."""
        line = wire(fault)
        store = ObjectHead(bucket.address(PREFIX, line.port))
        if fault is conflict_landed:
            store.put_record("a.json", b"content")
        else:
            with pytest.raises(HeadError) as caught:
                store.put_record("a.json", b"content")
            assert (type(caught.value), caught.value.retriable) == (HeadError, True)
        line.behaviours[:] = [through]
        store.put_record("a.json", b"content")
        assert direct.get_record("a.json") == b"content"

    def test_a_conflict_over_a_record_of_another_content(self, bucket: Bucket, wire: Lay, direct: ObjectHead) -> None:
        direct.put_record("a.json", b"other")
        store = ObjectHead(bucket.address(PREFIX, wire(conflict, through).port))
        with pytest.raises(HeadFormatError, match=r"a\.json .* exists with another content"):
            store.put_record("a.json", b"content")

    def test_a_swap_without_its_record_is_not_sent(self, bucket: Bucket, wire: Lay, direct: ObjectHead) -> None:
        """Where the store does not answer whether the record is there, the swap has certainly not landed."""
        line = wire(slow_down)
        store = ObjectHead(bucket.address(PREFIX, line.port))
        with pytest.raises(HeadError) as caught:
            store.swap(None, ONE.value, ["a.json"])
        assert type(caught.value) is HeadError
        assert "PUT" not in line.requests
        assert direct.read() is None

    @pytest.mark.parametrize("is_first", [True, False])
    def test_a_swap_that_arrives_late_changes_nothing(
        self, bucket: Bucket, wire: Lay, direct: ObjectHead, is_first: bool
    ) -> None:
        """Its client has given up, and another driver has swapped since."""
        before = None if is_first else ONE
        if before is not None:
            assert direct.swap(None, before.value)
        line = wire(through)
        store = ObjectHead(bucket.address(PREFIX, line.port))
        assert store.read() == before
        line.behaviours[:] = [late, through]
        with pytest.raises(HeadUnknownError):
            store.swap(before, b"late")
        assert store.read() == before
        assert direct.swap(before, b"another driver's")
        newest = direct.read()
        line.released.set()
        assert line.late_answers.get(timeout=60)[:13] in REFUSED
        assert direct.read() == store.read() == newest

    def test_a_swap_that_arrives_late_lands_where_nothing_came_between(
        self, bucket: Bucket, wire: Lay, direct: ObjectHead
    ) -> None:
        """A read before that does not prove that it never lands."""
        assert direct.swap(None, ONE.value)
        line = wire(through)
        store = ObjectHead(bucket.address(PREFIX, line.port))
        assert store.read() == ONE
        line.behaviours[:] = [late, through]
        with pytest.raises(HeadUnknownError):
            store.swap(ONE, TWO.value)
        assert store.read() == ONE
        line.released.set()
        assert line.late_answers.get(timeout=60)[:13] in LANDED
        assert store.read() == TWO

    def test_a_head_that_was_deleted_takes_no_swap(self, bucket: Bucket, direct: ObjectHead) -> None:
        """S3 answers 404 to such a put. A store that ignored the condition would begin another history."""
        assert direct.swap(None, ONE.value)
        bucket.delete(f"{PREFIX}/head")
        assert not direct.swap(ONE, TWO.value)
        assert direct.read() is None
        assert bucket.listed() == []

    def test_a_head_that_was_set_back_takes_no_swap(self, bucket: Bucket, direct: ObjectHead) -> None:
        """H29: the object is an older one, or one of the same version with another value."""
        assert direct.swap(None, ONE.value)
        older = bucket.content(f"{PREFIX}/head")
        assert direct.swap(ONE, TWO.value)
        bucket.write(f"{PREFIX}/head", older)
        assert not direct.swap(TWO, b"late")
        assert direct.read() == ONE
        assert ObjectHead(bucket.address(PREFIX)).swap(ONE, b"another history")
        assert not direct.swap(TWO, b"late")
        assert direct.read() == Versioned(2, b"another history")

    def test_a_bucket_that_is_not_there_is_not_an_empty_head(self, bucket: Bucket) -> None:
        store = ObjectHead(replace(bucket.address(PREFIX), bucket=f"{bucket.name}-gone"))
        for call in (
            store.read,
            store.list_records,
            lambda: store.swap(None, b"one"),
            lambda: store.swap(ONE, b"two"),
            lambda: store.swap(None, b"one", ["a.json"]),
            lambda: store.put_record("a.json", b"content"),
            lambda: store.get_record("a.json"),
        ):
            with pytest.raises(HeadAccessError, match=bucket.no_bucket) as caught:
                call()
            assert "create the bucket" in caught.value.remedy
            assert not caught.value.retriable

    def test_wrong_credentials_are_refused(self, bucket: Bucket, wire: Lay) -> None:
        store = ObjectHead(bucket.address(PREFIX, wire(answer(403, "AccessDenied", "Access Denied.")).port))
        for call in (
            store.read,
            store.list_records,
            lambda: store.swap(None, b"one"),
            lambda: store.put_record("a.json", b"content"),
            lambda: store.get_record("a.json"),
        ):
            with pytest.raises(HeadAccessError, match="403, AccessDenied") as caught:
                call()
            assert not caught.value.retriable
