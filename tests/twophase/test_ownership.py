"""R1, R6, H20: a swap lands once, whatever happens to its answers, and a driver that is fenced touches nothing more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from eos.errors import FencedError, HeadFormatError, HeadUnknownError, IdentityError
from tests.twophase_values import drive, head
from twophase import messages
from twophase.head_value import HeadValue, RecordRef
from twophase.messages import HeadSnapshot
from twophase.ownership import Held, Ownership, check_owned, load, take_up
from twophase.transitions import Claim, Committed, SetPositions, SetQuery
from twophase.values import StartingPoint


class Register:
    """Head, with a script of what becomes of each swap."""

    def __init__(self, value: HeadValue, *script: str) -> None:
        self.seen: HeadSnapshot | None = HeadSnapshot(3, value)
        self.script = list(script)
        self.before_read: Callable[[], None] = lambda: None

    def swap(self, action: messages.Swap) -> bool | None:
        what = self.script.pop(0) if self.script else "lands"
        if what == "never":
            return None
        assert self.seen is not None
        if action.expected != self.seen or what == "refused":
            return False
        self.seen = HeadSnapshot(action.version + 1, action.value)
        return None if what == "unanswered" else True

    def read(self, _: Any) -> HeadSnapshot | None:
        self.before_read()
        return self.seen

    def overtake(self, **changes: Any) -> None:
        """Somebody else swaps."""
        assert self.seen is not None
        value = self.seen.head
        nonces = (*value.nonces, *changes.pop("nonces", ["other.1"]))[-8:]
        self.seen = HeadSnapshot(self.seen.version + 1, replace(value, nonces=nonces, **changes))


def swap(register: Register, owned: Ownership, transition: Any = None) -> list[Any]:
    steps = owned.swap(transition or SetQuery("q"), "query")
    return drive(steps, {"Swap": register.swap, "ReadHead": register.read})[1]


@pytest.fixture
def owned() -> Ownership:
    return Ownership("me", 3, head())


def swaps(actions: list[Any]) -> list[messages.Swap]:
    return [each for each in actions if isinstance(each, messages.Swap)]


def test_others_of_our_own_may_come_first_many_times(owned: Ownership) -> None:
    """Threads that catch up swap after each commit."""
    register = Register(head(), *["refused"] * 20)
    register.before_read = register.overtake
    actions = swap(register, owned)
    assert len(swaps(actions)) == 21
    assert owned.head.query_id == "q"


def test_a_swap_that_is_answered_is_not_asked_about(owned: Ownership) -> None:
    register = Register(head())
    actions = swap(register, owned)
    assert [type(each) for each in actions] == [messages.Swap]
    assert register.seen == HeadSnapshot(owned.version, owned.head)
    assert owned.head.query_id == "q"
    assert owned.head.nonces == ("a.1", "me.1-drawn")


@pytest.mark.parametrize("script", [["unanswered"], ["never"], ["never", "never", "unanswered"], ["never", "refused"]])
def test_it_lands_once_whatever_is_answered(owned: Ownership, script: list[str]) -> None:
    register = Register(head(), *script)
    actions = swap(register, owned)
    assert register.seen == HeadSnapshot(4, owned.head)
    assert owned.version == 4
    assert len({(each.version, each.value.nonces) for each in swaps(actions)}) == 1, "sent again under another nonce"


def test_a_late_copy_changes_nothing(owned: Ownership) -> None:
    register = Register(head(), "never")
    first = swaps(swap(register, owned))[0]
    assert register.swap(first) is False
    assert register.seen == HeadSnapshot(4, owned.head)


def test_merge_and_retry_when_one_of_our_own_came_first(owned: Ownership) -> None:
    register = Register(head(), "refused")
    register.overtake(positions={"orders": {"t/0": 7}})
    swap(register, owned)
    assert register.seen == HeadSnapshot(5, owned.head)
    assert (owned.head.query_id, owned.head.position("orders", "t/0")) == ("q", 7)


@pytest.mark.parametrize("transition", [SetQuery("q"), Committed(4, 10)])
def test_h29_a_head_that_went_back_is_not_merged_onto(transition: Any) -> None:
    mine = head(completed=4, committed=3, nonces=("a.1", "me.1"))
    register = Register(head(completed=3, committed=3))
    before = register.seen
    with pytest.raises(IdentityError, match=r"knows epoch 1 with checkpoint 4 completed.*with checkpoint 3") as caught:
        swap(register, Ownership("me", 4, mine), transition)
    assert register.seen == before
    assert "restore the newest head" in caught.value.remedy


@pytest.mark.parametrize("swaps_since", [0, 1, 7])
def test_h29_a_head_of_the_same_epoch_with_other_swaps_is_not_ones_own(owned: Ownership, swaps_since: int) -> None:
    owned.head = head(nonces=("me.1",))
    register = Register(head(nonces=("twin.1",)), "refused")
    for number in range(swaps_since):
        register.overtake(nonces=[f"twin.{number + 2}"])
    before = register.seen
    with pytest.raises(IdentityError, match="head of pipeline orders was set back"):
        swap(register, owned)
    assert register.seen == before


@pytest.mark.parametrize(("session", "is_mine"), [("me", True), ("twin", False)])
def test_h29_so_many_swaps_that_ones_own_is_forgotten_have_to_be_ones_own(
    owned: Ownership, session: str, *, is_mine: bool
) -> None:
    """Threads of this driver may swap many times while one of them waits for head."""
    owned.head = head(nonces=("me.1",))
    register = Register(owned.head, "refused")
    for number in range(20):
        register.overtake(nonces=[f"{session}.{100 + number}"])
    if is_mine:
        swap(register, owned)
        assert (owned.version, owned.head.query_id) == (24, "q")
    else:
        with pytest.raises(IdentityError, match="was set back"):
            swap(register, owned)


def test_h29_an_epoch_before_ones_own_is_a_head_that_went_back() -> None:
    """No driver has claimed since: it is not fenced."""
    register = Register(head(epoch=0))
    with pytest.raises(IdentityError, match="was set back"):
        swap(register, Ownership("me", 4, head(nonces=("a.1", "me.1"))))


def test_h29_an_unanswered_swap_that_landed_and_was_taken_back_is_no_success(owned: Ownership) -> None:
    """H20 knows it by its nonce, which is gone with it."""
    register = Register(head(), "unanswered")
    swaps(swap(register, owned))
    assert (owned.version, register.seen) == (4, HeadSnapshot(4, owned.head))
    register.seen = HeadSnapshot(3, head())
    with pytest.raises(IdentityError, match="was set back"):
        drive(check_owned(owned), {"ReadHead": register.read})


def test_h29_a_swap_names_what_the_register_holds(owned: Ownership) -> None:
    """To the byte: another version of eos may have encoded the same head in another way."""
    register = Register(head(), "refused")
    register.overtake()
    assert register.seen is not None
    register.seen = replace(register.seen, content=b"as another version encodes it")
    sent = swaps(swap(register, owned))
    assert sent[0].expected == HeadSnapshot(3, head())
    expected = sent[1].expected
    assert expected is not None
    assert expected == HeadSnapshot(4, expected.head, b"as another version encodes it")


def test_h29_a_process_takes_up_only_the_head_that_it_was_given() -> None:
    given = HeadSnapshot(3, head(nonces=("run.1",)))
    assert drive(take_up("run", Held.of(given)), {"ReadHead": lambda _: given})[0].head == given.head
    for other in (HeadSnapshot(4, given.head), HeadSnapshot(3, head(nonces=("other.1",))), None):
        answers = {"ReadHead": partial(_say, other)}
        with pytest.raises(FencedError, match="the tasks wrote under"):
            drive(take_up("run", Held.of(given)), answers)


def _say(seen: HeadSnapshot | None, _action: Any) -> HeadSnapshot | None:
    return seen


def test_another_epoch_fences(owned: Ownership) -> None:
    register = Register(head())
    register.overtake(epoch=2)
    before = register.seen
    with pytest.raises(FencedError, match="pipeline orders is at epoch 2, this driver is epoch 1"):
        swap(register, owned)
    assert register.seen == before


def test_a_swap_that_landed_before_a_newer_epoch_ends_in_fenced_too(owned: Ownership) -> None:
    """Taking that head for one's own would make two drivers of one epoch."""
    register = Register(head(), "unanswered")

    def claimed_meanwhile() -> None:
        register.overtake(epoch=2)
        register.before_read = lambda: None

    register.before_read = claimed_meanwhile
    with pytest.raises(FencedError):
        swap(register, owned)
    assert owned.head.epoch == 1


