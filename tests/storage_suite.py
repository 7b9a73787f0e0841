"""What every Storage promises. A test module subclasses this with a fixture `storage`, which is empty."""

from __future__ import annotations

from typing import Final

import pytest

from wal.errors import ObjectExistsError, ObjectMissingError, ObjectNameError, StorageError
from wal.storage import Storage, TreeStorage

_BAD_PATHS: Final = ["a/", "/a", "a//b", "a/../b", "a/.b", "../a", "a/" * 100 + "b"]


def put(storage: Storage, name: str, content: bytes) -> None:
    writer = storage.create(name)
    writer.write(content)
    writer.publish()


class StorageSuite:
    """Give `storage` as a fixture."""

    def test_an_object_appears_whole_when_published(self, storage: Storage) -> None:
        assert list(storage.names()) == list(storage.unfinished()) == []
        writer = storage.create("one")
        writer.write(b"half")
        assert storage.names() == []
        with pytest.raises(ObjectMissingError):
            storage.open("one")
        writer.write(memoryview(b" and half"))
        writer.publish()
        assert (storage.names(), list(storage.unfinished())) == (["one"], [])
        with storage.open("one") as file:
            assert file.read() == b"half and half"

    def test_no_object_is_written_twice(self, storage: Storage) -> None:
        first, second = storage.create("one"), storage.create("one")
        second.write(b"second")
        second.publish()
        first.write(b"first")
        with pytest.raises(ObjectExistsError, match="one exists already"):
            first.publish()
        first.discard()
        with storage.open("one") as file:
            assert file.read() == b"second"
        assert list(storage.unfinished()) == []

    def test_a_discarded_writer_writes_nothing_more(self, storage: Storage) -> None:
        writer = storage.create("one")
        writer.write(b"1")
        writer.discard()
        writer.discard()
        for call in (lambda: writer.write(b"more"), writer.publish):
            with pytest.raises(StorageError, match="no longer being written"):
                call()
        assert storage.names() == []

    def test_a_discard_after_publishing_takes_nothing_away(self, storage: Storage) -> None:
        writer = storage.create("one")
        writer.publish()
        writer.discard()
        assert storage.names() == ["one"]

    def test_delete_and_sweep_are_idempotent(self, storage: Storage) -> None:
        put(storage, "one", b"1")
        for _ in range(2):
            storage.delete("one")
            storage.sweep(["one"])
        with pytest.raises(ObjectMissingError, match="one does not exist"):
            storage.open("one")

    def test_names_are_sorted_and_each_is_the_longest_that_is_allowed(self, storage: Storage) -> None:
        names = ["z", "A.b_c-d", "a" * 200, "0", "_z"]
        for name in names:
            put(storage, name, name.encode())
        assert storage.names() == sorted(names)
        with storage.open("a" * 200) as file:
            assert file.read() == b"a" * 200

    def test_a_folder_is_listed_by_itself(self, storage: Storage) -> None:
        names = ["one", "a/one", "a/two", "a/b/one", "ab/one"]
        for name in names:
            put(storage, name, name.encode())
        assert storage.names() == ["one"]
        assert storage.names("a") == ["a/one", "a/two"]
        assert storage.names("a/b") == ["a/b/one"]
        assert storage.names("none") == []
        for name in names:
            with storage.open(name) as file:
                assert file.read() == name.encode()
        storage.delete("a/one")
        assert [*storage.names(), *storage.names("a"), *storage.names("ab")] == ["one", "a/two", "ab/one"]
        with pytest.raises(ObjectNameError):
            storage.names("..")

    @pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a\n", "a\0", "ä", "a" * 201, "-a", *_BAD_PATHS])
    def test_a_bad_name_is_refused_by_every_call(self, storage: Storage, name: str) -> None:
        for call in (storage.create, storage.open, storage.delete, lambda each: storage.sweep([each])):
            with pytest.raises(ObjectNameError):
                call(name)

    def test_a_folder_is_made_before_its_objects_and_again(self, storage: Storage) -> None:
        for _ in range(2):
            storage.prepare("life/sink")
            assert (list(storage.names("life/sink")), list(storage.names())) == ([], [])
        put(storage, "life/sink/one", b"1")
        storage.prepare("life/sink")
        assert list(storage.names("life/sink")) == ["life/sink/one"]
        with pytest.raises(ObjectNameError):
            storage.prepare("../sink")


class TreeSuite(StorageSuite):
    """Of a storage that is remote. Give `storage` as a fixture."""

    def test_a_tree_is_listed_and_deleted(self, storage: TreeStorage) -> None:
        assert (list(storage.folders()), list(storage.below())) == ([], [])
        storage.clear("none")
        names = ["one", "a/_two", "a/b/three", "a/b/c/four", "ab/five"]
        for name in names:
            put(storage, name, name.encode())
        assert list(storage.folders()) == ["a", "ab"]
        assert list(storage.folders("a")) == ["a/b"]
        assert list(storage.below()) == sorted(names)
        assert list(storage.below("a")) == ["a/_two", "a/b/c/four", "a/b/three"]
        assert list(storage.below("none")) == []
        storage.clear("a")
        assert list(storage.below("a")) == ["a/_two", "a/b/c/four", "a/b/three"], "only what is empty"
        for name in ("a/b/three", "a/b/c/four"):
            storage.delete(name)
        storage.clear("a")
        storage.clear("a")
        assert (list(storage.folders("a")), list(storage.below("a"))) == ([], ["a/_two"])
        storage.delete("a/_two")
        storage.clear("a")
        assert list(storage.folders()) == ["ab"]
        for call in (storage.folders, storage.below):
            with pytest.raises(ObjectNameError):
                call("..")
