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
from connectors.testing.life import Life
from connectors.testing.rows import rows
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


def _life(folder: Path, *, is_preparing: bool) -> Life:
    life = Life(StoreTarget(folder / "target", lambda at, _schema: BothStore(at), _read, is_preparing))
    life.start()
    return life


def _change_level(life: Life) -> None:
    """As a connector does whose `commit` is changed in the spec."""
    target = life.target
    assert isinstance(target, StoreTarget)
    is_log = isinstance(life.sink, StoreSink)
    sink = PreparingSink(life.name, target.store) if is_log else StoreSink(life.name, target.store, target.log)
    life.sink = sink.open(schema_for(target))


def _copy(life: Life) -> Callable[[], None]:
    assert isinstance(life.target, StoreTarget)
    shutil.rmtree(life.target.folder / "copy", ignore_errors=True)
    return life.target.copy()


@pytest.mark.parametrize("is_preparing", [False, True])
def test_what_one_level_has_decided_is_not_lost_to_the_other(tmp_path: Path, is_preparing: bool) -> None:
    """Both levels keep the same token, so the claim does not tell them apart."""
    life = _life(tmp_path, is_preparing=is_preparing)
    life.decided[0] = [life.prepare(life.permit(0), *rows(0, 5)), life.prepare(life.permit(0), task=1)]
    _change_level(life)
    with pytest.raises(IdentityError, match="set the sink's `commit` back"):
        life.start()
    with pytest.raises(IdentityError, match="set the sink's `commit` back"):
        life.committer.lost(0, life.decided[0])
    assert life.target.rows() == Counter()
    _change_level(life)
    life.start()
    assert life.target.rows() == Counter(rows(0, 5))
    life.decided.pop(0)  # head calls it committed
    _change_level(life)
    life.start()
    life.checkpoint(1, rows(5, 8), ())
    assert life.target.rows() == Counter(rows(0, 8))


def test_h27_a_store_that_goes_back_after_a_commit_keeps_what_it_holds_prepared(tmp_path: Path) -> None:
    """What is removed after a commit is compared with the token first: the copy lists decided transactions."""
    life = _life(tmp_path, is_preparing=True)
    life.checkpoint(0, rows(0, 2))
    life.decided[1] = [life.prepare(life.permit(1), *rows(2, 4))]
    life.target.store.after_commit.append(_copy(life))  # type: ignore[attr-defined]
    with pytest.raises(SetBackError, match="went back in time: it counts checkpoints up to 0"):
        life.commit(1)
    assert len(life.prepared()) == 1, "it was removed"
    life.start()
    assert life.target.rows() == Counter(rows(0, 4))


def test_a_driver_that_wakes_up_after_its_commit_removes_nothing_of_a_newer_epoch(tmp_path: Path) -> None:
    """The store goes back, and a repair writes again what it lacks, before the old driver wakes up."""
    life = _life(tmp_path, is_preparing=True)
    life.checkpoint(0, rows(0, 2))
    life.decided[1] = [life.prepare(life.permit(1), *rows(2, 4))]
    (lost,) = life.decided[1]
    frozen = life.committer
    again: list[Committable] = []

    def repair() -> None:
        set_back()
        life.committer = life.another_committer()
        life.committer.abort(life.prepared())  # the copy is older than what it had prepared
        again.append(life.write_again(1, lost, *rows(2, 4)))

    set_back = _copy(life)
    life.target.store.after_commit.append(repair)  # type: ignore[attr-defined]
    with pytest.raises((SetBackError, IdentityError)):
        frozen.commit(1, life.decided[1])
    assert [each.transaction for each in life.prepared()] == [again[0].transaction], "it was removed"
    life.decided[1] = again
    life.start()
    assert life.target.rows() == Counter(rows(0, 4))


@pytest.mark.parametrize("is_preparing", [False, True])
def test_h33_a_checkpoint_without_rows_is_not_taken_for_the_one_that_a_store_shows(
    tmp_path: Path, is_preparing: bool
) -> None:
    """Otherwise the next checkpoint reads the rows of the first one once more, and they are shown twice."""
    life = _life(tmp_path, is_preparing=is_preparing)
    life.checkpoint(0, rows(0, 2))
    scope = life.permit(1)
    life.decided[1] = [life.prepare(scope, *rows(2, 4))]
    other = [life.prepare(scope)]
    assert life.commit(1) == [CommitOutcome.COMMITTED]
    assert life.committer.commit(1, other, own=True) == [CommitOutcome.LOST]
    assert life.commit(1) == [CommitOutcome.ALREADY_COMMITTED]