def test_a_claim_of_ones_own_is_not_taken_for_another_epoch(owned: Ownership) -> None:
    swap(Register(head(), "unanswered"), owned, Claim())
    assert owned.head.epoch == 2


def test_a_head_that_never_answers_is_given_up(owned: Ownership) -> None:
    with pytest.raises(HeadUnknownError, match="did not take or answer 8 swaps") as caught:
        swap(Register(head(), *["never"] * 8), owned)
    assert caught.value.retriable


def test_a_head_that_vanishes(owned: Ownership) -> None:
    register = Register(head(), "refused")
    register.seen = None
    register.swap = lambda _: None  # type: ignore[method-assign, assignment]
    with pytest.raises(IdentityError, match="has vanished while it was running"):
        swap(register, owned)


def test_nonces_are_never_used_twice_and_do_not_grow_for_ever(owned: Ownership) -> None:
    register = Register(head())
    seen = set()
    for number in range(20):
        swap(register, owned, SetPositions("orders", StartingPoint({f"t/{number}": 1}, {})))
        assert owned.head.nonces[-1] not in seen
        seen.add(owned.head.nonces[-1])
    assert len(owned.head.nonces) == 8


REF = RecordRef(4, "record 4", "0" * 64)
GONE = HeadFormatError("it is gone")


