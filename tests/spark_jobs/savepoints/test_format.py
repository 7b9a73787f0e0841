"""A savepoint that is damaged, unfinished, of somebody else or of a newer version; and one of the first format."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from eos.errors import SavepointError
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.folder import FolderPlace, FolderSavepoint
from spark_jobs.savepoints.take import take
from tests import savepoint_files as files
from twophase.codec import decode_head, decode_record, sha256_of

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


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "spark/../../outside"])
def test_a_manifest_names_nothing_outside(savepoint: Path, path: str) -> None:
    document = json.loads((savepoint / "manifest.json").read_text())
    document["files"][path] = [1, "0" * 64]
    del document["checksum"]
    document["checksum"] = sha256_of(manifests._dump(document))
    (savepoint / "manifest.json").write_text(json.dumps(document))
    (savepoint.parent / "outside").write_text("x")
    with pytest.raises(SavepointError, match="damaged"):
        FolderSavepoint(savepoint).dispose()
    assert (savepoint.parent / "outside").exists()


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
    document = json.loads((savepoint / "manifest.json").read_text())
    del document["checksum"]
    document["files"] = {"link": [4, "x"], "link/precious": [4, "x"], **document["files"]}
    content = manifests._dump(document)
    (savepoint / "manifest.json").write_bytes(manifests._dump({**document, "checksum": sha256_of(content)}))
    with pytest.raises(SavepointError, match="holds what is not part of the savepoint: link"):
        FolderSavepoint(savepoint).dispose()
    assert precious.read_text() == "mine"


def test_a_pipe_as_manifest_is_not_waited_for(savepoint: Path) -> None:
    (savepoint / "manifest.json").unlink()
    os.mkfifo(savepoint / "manifest.json")
    (found,) = FolderPlace(savepoint.parent).found()
    assert "cannot be read: not a file" in found.why


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
