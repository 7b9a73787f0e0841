"""Head, records and logs in HDFS: the contracts of all stores, and a namenode that stops, is killed or answers late."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connectors.buckets.location import check_location
from eos.errors import HeadAccessError, HeadError, HeadUnknownError
from integration_tests.harness.hdfs import Folder
from integration_tests.services.hdfs_cluster import HdfsServers
from tests.head_race import assert_each_version_is_won_once, await_version, open_head, racing
from tests.head_store_suite import HeadStoreSuite
from tests.storage_suite import TreeSuite, put
from twophase.head import HeadStore, Versioned
from twophase.object_head import ObjectHead
from wal import hdfs
from wal.address import ObjectAddress
from wal.errors import ObjectExistsError, ObjectMissingError, StorageError
from wal.hdfs import HdfsClient
from wal.hdfs_objects import HdfsObjects
from wal.hdfs_storage import HdfsStorage
from wal.storage import TreeStorage

pytestmark = [pytest.mark.any_server]

_SWAPS = 60
_KILLS = 3


class TestHead(HeadStoreSuite):
    """The contract of every head register."""

    @pytest.fixture
    def again(self, hdfs_folder: Folder) -> Callable[[], HeadStore]:
        return lambda: ObjectHead(hdfs_folder.address())


class TestStorage(TreeSuite):
    """The contract of every storage."""

    @pytest.fixture
    def storage(self, hdfs_folder: Folder) -> TreeStorage:
        return HdfsStorage(hdfs_folder.address())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[HdfsServers]:
    """One of the test's own, which may be killed."""
    with HdfsServers(tmp_path / "hdfs", tmp_path / "hdfs.log") as started:
        yield started


_READ_ALL = """
import sys
from integration_tests.harness.hdfs import Folder
from wal.errors import StorageRefusedError
from wal.hdfs import HdfsClient
folder = Folder(int(sys.argv[1]), sys.argv[2])
for path in sys.argv[3:]:
    try:
        print("read", path, HdfsClient(folder.address()).read(path))
    except StorageRefusedError as error:
        print("refused", path, error.message)
"""