def test_a_missing_record_of_a_driver_that_is_behind_means_fenced(owned: Ownership) -> None:
    with pytest.raises(FencedError):
        drive(load(owned, REF), {"LoadRecord": lambda _: GONE, "ReadHead": lambda _: HeadSnapshot(9, head(epoch=2))})


@pytest.mark.parametrize("seen", [HeadSnapshot(3, head()), None])
def test_a_missing_record_that_head_points_at_is_damage(owned: Ownership, seen: HeadSnapshot | None) -> None:
    with pytest.raises(HeadFormatError, match="it is gone"):
        drive(load(owned, REF), {"LoadRecord": lambda _: GONE, "ReadHead": lambda _: seen})


def test_who_owns_head_is_asked_of_head(owned: Ownership) -> None:
    register = Register(head())
    register.overtake()  # by a thread of its own
    drive(check_owned(owned), {"ReadHead": register.read})
    register.overtake(epoch=2)
    with pytest.raises(FencedError, match="is at epoch 2, this driver is epoch 1"):
        drive(check_owned(owned), {"ReadHead": register.read})
    register.seen = None
    with pytest.raises(FencedError):
        drive(check_owned(owned), {"ReadHead": register.read})


def test_h29_who_has_written_nothing_misses_nothing() -> None:
    """A command that has read head, while the pipeline's own driver went on by more swaps than head names."""
    register = Register(head(), "refused")
    for number in range(20):
        register.overtake(nonces=[f"run.{100 + number}"])
    owned = Ownership("command", 3, head())
    swap(register, owned)
    assert (owned.version, owned.head.query_id) == (24, "q")


def test_a_thread_that_comes_late_does_not_put_an_older_head_back(owned: Ownership) -> None:
    newer, older = HeadSnapshot(5, head(completed=2)), HeadSnapshot(4, head(completed=1))
    owned.take(newer)
    owned.take(older)
    assert owned.held() == newer


def test_h26_what_a_sink_is_known_to_count_never_goes_down(owned: Ownership) -> None:
    """Threads say what each has done, in any order; by it a permit finds a sink that went back in time."""
    for told in ({"a": 3}, {"a": 2, "b": 1}, {"b": 4}):
        owned.note_counted(told)
    assert owned.counted == {"a": 3, "b": 4}
