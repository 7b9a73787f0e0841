"""Histories in which a small store could lose or double rows; each leads a committer through one."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.stores.preparing import PreparingSink
from connectors.stores.sink import StoreSink
from connectors.testing.rows import rows
from connectors.testing.sink_driver import SinkDriver
from connectors.testing.store_target import StoreTarget
from connectors.testing.target import schema_for
from eos.errors import IdentityError, SetBackError
from examples.stores.preparing_store import FolderStore
from twophase.values import CommitOutcome, Committable


@dataclass(frozen=True)
class BothStore(FolderStore):
    """A store that is a TokenStore and a PreparingStore."""

    after_commit: list[Callable[[], None]] = field(default_factory=list, compare=False)
    """Called once: a commit has landed, and its caller does not know yet."""

    def applied(self, slot: str) -> str:
        return self.witness(slot)

    def apply(self, slot: str, expected: str, token: str, batches: Iterator[pa.RecordBatch]) -> bool:
        if self.witness(slot) != expected:
            return False
        name = f"applied-{abs(hash(token))}"
        self.prepare(name, batches)
        return self.commit(slot, expected, token, [name])

    def commit(self, slot: str, expected: str, token: str, transactions: Sequence[str]) -> bool:
        done = super().commit(slot, expected, token, transactions)
        if done and self.after_commit:
            self.after_commit.pop()()
        return done

    def read(self) -> Iterator[pa.RecordBatch]:
        for name in self._manifest()["files"]:
            if (self._data / f"{name}.arrow").stat().st_size:
                with pa.ipc.open_stream(self._data / f"{name}.arrow") as found:
                    yield from found


def _read(store: BothStore) -> pa.Table:
    found = list(store.read())
    return pa.Table.from_batches(found) if found else pa.table({"n": [], "text": []})


def _life(folder: Path, *, is_preparing: bool) -> SinkDriver:
    driver = SinkDriver(StoreTarget(folder / "target", lambda at, _schema: BothStore(at), _read, is_preparing))
    driver.start()
    return driver


def _change_level(driver: SinkDriver) -> None:
    """As a connector does whose `commit` is changed in the spec."""
    target = driver.target
    assert isinstance(target, StoreTarget)
    is_log = isinstance(driver.sink, StoreSink)
    sink = PreparingSink(driver.name, target.store) if is_log else StoreSink(driver.name, target.store, target.log)
    driver.sink = sink.open(schema_for(target))


def _copy(driver: SinkDriver) -> Callable[[], None]:
    assert isinstance(driver.target, StoreTarget)
    shutil.rmtree(driver.target.folder / "copy", ignore_errors=True)
    return driver.target.copy()


@pytest.mark.parametrize("is_preparing", [False, True])
def test_what_one_level_has_decided_is_not_lost_to_the_other(tmp_path: Path, is_preparing: bool) -> None:
    """Both levels keep the same token, so the claim does not tell them apart."""
    driver = _life(tmp_path, is_preparing=is_preparing)
    driver.decided[0] = [driver.prepare(driver.permit(0), *rows(0, 5)), driver.prepare(driver.permit(0), task=1)]
    _change_level(driver)
    with pytest.raises(IdentityError, match="set the sink's `commit` back"):
        driver.start()
    with pytest.raises(IdentityError, match="set the sink's `commit` back"):
        driver.committer.missing_committables(0, driver.decided[0])
    assert driver.target.rows() == Counter()
    _change_level(driver)
    driver.start()
    assert driver.target.rows() == Counter(rows(0, 5))
    driver.decided.pop(0)  # head calls it committed
    _change_level(driver)
    driver.start()
    driver.checkpoint(1, rows(5, 8), ())
    assert driver.target.rows() == Counter(rows(0, 8))


def test_h27_a_store_that_goes_back_after_a_commit_keeps_what_it_holds_prepared(tmp_path: Path) -> None:
    """What is removed after a commit is compared with the token first: the copy lists decided transactions."""
    driver = _life(tmp_path, is_preparing=True)
    driver.checkpoint(0, rows(0, 2))
    driver.decided[1] = [driver.prepare(driver.permit(1), *rows(2, 4))]
    driver.target.store.after_commit.append(_copy(driver))  # type: ignore[attr-defined]
    with pytest.raises(SetBackError, match="went back in time: it counts checkpoints up to 0"):
        driver.commit(1)
    assert len(driver.prepared()) == 1, "it was removed"
    driver.start()
    assert driver.target.rows() == Counter(rows(0, 4))


def test_a_driver_that_wakes_up_after_its_commit_removes_nothing_of_a_newer_epoch(tmp_path: Path) -> None:
    """The store goes back, and a repair writes again what it lacks, before the old driver wakes up."""
    driver = _life(tmp_path, is_preparing=True)
    driver.checkpoint(0, rows(0, 2))
    driver.decided[1] = [driver.prepare(driver.permit(1), *rows(2, 4))]
    (lost,) = driver.decided[1]
    frozen = driver.committer
    again: list[Committable] = []

    def repair() -> None:
        set_back()
        driver.committer = driver.another_committer()
        driver.committer.abort(driver.prepared())  # the copy is older than what it had prepared
        again.append(driver.rewrite_missing(1, lost, *rows(2, 4)))

    set_back = _copy(driver)
    driver.target.store.after_commit.append(repair)  # type: ignore[attr-defined]
    with pytest.raises((SetBackError, IdentityError)):
        frozen.commit(1, driver.decided[1])
    assert [each.transaction for each in driver.prepared()] == [again[0].transaction], "it was removed"
    driver.decided[1] = again
    driver.start()
    assert driver.target.rows() == Counter(rows(0, 4))


@pytest.mark.parametrize("is_preparing", [False, True])
def test_h33_a_checkpoint_without_rows_is_not_taken_for_the_one_that_a_store_shows(
    tmp_path: Path, is_preparing: bool
) -> None:
    """Otherwise the next checkpoint reads the rows of the first one once more, and they are shown twice."""
    driver = _life(tmp_path, is_preparing=is_preparing)
    driver.checkpoint(0, rows(0, 2))
    scope = driver.permit(1)
    driver.decided[1] = [driver.prepare(scope, *rows(2, 4))]
    other = [driver.prepare(scope)]
    assert driver.commit(1) == [CommitOutcome.COMMITTED]
    assert driver.committer.commit(1, other, own=True) == [CommitOutcome.LOST]
    assert driver.commit(1) == [CommitOutcome.ALREADY_COMMITTED]
