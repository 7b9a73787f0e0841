"""Whatever happens to the disk or the process: a segment is absent or whole, and whole once it was acknowledged."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wal.errors import WalError
from wal.local import LocalStorage
from wal.segment import SegmentRef, SegmentWriter, read_segment, stat_segment
from wal.testing import Choose, Fault, FaultKind, PowerCutError, SimulatedFiles

FOLDER = Path("/log")
NAME = "orders.segment"
ROWS = pa.table({"id": list(range(40)), "word": [f"word {i}" for i in range(40)]})


def seal(files: SimulatedFiles) -> SegmentRef | None:
    """One writer's life; None if it did not come to the acknowledgement."""
    try:
        writer = SegmentWriter(LocalStorage(FOLDER, files), NAME, ROWS.schema)
        try:
            for batch in ROWS.to_batches(max_chunksize=10):
                writer.write(batch)
            return writer.seal()
        except WalError:
            writer.discard()
    except (WalError, PowerCutError):
        pass
    return None


def check(files: SimulatedFiles, acknowledged: SegmentRef | None) -> None:
    """The next start finds the segment whole or not at all, and cleans up what was begun."""
    storage = LocalStorage(FOLDER, files)
    assert acknowledged is None or NAME in storage.names()
    for name in storage.names():
        ref = stat_segment(storage, name)
        assert acknowledged in (None, ref)
        assert pa.Table.from_batches(read_segment(storage, ref)).equals(ROWS)
    storage.sweep(storage.unfinished())
    assert not storage.unfinished()
    assert set(storage.names()) <= {NAME}


def calls() -> int:
    """How many calls one writer's life takes."""
    files = SimulatedFiles()
    assert seal(files) is not None
    return files.calls


@pytest.mark.parametrize("kind", FaultKind)
@given(data=st.data())
def test_every_call_may_fail_and_the_power_may_go(kind: FaultKind, data: st.DataObject) -> None:
    choose: Choose = lambda n: data.draw(st.integers(0, n - 1))  # noqa: E731
    files = SimulatedFiles(Fault(data.draw(st.integers(0, calls() - 1)), kind))
    acknowledged = seal(files)
    if kind is not FaultKind.POWER_CUT:
        check(files, acknowledged)  # the process lives, or was killed and its files are as they were
    check(files.restarted(choose), acknowledged)


@pytest.mark.parametrize("kind", FaultKind)
@pytest.mark.parametrize("call", range(calls() + 1))
def test_each_call_with_the_worst_disk(kind: FaultKind, call: int) -> None:
    files = SimulatedFiles(Fault(call, kind))
    acknowledged = seal(files)
    check(files.restarted(lambda _: 0), acknowledged)


def test_the_simulation_counts_on_something() -> None:
    assert calls() > 10
    unharmed = SimulatedFiles()
    ref = seal(unharmed)
    assert ref is not None
    assert ref.rows == 40
    check(unharmed, ref)


class WithoutSync(SimulatedFiles):
    """A writer that forgets fsync of the file."""

    def sync(self, inode: object) -> None:
        """Lie."""


class WithoutFolderSync(SimulatedFiles):
    """A writer that forgets fsync of the folder."""

    def sync_folder(self, path: Path) -> None:
        """Lie."""


@pytest.mark.parametrize("broken", [WithoutSync, WithoutFolderSync])
def test_the_check_notices_a_forgotten_sync(broken: type[SimulatedFiles]) -> None:
    files = broken()
    acknowledged = seal(files)
    assert acknowledged is not None
    with pytest.raises((AssertionError, WalError)):
        check(files.restarted(lambda _: 0), acknowledged)


def test_the_check_notices_a_file_written_in_place() -> None:
    """Linked first and filled later, the name would show half a segment."""

    class LinkedFirst(SimulatedFiles):
        def create(self, path: Path):  # type: ignore[no-untyped-def]
            file = super().create(path)
            self.link(path, FOLDER / NAME)
            self.sync_folder(FOLDER)
            return file

    files = LinkedFirst(Fault(9, FaultKind.POWER_CUT))
    assert seal(files) is None
    with pytest.raises(WalError):
        check(files.restarted(lambda _: 0), None)
