"""Head whose splits are so many that they lie beside it: what is stored when, what may go, and who can read it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from connectors.kafka.splits import as_offset
from eos.errors import HeadFormatError, HeadUnknownError
from tests.twophase.test_effects import MemorySink, Setting, SilentHead
from tests.twophase_values import INCARNATION
from twophase.codec import NO_SPLITS, Part, Splits, decode_head, encode_head
from twophase.driver import Driver
from twophase.head import HeadStore, Versioned
from twophase.head_value import HeadValue, RecordRef
from twophase.local_head import LocalHead
from twophase.messages import HeadSnapshot
from twophase.parted_head import PART_BYTES, PartedHead
from twophase.status import read_seen, read_status
from twophase.values import StartingPoint

FEW_BYTES = 2_000
RETAINED = 3


def splits(count: int, at: int = 0) -> dict[str, dict[str, int]]:
    return {"orders": {f"orders/{number}": at for number in range(count)}}


def head_of(count: int, at: int = 0, completed: int = -1) -> HeadValue:
    return HeadValue(
        "p", INCARNATION, 1, ("a.1",), completed=completed, initial=splits(count), positions=splits(count, at)
    )


def test_a_small_head_is_what_it_always_was(tmp_path: Path) -> None:
    store, head = LocalHead(tmp_path), head_of(300)
    assert PartedHead(store).swap(None, head)
    read = store.read()
    assert read is not None
    assert (read.value, store.list_records()) == (encode_head(head), [])


def test_a_large_head_is_small_and_its_splits_are_stored_once_for_each_checkpoint(tmp_path: Path) -> None:
    store, parts = LocalHead(tmp_path), PartedHead(LocalHead(tmp_path))
    head = head_of(10_000, at=4_711, completed=7)
    assert parts.swap(None, head)
    read = store.read()
    assert read is not None
    assert len(read.value) < 1_000 < PART_BYTES < len(encode_head(head)) // 10
    first = store.list_records()
    assert [name.partition("-")[0] for name in first] == ["splits"]
    assert parts.swap(HeadSnapshot(1, head), replace(head, committed=7)), "as a driver knows what it wrote itself"
    assert store.list_records() == first
    moved = replace(head, committed=7, completed=8, positions=splits(10_000, at=5_000))
    assert PartedHead(store).read() == HeadSnapshot(2, replace(head, committed=7), _content(store))
    assert parts.swap(parts.read(), moved)
    assert len(store.list_records()) == 2
    seen = read_seen(LocalHead(tmp_path))
    assert seen is not None
    assert seen.head == moved


def _content(store: HeadStore) -> bytes:
    read = store.read()
    assert read is not None
    return read.value


def test_a_swap_that_expects_another_head_is_refused(tmp_path: Path) -> None:
    mine, other = PartedHead(LocalHead(tmp_path)), PartedHead(LocalHead(tmp_path))
    head = head_of(10_000)
    assert mine.swap(None, head)
    seen = other.read()
    assert other.swap(seen, replace(head, epoch=2))
    assert not mine.swap(HeadSnapshot(1, head), replace(head, completed=0, positions=splits(10_000, at=1)))
    assert other.read() == HeadSnapshot(2, replace(head, epoch=2), _content(LocalHead(tmp_path)))


@pytest.mark.parametrize("damage", ["missing", "altered", "another"])
def test_a_part_that_is_not_what_head_names_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    store = LocalHead(tmp_path)
    assert PartedHead(store).swap(None, head_of(10_000))
    path = next((tmp_path / "records").iterdir())
    if damage == "missing":
        path.unlink()
    else:
        path.chmod(0o600)
        path.write_bytes(path.read_bytes().replace(b":0", b":1", 1) if damage == "altered" else b"{}")
    words = "is missing, and head points at it" if damage == "missing" else "does not match the hash that head holds"
    with pytest.raises(HeadFormatError, match=words) as caught:
        read_status(store)
    assert "restore the checkpoint location" in caught.value.remedy


def test_a_reader_whose_part_is_pruned_meanwhile_reads_the_newer_head(tmp_path: Path) -> None:
    writer = PartedHead(LocalHead(tmp_path))
    before, after = head_of(10_000, at=1, completed=1), head_of(10_000, at=2, completed=2)
    assert writer.swap(None, before)
    (part,) = writer.store.list_records()

    def goes_on() -> None:
        assert writer.swap(HeadSnapshot(1, before), after)
        writer.store.delete_record(part)

    seen = PartedHead(Interrupted(LocalHead(tmp_path), "get_record", goes_on)).read()
    assert seen is not None
    assert seen.head == after


@dataclass
class Interrupted(LocalHead):
    """Runs something else before one call of the store, once."""

    inner: LocalHead
    call: str
    between: Callable[[], None] | None

    def __getattribute__(self, name: str) -> object:
        if name in ("inner", "call", "between", "__class__", "__dict__"):
            return object.__getattribute__(self, name)
        if name == self.call and self.between is not None:
            between, self.between = self.between, None
            between()
        return getattr(self.inner, name)


@pytest.mark.parametrize("store", [LocalHead, SilentHead])
def test_a_pipeline_of_many_splits_goes_on_and_keeps_no_more_than_its_records(
    tmp_path: Path, store: type[LocalHead]
) -> None:
    """Also where swaps are not answered: one that has landed is found again by its nonce."""
    setting, count = Setting(tmp_path), 2_000
    driver = setting.driver(store(tmp_path))
    driver.start()
    driver.store_positions("orders", StartingPoint(splits(count)["orders"], {"orders": "id"}))
    for number in range(25):
        setting.run(driver, number)
    seen = read_seen(LocalHead(tmp_path))
    assert seen is not None
    assert (seen.head, seen.head.committed) == (driver.owned, 24)
    kept = [name for name in LocalHead(tmp_path).list_records() if name.startswith("splits-")]
    assert len(seen.content or b"") < 5_000
    assert driver.retained <= len(kept) <= 2 * driver.retained + 1, kept
    again = setting.driver(LocalHead(tmp_path))
    again.start()
    assert again.owned.positions == driver.owned.positions
    assert len(again.owned.initial["orders"]) >= count


class FailsOver(LocalHead):
    """A server that fails over before some of its swaps to a replica that lacks what was put for that swap."""

    answers = True
    every = 3
    swaps = failed = 0

    def swap(self, expected: Versioned | None, value: bytes, needs: Sequence[str] = ()) -> bool:
        self.swaps += 1
        if needs and self.swaps % self.every == 0:
            self.failed += 1
            for name in needs:
                self.delete_record(name)
            if not self.answers:
                raise HeadUnknownError("no answer")
        return super().swap(expected, value, needs)


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("count", [1, 2_000])
def test_a_fail_over_before_a_swap_leaves_no_head_that_names_what_is_not_there(
    tmp_path: Path, count: int, *, answers: bool
) -> None:
    """Whether the driver notices it or not."""
    setting, store = Setting(tmp_path), FailsOver(tmp_path)
    store.answers = answers
    driver = setting.driver(store)
    driver.start()
    driver.store_positions("orders", StartingPoint(splits(count)["orders"], {"orders": "id"}))
    for number in range(12):
        setting.run(driver, number)
        status = read_status(LocalHead(tmp_path))
        assert status is not None
        assert status.head == driver.owned
        assert status.checkpoints[0].scope.checkpoint_id == number
    assert store.failed >= 3
    assert setting.driver().start().committed == 11


# What is pruned, with drivers that come between one another's calls, and die there.


@dataclass
class Register:
    """A HeadStore in memory that keeps every head it ever held."""

    heads: list[bytes] = field(default_factory=list)
    records: dict[str, bytes] = field(default_factory=dict)
    before_call: Callable[[], None] = lambda: None

    def read(self) -> Versioned | None:
        self.before_call()
        return Versioned(len(self.heads), self.heads[-1]) if self.heads else None

    def swap(self, expected: Versioned | None, value: bytes, needs: Sequence[str] = ()) -> bool:
        self.before_call()
        if (expected.version if expected else 0) != len(self.heads) or (expected and expected.value != self.heads[-1]):
            return False
        for name in needs:
            assert not name.startswith("splits-") or name in self.records, name
        self.heads.append(value)
        return True

    def put_record(self, name: str, content: bytes) -> None:
        self.before_call()
        assert self.records.setdefault(name, content) == content

    def get_record(self, name: str) -> bytes:
        self.before_call()
        if name not in self.records:
            raise HeadFormatError(name)
        return self.records[name]

    def delete_record(self, name: str) -> None:
        self.before_call()
        self.records.pop(name, None)

    def list_records(self) -> Sequence[str]:
        self.before_call()
        return sorted(self.records)


class Killed(BaseException):
    """This driver is no more."""


@dataclass
class Actor:
    """A driver as head sees it."""

    register: Register
    draw: random.Random
    parted: PartedHead = field(init=False)
    seen: HeadSnapshot | None = None

    def __post_init__(self) -> None:
        self.parted = PartedHead(self.register, FEW_BYTES)  # type: ignore[arg-type]  # shelves are not asked for

    def claim(self) -> None:
        seen = self.parted.read()
        head = seen.head if seen is not None else replace(head_of(0), epoch=0)
        born = INCARNATION
        if seen is not None and self.draw.random() < 0.15:  # a reset, from where it began
            born = f"{head.epoch:020d}"
            head = replace(head, incarnation=born, completed=-1, committed=-1, records=(), positions=head.initial)
        self._swap(seen, replace(head, epoch=head.epoch + 1))
        self.parted.prune()

    def goes_on(self) -> None:
        assert self.seen is not None
        head, kind = self.seen.head, self.draw.random()
        if kind < 0.3:
            self.parted.prune()  # of what it has let go of a while ago
            return
        if kind < 0.5:
            more = {f"orders/{len(head.initial['orders'])}-{self.draw.random()}": 0} if self.draw.random() < 0.7 else {}
            more |= {f"x/{number}": 0 for number in range(200)}
            initial = {"orders": {**head.initial["orders"], **more}}
            positions = {"orders": {**more, **head.positions["orders"]}}
            self._swap(self.seen, replace(head, initial=initial, positions=positions))
            return
        number = head.completed + 1
        moved = {"orders": {split: as_offset(at) + 1 for split, at in head.positions["orders"].items()}}
        ref = RecordRef(number, str(number), "")
        self._swap(self.seen, replace(head, completed=number, positions=moved, records=(*head.records, ref)))
        head = self.seen.head
        kept = head.records[-RETAINED:] if len(head.records) >= 2 * RETAINED else head.records
        self._swap(self.seen, replace(head, committed=number, records=kept))
        if len(kept) < len(head.records):
            self.parted.prune()

    def _swap(self, expected: HeadSnapshot | None, head: HeadValue) -> None:
        content = expected if self.draw.random() < 0.5 or expected is None else replace(expected, content=None)
        if expected is not None and expected.head.epoch != head.epoch:
            content = expected  # a claim follows a read
        if not self.parted.swap(content, head):
            raise Killed
        self.seen = HeadSnapshot(expected.version + 1 if expected is not None else 1, head)


@pytest.mark.parametrize("seed", range(30))
def test_every_head_since_the_oldest_record_finds_its_parts_whoever_prunes_and_dies(seed: int) -> None:
    draw, register = random.Random(seed), Register()
    actors: list[Actor] = []  # those that live and do nothing right now
    moved = depth = 0

    def step() -> None:
        nonlocal moved
        is_new = not actors or draw.random() < 0.1
        actor = Actor(register, draw) if is_new else actors.pop(draw.randrange(len(actors)))
        with suppress(Killed):
            actor.claim() if is_new else actor.goes_on()
            moved += 1
            actors.append(actor)

    def between() -> None:
        nonlocal depth
        if depth == 0 and draw.random() < 0.05:
            depth = 1
            step()
            depth = 0
            if draw.random() < 0.2:
                raise Killed

    register.before_call = between
    for _ in range(150):
        step()
        _check_readable(register)
    assert moved > 50


def _check_readable(register: Register) -> None:
    """The newest head, and each older one of the same life that may come back together with the records."""
    if not register.heads:
        return

    def read(content: bytes) -> HeadValue:
        return decode_head(content, partial(_found, register))

    newest = read(register.heads[-1])
    oldest = newest.records[0].checkpoint_id if newest.records else newest.completed
    for content in reversed(register.heads):
        if f'"incarnation":"{newest.incarnation}"'.encode() not in content:
            break
        if int(content.partition(b'"completed":')[2].split(b",")[0]) < oldest:
            break
        read(content)


def _found(register: Register, part: Part) -> Splits:
    assert part.name in register.records, part.name
    return NO_SPLITS


def test_starts_that_complete_nothing_do_not_fill_the_store(tmp_path: Path) -> None:
    """As of a pipeline that restarts once a minute while its sink is down."""
    setting, starts = Setting(tmp_path), 30
    driver = setting.driver()
    driver.start()
    driver.store_positions("orders", StartingPoint(splits(2_000)["orders"], {"orders": "id"}))
    setting.run(driver, 0)
    for _ in range(starts):
        setting.driver().start()
    kept = [name for name in LocalHead(tmp_path).list_records() if name.startswith("splits-")]
    assert 16 <= len(kept) <= 19 < starts, kept
    seen = read_seen(LocalHead(tmp_path))
    assert seen is not None
    assert seen.head.epoch == starts + 1
    assert len(seen.head.positions["orders"]) == 2_000


def test_a_newer_life_leaves_no_part_of_an_older_one(tmp_path: Path) -> None:
    store, sink = LocalHead(tmp_path), MemorySink()
    before = head_of(3_000, at=9, completed=4)
    assert PartedHead(store).swap(None, before)
    assert len(store.list_records()) == 1
    born = "newborn".rjust(20, "0")

    def driver(session: str) -> Driver:
        return Driver("p", store, {sink.name: sink}, Setting(tmp_path).spark, session, born)

    driver("run.2").reset(expected=before)
    assert driver("run.3").start().incarnation == born
    assert store.list_records() == []