def test_another_user_reads_nothing_in_folders_that_were_made(hdfs_folder: Folder) -> None:
    """As in folders of a disk. HDFS itself makes folders that every user may read, and state and logs have rows."""
    address = hdfs_folder.address()
    objects, storage = HdfsObjects(address), HdfsStorage(address.below("log"))
    tag = objects.swap("head", None, b"first")
    assert objects.swap("head", tag, b"second")
    assert objects.create("records/1", b"offsets")
    put(storage, "segment", b"rows")
    storage.prepare("state/deep")
    put(storage, "state/deep/pack", b"rows")
    files = hdfs_folder.listed()
    assert len(files) == 5
    command = [sys.executable, "-c", _READ_ALL, str(hdfs_folder.port), hdfs_folder.name, *files]
    environment = {**os.environ, "HADOOP_USER_NAME": "stranger"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert [line.partition(" ")[0] for line in done.stdout.splitlines()] == ["refused"] * 5, done.stdout
    assert done.stdout.count("AccessControlException") == 5


def test_a_folder_that_exists_keeps_its_mode(hdfs_folder: Folder) -> None:
    client = HdfsClient(hdfs_folder.address())
    client.make_folder("log")
    client._send("change", "log", lambda hdfs, at: hdfs.set_permission(at, 0o755))
    client.make_folder("log")
    client.write("log/segment", b"rows")
    found = client.status("log")
    assert found is not None
    assert found.permission == 0o755


def test_each_version_is_won_once_by_processes_that_race(hdfs_folder: Folder) -> None:
    place = hdfs_folder.address()
    store = open_head(place)
    with racing(place) as racers:
        await_version(store, _SWAPS)
    assert assert_each_version_is_won_once(store, racers) >= _SWAPS
    assert sum(bool(racer.won) for racer in racers) > 1
    assert any(racer.refused for racer in racers)
    left = [name for name in hdfs_folder.listed() if name.startswith("head/")]
    assert len(left) <= 2 + len(racers), left  # the marker, its value, and values of the last moment


def test_a_namenode_that_is_killed_while_processes_race_loses_no_swap_that_it_answered(cluster: HdfsServers) -> None:
    """Swaps that it had not answered are in the head or not, and a later read shows which."""
    place = Folder.of(cluster.port).address()
    store = open_head(place)
    version = 0
    with racing(place) as racers:
        for _ in range(_KILLS):
            await_version(store, version + _SWAPS // _KILLS)
            cluster.kill_namenode()
            cluster.start_namenode()
            cluster.await_ready()
            seen = store.read()
            assert seen is not None
            version = seen.version
        await_version(store, version + _SWAPS // _KILLS)
    assert assert_each_version_is_won_once(store, racers) >= _SWAPS
    assert sum(racer.failed_reads for racer in racers) + sum(len(racer.unanswered) for racer in racers) >= _KILLS


def _late_swap(
    cluster: HdfsServers, store: HeadStore, expected: Versioned | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Send a swap whose rename reaches a namenode that has stopped, and is executed when it continues."""
    rename = HdfsClient.rename

    def stopping(self: HdfsClient, path: str, target: str, *, overwrite: bool = False) -> None:
        cluster.stop_namenode()
        rename(self, path, target, overwrite=overwrite)

    with monkeypatch.context() as patch:
        patch.setattr(HdfsClient, "rename", stopping)
        patch.setattr(hdfs, "_REQUEST_S", 2.0)
        with pytest.raises(HeadUnknownError, match="no answer within 2 s") as caught:
            store.swap(expected, b"late")
    assert caught.value.retriable


@pytest.mark.parametrize("is_first", [True, False])
def test_a_swap_that_arrives_late_lands_where_nothing_came_between(
    cluster: HdfsServers, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    place = Folder.of(cluster.port).address()
    store, other = ObjectHead(place), ObjectHead(place)
    if not is_first:
        assert store.swap(None, b"one")
    expected = store.read()
    _late_swap(cluster, store, expected, monkeypatch)
    cluster.resume_namenode()
    await_version(other, 1 if is_first else 2)
    assert other.read() == Versioned(1 if is_first else 2, b"late")
    assert not other.swap(expected, b"another driver's")
    assert other.swap(other.read(), b"next")
    assert store.read() == other.read()


def test_a_rename_that_arrives_late_changes_nothing(hdfs_folder: Folder) -> None:
    """A driver is frozen between its value and its rename, while others swap and delete older values."""
    place = hdfs_folder.address()
    frozen, other = HdfsObjects(place), HdfsObjects(place)
    tag = frozen.swap("head", None, b"one")
    reached, released = threading.Event(), threading.Event()
    rename = HdfsClient.rename

    class Frozen(HdfsClient):
        def rename(self, path: str, target: str, *, overwrite: bool = False) -> None:
            reached.set()
            released.wait(60)
            rename(self, path, target, overwrite=overwrite)

    frozen._client = Frozen(place)
    outcome: list[object] = []
    thread = threading.Thread(target=lambda: outcome.append(frozen.swap("head", tag, b"late")))
    thread.start()
    assert reached.wait(60)
    newest = tag
    for number in range(5):
        newest = other.swap("head", newest, b"%d" % number)
        assert newest is not None
    released.set()
    thread.join(60)
    assert outcome == [None]
    found = other.read("head")
    assert found is not None
    assert (found.content, found.tag) == (b"4", newest)
    assert len([name for name in hdfs_folder.listed() if name.startswith("head/")]) == 2


def test_what_killed_drivers_have_left_is_deleted_by_the_next(hdfs_folder: Folder) -> None:
    """Values that no marker named. One of the next number may still be named, and stays."""
    client, objects = HdfsClient(hdfs_folder.address()), HdfsObjects(hdfs_folder.address())
    tag = objects.swap("head", None, b"one")
    left = [f"{number:020d}-{'0' * 16}" for number in (1, 2, 3)]
    for value in left:
        client.write(f"head/value-{value}", b"never named")
    newest = HdfsObjects(hdfs_folder.address()).swap("head", tag, b"two")
    assert newest is not None
    kept = {f"head/current-{newest.e_tag}", f"head/value-{newest.e_tag}", f"head/value-{left[2]}"}
    assert {name for name in hdfs_folder.listed() if name.startswith("head/")} == kept


def test_a_value_that_is_gone_is_an_error_that_says_so(hdfs_folder: Folder) -> None:
    store = ObjectHead(hdfs_folder.address())
    assert store.swap(None, b"one")
    (value,) = (name for name in hdfs_folder.listed() if "value-" in name)
    HdfsClient(hdfs_folder.address()).delete(value)
    with pytest.raises(HeadAccessError, match="which its marker names") as caught:
        store.read()
    assert "snapshot" in caught.value.remedy


def test_a_namenode_that_stops_is_an_error_that_passes(cluster: HdfsServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "_REQUEST_S", 2.0)
    store = ObjectHead(Folder.of(cluster.port).address())
    assert store.swap(None, b"one")
    store.put_record("a.json", b"content")
    cluster.stop_namenode()
    for call in (
        store.read,
        store.list_records,
        lambda: store.get_record("a.json"),
        lambda: store.put_record("b", b""),
    ):
        with pytest.raises(HeadError, match="no answer within 2 s") as caught:
            call()
        assert (type(caught.value), caught.value.retriable) == (HeadError, True)
    cluster.resume_namenode()
    cluster.await_ready()
    assert store.read() == Versioned(1, b"one")
    assert store.get_record("a.json") == b"content"
    cluster.kill_namenode()
    with pytest.raises(HeadError, match="Connection refused") as caught:
        store.read()
    assert caught.value.retriable


def test_a_swept_writer_does_not_publish(hdfs_folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is complete, and is deleted before its rename."""
    storage, other = HdfsStorage(hdfs_folder.address()), HdfsStorage(hdfs_folder.address())
    rename = HdfsClient.rename
    seen: list[str] = []

    def swept(self: HdfsClient, path: str, target: str, *, overwrite: bool = False) -> None:
        seen.extend(other.unfinished("f"))
        other.sweep(seen)
        rename(self, path, target, overwrite=overwrite)

    monkeypatch.setattr(HdfsClient, "rename", swept)
    writer = storage.create("f/one")
    writer.write(b"1" * 300_000)
    with pytest.raises(ObjectMissingError, match="swept away"):
        writer.publish()
    assert seen == ["f/one"]
    assert hdfs_folder.listed() == []


def test_a_register_that_was_swept_while_it_was_written_is_not_created_without_its_value(
    hdfs_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver was frozen for a day between the two files."""
    objects, other = HdfsObjects(hdfs_folder.address()), HdfsClient(hdfs_folder.address())
    write = HdfsClient.write

    def swept(self: HdfsClient, path: str, content: bytes, *, creates_folders: bool = True) -> None:
        if "/current-" in path:
            other.delete("unfinished")
        write(self, path, content, creates_folders=creates_folders)

    monkeypatch.setattr(HdfsClient, "write", swept)
    with pytest.raises(StorageError, match="its unfinished folder was deleted") as caught:
        objects.swap("head", None, b"one")
    assert caught.value.retriable
    assert objects.read("head") is None


def test_a_publish_without_an_answer_is_looked_up(hdfs_folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own bytes are its own; other bytes are another writer's; nothing there is an error that passes."""
    storage = HdfsStorage(hdfs_folder.address())
    rename, lost = HdfsClient.rename, StorageError("cannot rename: no answer", remedy="")

    def answer_lost(self: HdfsClient, path: str, target: str, *, overwrite: bool = False) -> None:
        rename(self, path, target, overwrite=overwrite)
        raise lost

    def request_lost(self: HdfsClient, path: str, target: str, *, overwrite: bool = False) -> None:
        raise lost

    monkeypatch.setattr(HdfsClient, "rename", answer_lost)
    put(storage, "one", b"1" * 100_000)
    monkeypatch.setattr(HdfsClient, "rename", request_lost)
    put(storage, "one", b"1" * 100_000)
    with pytest.raises(ObjectExistsError):
        put(storage, "one", b"2" * 100_000)
    with pytest.raises(StorageError) as caught:
        put(storage, "two", b"2")
    assert caught.value is lost
    assert storage.names() == ["one"]


def test_a_larger_object_is_read_from_any_place(hdfs_folder: Folder) -> None:
    storage = HdfsStorage(hdfs_folder.address())
    content = bytes(range(256)) * 40_000
    put(storage, "one", content)
    with storage.open("one") as file:
        for start, size in ((0, 10), (len(content) - 10, 10), (5_000_000, 70_000)):
            file.seek(start)
            assert file.read(size) == content[start : start + size]
        file.seek(0)
        assert file.read() == content


def test_the_doctor_proves_the_promises_and_leaves_nothing(hdfs_folder: Folder) -> None:
    found = {each.check: each for each in check_location(hdfs_folder.address())}
    assert all(each.ok for each in found.values()), found
    assert {"location store", "location store: conditional put", "location store: conditional replace"} <= found.keys()
    assert hdfs_folder.listed() == []


def test_a_path_without_rights_is_refused(hdfs_folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    ObjectHead(hdfs_folder.address()).put_record("a.json", b"content")
    at = hdfs_folder.address()
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    monkeypatch.setattr(hdfs, "_clients", {})
    with pytest.raises(HeadAccessError, match=r"AccessControlException: Permission denied: user=somebody") as caught:
        ObjectHead(at).put_record("b.json", b"content")
    assert "HADOOP_USER_NAME" in caught.value.remedy


@pytest.mark.parametrize("is_first_down", [True, False])
def test_a_nameservice_is_found_by_its_namenodes(hdfs_folder: Folder, is_first_down: bool) -> None:
    up, down = f"127.0.0.1:{hdfs_folder.port}", "127.0.0.1:1"
    namenodes = f"{down},{up}" if is_first_down else f"{up}, {down}"
    at = ObjectAddress.parse(f"hdfs://nameservice1/{hdfs_folder.name}/eos/orders", {"namenodes": namenodes})
    store = ObjectHead(at)
    assert store.swap(None, b"one")
    assert ObjectHead(hdfs_folder.address()).read() == Versioned(1, b"one")
