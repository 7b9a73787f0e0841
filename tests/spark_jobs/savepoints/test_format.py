"""A savepoint that is damaged, unfinished, of somebody else or of a newer version; and one of the first format."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from eos.errors import SavepointError
from spark_jobs.savepoints import folder as folders
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.folder import FolderPlace, FolderSavepoint
from spark_jobs.savepoints.take import take
from tests import savepoint_files as files
from twophase.codec import decode_head, decode_record

GOLDEN = Path(__file__).parents[2] / "golden" / "savepoint"


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    files.run_until(tmp_path / "state")
    spec = files.spec_in(tmp_path)
    files.keep_plan(tmp_path / "state", spec)
    return files.folder_of(take(spec))


def _alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def _link(path: Path) -> None:
    """Put a link to the same content in the place of a file."""
    target = path.rename(path.parents[1] / "elsewhere")
    path.symlink_to(target)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte of state": (lambda f: _alter(f / "spark/state/0/1/SSTs/6.sst"), "does not match its hash"),
    "a file is cut short": (lambda f: (f / "head.json").write_bytes(b"{"), "1 bytes instead of"),
    "a file is missing": (lambda f: (f / "spark/commits/5").unlink(), "No such file"),
    "a file more": (lambda f: (f / "spark/state/0/1/7_x.zip").write_bytes(b"x"), "not part of the savepoint"),
    "a link": (lambda f: _link(f / "head.json"), "not part of the savepoint"),
    "a pipe": (lambda f: _pipe(f / "head.json"), "not a file"),
    "a byte of the manifest": (lambda f: _alter(f / "manifest.json"), "damaged"),
    "another number in the manifest": (
        lambda f: _replace(f / "manifest.json", f'"checkpoint_id": {files.NEWEST}', '"checkpoint_id": 2'),
        "its content does not match its checksum",
    ),
    "half a manifest": (lambda f: (f / "manifest.json").write_text('{"kind": "eos'), "damaged"),
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "is no savepoint: it has no manifest.json"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_told(savepoint: Path, name: str) -> None:
    manifests.checked(savepoint)
    damage, told = DAMAGE[name]
    damage(savepoint)
    with pytest.raises(SavepointError, match=told):
        manifests.checked(savepoint)


def test_it_may_be_copied_anywhere(savepoint: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(savepoint, tmp_path / "moved" / "and renamed")
    shutil.rmtree(tmp_path / "state")
    assert manifests.checked(moved).checkpoint_id == files.NEWEST
    assert str(tmp_path) not in "".join(p.read_text(errors="replace") for p in moved.rglob("*") if p.is_file())


@pytest.mark.parametrize(
    ("change", "told"),
    [({"kind": "another"}, "is something else's"), ({"format": 2}, "has format 2; this version reads format 1")],
)
def test_of_somebody_else_or_of_a_newer_version(savepoint: Path, change: dict[str, object], told: str) -> None:
    document = {**json.loads((savepoint / "manifest.json").read_text()), **change}
    (savepoint / "manifest.json").write_text(json.dumps(document))
    with pytest.raises(SavepointError, match=told):
        manifests.read(savepoint)


OUTSIDE = ["../outside", "/etc/passwd", "spark/../../outside", "spark//etc/passwd", "spark/state/0//etc/passwd"]


@pytest.mark.parametrize("path", [*OUTSIDE, "", ".", "./head.json", "spark/", "spark/\0"])
def test_a_manifest_names_nothing_outside(savepoint: Path, path: str) -> None:
    files.forge(savepoint, lambda document: document["files"].update({path: [1, "0" * 64]}))
    (savepoint.parent / "outside").write_text("x")
    with pytest.raises(SavepointError, match="damaged"):
        FolderSavepoint(savepoint).dispose()
    assert (savepoint.parent / "outside").exists()


FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "a path as number": lambda d: d.update(checkpoint_id="../x"),
    "a negative number": lambda d: d.update(later=-1),
    "a number of 4,000 digits": lambda d: d.update(later=10**4000),
    "a size of 4,000 digits": lambda d: d["files"].update({"spark/x": [10**4000, ""]}),
    "an id that is a list": lambda d: d.update(id=[1]),
    "no time": lambda d: d.update(taken_at=float("nan")),
    "a time after all clocks": lambda d: d.update(decided_at=1e300),
    "a time as text": lambda d: d.update(taken_at="now"),
    "versions as a list": lambda d: d.update(versions=["4"]),
    "sinks as a list": lambda d: d["plan"].update(described={"sinks": ["out"]}),
    "a sink of numbers": lambda d: d["plan"].update(described={"sinks": {"out": {"commit": 3}}}),
    "an operator of lists": lambda d: d["plan"].update(operators=[{"step": [], "kind": "", "state": ""}]),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_manifest_of_other_values_hides_no_savepoint_beside_it(savepoint: Path, name: str) -> None:
    other = shutil.copytree(savepoint, savepoint.with_name("other"))
    files.forge(savepoint, FORGED[name])
    found = {each.at: each for each in FolderPlace(savepoint.parent).found()}
    assert found[other].manifest is not None
    assert (found[savepoint].manifest, "is damaged" in found[savepoint].why) == (None, True)


def test_a_golden_savepoint_can_be_read_for_ever() -> None:
    manifest = manifests.checked(GOLDEN)
    assert (manifest.pipeline, manifest.checkpoint_id, manifest.later) == ("orders", 5, 0)
    assert manifest.plan is not None
    assert (manifest.plan.sources, manifest.plan.operators) == (("s",), (files.COUNTED,))
    assert decode_head((GOLDEN / manifests.HEAD).read_bytes()).positions == {"s": {"t/0": 600}}
    assert decode_record((GOLDEN / manifests.RECORD).read_bytes()).rows == 90
    assert (GOLDEN / "spark" / "offsets" / "5").read_text() == files.offsets(5)


def test_only_savepoints_are_disposed_of(savepoint: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, savepoint.parent, savepoint / "spark"):
        with pytest.raises(SavepointError, match="is no savepoint"):
            FolderSavepoint(folder).dispose()
    (savepoint / "mine.txt").write_text("mine")
    with pytest.raises(SavepointError, match=r"mine\.txt"):
        FolderSavepoint(savepoint).dispose()
    (savepoint / "mine.txt").unlink()
    manifests.checked(savepoint)
    FolderSavepoint(savepoint).dispose()
    assert not savepoint.exists()
    assert savepoint.parent.is_dir()


def test_a_link_does_not_lead_a_disposal_out_of_the_folder(savepoint: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    precious = tmp_path / "home" / "precious"
    precious.write_text("mine")
    (savepoint / "link").symlink_to(precious.parent)
    files.forge(savepoint, lambda document: document["files"].update({"link": [4, "x"], "link/precious": [4, "x"]}))
    with pytest.raises(SavepointError, match="holds what is not part of the savepoint: link"):
        FolderSavepoint(savepoint).dispose()
    assert precious.read_text() == "mine"


def test_a_pipe_as_manifest_is_not_waited_for(savepoint: Path) -> None:
    (savepoint / "manifest.json").unlink()
    os.mkfifo(savepoint / "manifest.json")
    (found,) = FolderPlace(savepoint.parent).found()
    assert "cannot be read: not a file" in found.why


@contextmanager
def another_user() -> Iterator[None]:
    """Root may read everything; a test of any other user is refused by a mode."""
    if is_root := os.geteuid() == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_savepoints_of_another_user_are_skipped(savepoint: Path) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        mine = folder / "mine"
        shutil.copytree(savepoint, mine)
        mine.chmod(0o755)
        theirs, partial = folder / "savepoint-theirs-1-0000", folder / "savepoint-theirs-2-0000.partial"
        (folder / "private").mkdir(mode=0)
        for each in (theirs, partial):
            files.put(each / ".lock", "")
            each.chmod(0)
        with another_user():
            place = FolderPlace(folder)
            place.prepare()
            found = {each.at: each.why for each in place.found()}
        assert found == {mine: "", theirs: f"{theirs} cannot be read: Permission denied", partial: "is being written"}
        for each in (theirs, partial, folder / "private"):
            each.chmod(0o700)


def test_a_manifest_without_end_is_not_read_into_memory(savepoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MAX_SMALL", (savepoint / "manifest.json").stat().st_size - 1)
    with pytest.raises(SavepointError, match="it is too large"):
        manifests.read(savepoint)


@pytest.mark.parametrize("name", ["head.json", "spark/offsets/5"])
def test_a_file_that_every_savepoint_has_is_missed(savepoint: Path, name: str) -> None:
    files.forge(savepoint, lambda document: document["files"].pop(name))
    (savepoint / name).unlink()
    with pytest.raises(SavepointError, match=rf"{name}: manifest\.json does not name it"):
        manifests.checked(savepoint)


def test_a_writer_that_was_frozen_before_its_rename_shows_no_half_of_a_savepoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has released its lock, stands still for longer than a sweep waits, and continues while the sweep deletes."""
    place, delete, found = FolderPlace(tmp_path), shutil.rmtree, list[bool]()

    def freeze(partial: Path) -> None:
        monkeypatch.undo()
        os.utime(partial, (0, 0))
        monkeypatch.setattr(shutil, "rmtree", then_continue)
        place.prepare()

    def then_continue(path: Path, *, ignore_errors: bool) -> None:
        (path / "head.json").unlink()
        with pytest.raises(FileNotFoundError):
            partial.rename(target)
        found.append(target.exists())
        delete(path, ignore_errors=ignore_errors)

    with place.begin("savepoint-bbbbbb-6") as writing:
        partial, target = writing.partial, writing.target
        writing.write({"head.json": b"{}"}, {})
        monkeypatch.setattr(folders, "sync", freeze)
        with pytest.raises(FileNotFoundError):
            writing.publish(b"{}")
    assert found == [False]
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_as_lock_is_not_waited_for(savepoint: Path) -> None:
    half = savepoint.with_name("savepoint-bbbbbb-6-0000.partial")
    half.mkdir()
    os.mkfifo(half / ".lock")
    FolderPlace(savepoint.parent).prepare()
    assert not half.exists()


def test_a_folder_shows_what_is_one_and_what_was_to_be(savepoint: Path, tmp_path: Path) -> None:
    folder = savepoint.parent
    (folder / "other").mkdir()
    half = folder / "savepoint-bbbbbb-6-0000.partial"
    half.mkdir()
    (half / ".lock").touch()
    found = {Path(str(each.at)).name: (each.manifest is not None, each.why) for each in FolderPlace(folder).found()}
    assert found == {savepoint.name: (True, ""), half.name: (False, "unfinished: its writer was killed")}
    with pytest.raises(SavepointError, match="is no savepoint"):
        FolderSavepoint(half).dispose()
    take(files.spec_in(tmp_path))
    assert not half.exists(), "the next one sweeps it away"
