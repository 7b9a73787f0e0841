"""LocalStorage on a real folder: what is unfinished, whose names leave it, and which filesystems are refused."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wal.errors import (
    NetworkFilesystemError,
    ObjectMissingError,
    ObjectNameError,
    SegmentDamagedError,
    StorageError,
)
from wal.filesystem import filesystem_of, is_network, refuse_network_filesystem
from wal.local import LocalStorage
from wal.storage import check_name


def test_the_folder_is_made_on_demand(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "made" / "on demand")
    assert storage.names() == storage.unfinished() == []
    writer = storage.create("one")
    writer.write(b"half")
    assert storage.unfinished() == ["one"]
    writer.publish()
    assert (storage.names(), storage.unfinished()) == (["one"], [])


def test_a_discarded_writer_leaves_nothing(tmp_path: Path) -> None:
    writer = LocalStorage(tmp_path).create("one")
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_swept_writer_cannot_publish(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    writer = storage.create("late")
    writer.write(b"zombie")
    storage.sweep(["late"])
    with pytest.raises(ObjectMissingError, match="swept away"):
        writer.publish()
    assert storage.names() == []


def test_a_sweep_spares_names_that_only_begin_alike(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    kept = storage.create("a.b")
    swept = storage.create("a")
    storage.sweep(["a"])
    swept.discard()
    assert storage.unfinished() == ["a.b"]
    kept.publish()


def test_an_unusable_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StorageError, match=r"cannot begin .*file/one") as caught:
        LocalStorage(tmp_path / "file").create("one")
    assert caught.value.remedy
    with pytest.raises(StorageError, match="cannot list"):
        LocalStorage(tmp_path / "file").names()


def test_what_is_unfinished_is_of_its_folder(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    writers = [storage.create(name) for name in ("one", "a/one", "a/b/one")]
    assert storage.unfinished() == ["one"]
    assert storage.unfinished("a") == ["a/one"]
    storage.sweep(["a/one", "a/two"])
    assert storage.unfinished("a") == []
    with pytest.raises(ObjectMissingError, match=r"a/one: .* swept away"):
        writers[1].publish()
    writers[0].publish()
    writers[2].publish()
    assert (storage.names(), storage.names("a"), storage.names("a/b")) == (["one"], [], ["a/b/one"])


@given(st.text(max_size=40) | st.text("a./", max_size=8))
def test_no_name_leaves_the_folder(name: str) -> None:
    try:
        check_name(name)
    except ObjectNameError:
        return
    assert Path("/log") in (Path("/log") / name).resolve().parents
    assert not any(part.startswith(".") for part in name.split("/"))


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(SegmentDamagedError("segment x is damaged", remedy="restore it")))
    assert type(error) is SegmentDamagedError
    assert str(error) == "segment x is damaged\n  remedy: restore it"


MOUNTS = r"""
proc /proc proc rw 0 0
/dev/sda1 / ext4 rw 0 0
host:/export /mnt/nfs nfs4 rw 0 0
/dev/sdb1 /mnt/nfs/local xfs rw 0 0
//nas/share /mnt/with\040blank cifs rw 0 0
/dev/sdc1 /mnt/twice ext4 rw 0 0
s3fs /mnt/twice fuse.s3fs rw 0 0
C:\134 /mnt/c 9p rw 0 0
""".lstrip()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/x", "ext4"),
        ("/mnt/nfs/log", "nfs4"),
        ("/mnt/nfs", "nfs4"),
        ("/mnt/nfsx", "ext4"),
        ("/mnt/nfs/local/log", "xfs"),
        ("/mnt/with blank/log", "cifs"),
        ("/mnt/twice", "fuse.s3fs"),
        ("/mnt/c/Users", "9p"),
    ],
)
def test_the_filesystem_of_a_path(tmp_path: Path, path: str, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert filesystem_of(Path(path), mounts) == kind
    if is_network(kind):
        with pytest.raises(NetworkFilesystemError, match=kind):
            refuse_network_filesystem(Path(path), mounts)
    else:
        refuse_network_filesystem(Path(path), mounts)


def test_symbolic_links_are_followed(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nhost:/ {tmp_path}/far nfs rw 0 0\n")
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far")
    assert filesystem_of(tmp_path / "near" / "log", mounts) == "nfs"


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "fuse.sshfs", "fuse.gcsfuse"])
def test_network_filesystems(kind: str) -> None:
    assert is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "fuseblk", "virtiofs", "nfsd"])
def test_local_filesystems(kind: str) -> None:
    assert not is_network(kind)


def test_without_a_list_of_mounts_nothing_is_refused(tmp_path: Path) -> None:
    refuse_network_filesystem(tmp_path, tmp_path / "absent")


def test_h21_a_log_on_a_network_filesystem_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wal.filesystem.filesystem_of", lambda *_: "nfs4")
    with pytest.raises(NetworkFilesystemError, match="use a folder on a local disk"):
        LocalStorage(tmp_path)
    assert list(tmp_path.iterdir()) == []
