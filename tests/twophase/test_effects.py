"""What the driver does to head, sinks and Spark, with a real head on disk and sinks that remember their calls."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from eos.errors import (
    FencedError,
    HeadFormatError,
    HeadUnknownError,
    PrepareError,
    SinkUnavailableError,
    SourceError,
    TargetError,
)
from tests.twophase_values import INCARNATION, begin_ten, committable
from twophase.codec import decode_head, sha256_of
from twophase.doing import Doing
from twophase.driver import Driver
from twophase.head import Versioned
from twophase.ids import Scope, TransactionId
from twophase.local_head import LocalHead
from twophase.messages import Acknowledged, Failed
from twophase.participants import Prepared
from twophase.retry import Patience
from twophase.values import CheckpointRecord, CommitOutcome, Committable, SinkState, SparkState

BRIEF = Patience(deadline_s=0.1, first_wait_s=0.001, max_wait_s=0.01)


@dataclass
class MemorySink:
    """A sink in memory that keeps the rules and a list of its calls."""

    name: str = "warehouse"
    permits_once: bool = False
    slots: frozenset[int] = frozenset()
    claimed: tuple[str, int] | None = None
    waiting: set[TransactionId] = field(default_factory=set)
    visible: set[TransactionId] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    trouble: list[BaseException] = field(default_factory=list)
    late: int = 0  # so many commits are answered "retry later"

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if self.trouble:
            raise self.trouble.pop(0)

    def inspect(self, incarnation: str, expected: Sequence[Committable]) -> SinkState:
        self._called("inspect")
        missing = tuple(c.transaction for c in expected if c.transaction not in self.visible)
        highest = max((t.scope.checkpoint_id for t in self.visible), default=-1)
        incarnation_claimed, epoch = self.claimed or (None, 0)
        return SinkState(incarnation_claimed, epoch, highest, missing)

    def claim(
        self, incarnation: str, epoch: int, *, take_over: bool = False, begins: int = -1, counted: int = -1
    ) -> None:
        self._called("claim")
        if self.claimed is not None and self.claimed[1] > epoch:
            raise FencedError("fenced")
        self.claimed = (incarnation, epoch)

    def permit(self, scope: Scope, *, counted: int = -1) -> None:
        self._called("permit")

    def permit_log(self, scope: Scope) -> None:
        self._called("permit away")

    def commit(
        self, checkpoint_id: int, committables: Sequence[Committable], *, own: bool = False, known: int | None = None
    ) -> Sequence[CommitOutcome]:
        self._called("commit")
        if self.late:
            self.late -= 1
            return [CommitOutcome.RETRY_LATER] * len(committables)
        self.waiting -= {c.transaction for c in committables}
        self.visible |= {c.transaction for c in committables}
        return [CommitOutcome.COMMITTED] * len(committables)

    def count(
        self, incarnation: str, checkpoint_id: int, committables: Sequence[Committable], *, known: int | None = None
    ) -> None:
        self._called(f"count {checkpoint_id}")

    def missing_committables(self, checkpoint_id: int, committables: Sequence[Committable]) -> Sequence[Committable]:
        self._called("lost")
        return [c for c in committables if c.transaction not in self.waiting | self.visible]

    def permit_rewrite(self, scope: Scope) -> None:
        self._called("permit again")

    def prepared(self, incarnation: str, checkpoint_id: int | None = None) -> Sequence[Prepared]:
        self._called("prepared")
        return [Prepared(each, str(each)) for each in sorted(self.waiting)]

    def abort(self, prepared: Iterable[Prepared]) -> None:
        self._called("abort")
        self.waiting -= {p.transaction for p in prepared if p.transaction is not None}

    def revoke(self, scope: Scope, *, counted: bool = False) -> None:
        self._called("revoke")

    def fast_forward(self, incarnation: str, epoch: int, checkpoint_id: int, *, counted: int = -1) -> None:
        self._called(f"catch up {checkpoint_id}")

    def prune(self, incarnation: str, below: int) -> None:
        self._called(f"prune {below}")

    def close(self) -> None:
        self._called("close")


@dataclass
class Batch:
    """One batch of one task."""

    sink: MemorySink
    error: PrepareError | None = None

    def run_writers(self, scope: Scope, *, direct: bool = False) -> Acknowledged | Failed:
        mine = committable(scope)
        self.sink.waiting.add(mine.transaction)
        return Failed(self.error) if self.error else Acknowledged({"warehouse": (mine,)}, 2.0)

    def discard(self, digest_methods: Sequence[int]) -> Sequence[Mapping[str, tuple[int, int]]] | None:
        return None


@dataclass
class SparkFolder:
    """What Spark would have written."""

    planned: int = -1

    def await_state(self, _checkpoint_id: int) -> None:
        """Nothing to wait for."""

    def state(self, incarnation: str) -> SparkState:
        log = {n: f"v1 {n}" for n in range(max(self.planned - 1, 0), self.planned + 1)}
        return SparkState(None, self.planned, self.planned - 1, log)


@dataclass
class Setting:
    """One pipeline, and the drivers on it."""

    folder: Path
    sink: MemorySink = field(default_factory=MemorySink)
    spark: SparkFolder = field(default_factory=SparkFolder)
    drivers: int = 0

    def driver(self, head: Any = None, **changes: Any) -> Driver:
        self.drivers += 1
        session = f"run{self.drivers}.1"
        store = head or LocalHead(self.folder)
        sinks = {"warehouse": self.sink}
        return Driver("orders", store, sinks, self.spark, session, INCARNATION, patience=BRIEF, **changes)

    def run(self, driver: Driver, number: int, error: PrepareError | None = None) -> CheckpointRecord:
        self.spark.planned = max(self.spark.planned, number)
        return driver.checkpoint(begin_ten(number), Batch(self.sink, error))


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


def test_checkpoints_and_a_second_driver(setting: Setting) -> None:
    first = setting.driver()
    first.start()
    for number in range(3):
        setting.run(first, number)
    assert setting.sink.calls.count("commit") == 3
    assert setting.sink.calls.count("permit") == 3, "the close of each checkpoint deletes its permit"
    assert len(setting.sink.visible) == 3
    assert set(first.durations_s) >= {"Swap decide", "Swap committed", "Commit", "RunWriters", "PutRecord"}
    second = setting.driver()
    assert second.start().epoch == 2
    with pytest.raises(FencedError):
        setting.run(first, 3)
    setting.run(second, 3)
    assert second.owned.committed == 3
    assert {each.scope.epoch for each in setting.sink.waiting} == {1}, "a later start rolls those back, nobody else"


def test_a_driver_that_was_not_started(setting: Setting) -> None:
    with pytest.raises(RuntimeError, match="not started"):
        _ = setting.driver().owned


def test_the_query_is_stored_once(setting: Setting) -> None:
    driver = setting.driver()
    driver.start()
    driver.set_query("q")
    version = LocalHead(setting.folder).read()
    driver.set_query("q")
    assert LocalHead(setting.folder).read() == version


def test_a_driver_shows_its_action(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = setting.driver()
    driver.start()
    seen: list[Doing | None] = []
    wait, commit = Batch.run_writers, MemorySink.commit

    def run_writers(batch: Batch, scope: Scope, *, direct: bool = False) -> Acknowledged | Failed:
        seen.append(driver.doing)
        return wait(batch, scope, direct=direct)

    def committing(sink: MemorySink, *names: Any, **more: Any) -> Any:
        seen.append(driver.doing)
        return commit(sink, *names, **more)

    monkeypatch.setattr(Batch, "run_writers", run_writers)
    monkeypatch.setattr(MemorySink, "commit", committing)
    before = time.time()
    setting.run(driver, 0)
    assert [(each.name, each.sinks) for each in seen if each is not None] == [
        ("RunWriters", ()),
        ("Commit", ("warehouse",)),
    ]
    assert all(before <= each.since <= time.time() for each in seen if each is not None)


def test_a_failed_checkpoint_is_run_again_under_the_next_try(setting: Setting) -> None:
    driver = setting.driver()
    driver.start()
    with pytest.raises(PrepareError):
        setting.run(driver, 0, PrepareError("a task failed"))
    assert not setting.sink.waiting
    assert setting.run(driver, 0).scope.attempt == 2


def test_sinks_that_are_away_for_a_moment(setting: Setting) -> None:
    driver = setting.driver()
    driver.start()
    setting.sink.trouble = [SinkUnavailableError("away")] * 2
    setting.run(driver, 0)
    assert setting.sink.calls.count("permit") == 3


@pytest.mark.parametrize("number", range(4))
def test_a_connector_that_exits_ends_neither_thread_nor_process_and_the_next_start_goes_on(
    setting: Setting, number: int
) -> None:
    """At its inspection, claim, permit or commit. `sys.exit(0)` would be a run that ended well."""
    calls = ("inspect", "claim", "permit", "commit")
    exits, called = calls[number], setting.sink._called

    def exit_there(what: str) -> None:
        called(what)
        if what == exits:
            raise SystemExit(0)

    setting.sink._called = exit_there  # type: ignore[method-assign]
    driver = setting.driver()
    with pytest.raises(TargetError, match="the connector of sink warehouse raised SystemExit: 0"):  # noqa: PT012
        driver.start()
        setting.run(driver, 0)
    setting.sink._called = called  # type: ignore[method-assign]
    later = setting.driver()
    assert later.start().committed == (0 if exits == "commit" else -1)
    setting.run(later, later.owned.committed + 1)
    assert len(setting.sink.visible) == later.owned.committed + 1


def test_a_commit_that_stays_late_fails_without_loss_and_the_next_start_ends_it(setting: Setting) -> None:
    driver = setting.driver()
    driver.start()
    setting.sink.late = 10**6
    with pytest.raises(
        SinkUnavailableError, match="checkpoint 0 is completed, but sink warehouse cannot commit it yet"
    ):
        setting.run(driver, 0)
    assert setting.sink.visible == set()
    setting.sink.late = 0
    assert setting.driver().start().committed == 0
    assert len(setting.sink.visible) == 1


def test_records_that_nobody_points_at_are_swept(setting: Setting) -> None:
    driver = setting.driver()
    driver.start()
    setting.run(driver, 0)
    store = LocalHead(setting.folder)
    kept = list(store.list_records())
    orphan = f"{Scope(INCARNATION, 1, 1)}-0123456789abcdef.json"
    newer = f"{Scope(INCARNATION, 7, 1)}-0123456789abcdef.json"
    ended = f"{Scope('z' * 20, 1, 1)}-0123456789abcdef.json"  # of a life that was reset
    for name in (orphan, newer, ended, "notes.txt"):
        store.put_record(name, b"{}")
    setting.driver().start()
    assert store.list_records() == sorted([*kept, newer, "notes.txt"])


def test_pruning_deletes_records_and_witnesses(setting: Setting) -> None:
    driver = setting.driver(retained=2)
    driver.start()
    for number in range(4):
        setting.run(driver, number)
    store = LocalHead(setting.folder)
    assert len(store.list_records()) == len(driver.owned.records) == 2
    assert [call for call in setting.sink.calls if call.startswith("prune")] == ["prune 2"]


def test_a_consumer_group_that_cannot_be_told_is_a_warning(setting: Setting, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: Any) -> None:
        raise SourceError("no broker")

    driver = setting.driver(commit_back=refuse)
    driver.start()
    setting.run(driver, 0)
    assert "no broker" in caplog.text


def test_a_missing_record_stops_the_start(setting: Setting) -> None:
    driver = setting.driver()
    driver.start()
    setting.run(driver, 0)
    store = LocalHead(setting.folder)
    store.delete_record(store.list_records()[0])
    with pytest.raises(HeadFormatError, match=r"the record of checkpoint 0 .* is missing"):
        setting.driver().start()


def test_a_damaged_record_stops_the_start(setting: Setting) -> None:
    driver = setting.driver()
    driver.start()
    setting.run(driver, 0)
    path = next((setting.folder / "records").iterdir())
    path.write_bytes(path.read_bytes().replace(b'"rows":3', b'"rows":4'))
    with pytest.raises(HeadFormatError, match="does not match the hash"):
        setting.driver().start()


class SilentHead(LocalHead):
    """Swaps land, and every second one is not answered."""

    swaps = 0

    def swap(self, expected: Versioned | None, value: bytes, needs: Sequence[str] = ()) -> bool:
        self.swaps += 1
        landed = super().swap(expected, value, needs)
        if self.swaps % 2:
            raise HeadUnknownError("no answer")
        return landed


def test_swaps_without_an_answer_land_once(setting: Setting) -> None:
    driver = setting.driver(SilentHead(setting.folder))
    driver.start()
    for number in range(3):
        setting.run(driver, number)
    read = LocalHead(setting.folder).read()
    assert read is not None
    assert decode_head(read.value) == driver.owned
    assert read.version == 1 + 2 * 3


def test_a_head_with_what_a_newer_version_keeps_there_is_refused_before_any_sink_is_touched(tmp_path: Path) -> None:
    """A start commits and rolls back before it swaps: that would be too late."""
    first, sink = LocalHead(tmp_path), MemorySink()
    document = json.loads((Path(__file__).parents[1] / "golden" / "head.json").read_bytes())
    del document["checksum"]
    document |= {"format": 3, "least_reader": 1, "colour": "red"}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    document["checksum"] = sha256_of(text)
    assert first.swap(None, json.dumps(document, ensure_ascii=False).encode())
    driver = Driver(document["pipeline"], first, {sink.name: sink}, SparkFolder(), "run.1", document["incarnation"])
    with pytest.raises(HeadFormatError, match="a newer version keeps 'colour' in head"):
        driver.start()
    assert sink.calls == []
