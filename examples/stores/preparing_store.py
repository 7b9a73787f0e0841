"""Level (b): Arrow files in a folder of a local disk. A manifest names the visible files."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from eos import Finding
from eos.errors import LostCommittableError


@dataclass(frozen=True)
class FolderStore:
    """`data/` has a file for each transaction. `manifest.json` names the committed ones."""

    folder: Path

    def prepare(self, transaction: str, batches: Iterator[pa.RecordBatch]) -> None:
        """Write one file, and make it durable under its name."""
        unfinished = self._data / f"{transaction}.unfinished"
        with unfinished.open("wb") as file:
            writer: pa.RecordBatchStreamWriter | None = None
            for batch in batches:
                writer = writer or pa.ipc.new_stream(file, batch.schema)
                writer.write_batch(batch)
            if writer is not None:
                writer.close()
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self._data / f"{transaction}.arrow")
        _sync(self._data)

    def commit(self, slot: str, expected: str, token: str, transactions: Sequence[str]) -> bool:
        """Replace the manifest by one that names these files, too."""
        with self._locked():
            manifest = self._manifest()
            if manifest["tokens"].get(slot, "") != expected:
                return False
            held = {each.stem for each in self._data.glob("*.arrow")} - set(manifest["files"])
            lost = [name for name in transactions if name not in held]
            if lost:
                message = f"{self.folder}: {lost[0]} is not prepared"
                raise LostCommittableError(message, remedy="run `eos repair`")
            manifest["tokens"][slot] = token
            manifest["files"] += transactions
            self._replace(manifest)
            return True

    def abort(self, transactions: Sequence[str]) -> None:
        """Delete files that the manifest does not name."""
        with self._locked():
            committed = set(self._manifest()["files"])
            for name in transactions:
                if name not in committed:
                    (self._data / f"{name}.arrow").unlink(missing_ok=True)
                    (self._data / f"{name}.unfinished").unlink(missing_ok=True)

    def list(self, prefix: str) -> Sequence[str]:
        """Return the files that the manifest does not name."""
        found = {each.stem for each in self._data.iterdir() if each.name.startswith(prefix)}
        return sorted(found - set(self._manifest()["files"]))

    def witness(self, slot: str) -> str:
        """Return the token in the manifest."""
        return str(self._manifest()["tokens"].get(slot, ""))

    def check(self, schema: pa.Schema | None) -> Sequence[Finding]:
        """Check that the folder can be written."""
        writable = os.access(self._data, os.W_OK)
        remedy = "" if writable else "give this user the right to write"
        return [Finding("folder", ok=writable, detail=str(self.folder), remedy=remedy)]

    def read(self) -> Iterator[pa.RecordBatch]:
        """Return the visible rows."""
        for name in self._manifest()["files"]:
            with pa.ipc.open_stream(self._data / f"{name}.arrow") as batches:
                yield from batches

    @property
    def _data(self) -> Path:
        folder = self.folder / "data"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _manifest(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.folder / "manifest.json").read_text()))
        except FileNotFoundError:
            return {"tokens": {}, "files": []}

    def _replace(self, manifest: dict[str, Any]) -> None:
        unfinished = self.folder / "manifest.unfinished"
        with unfinished.open("w") as file:
            json.dump(manifest, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self.folder / "manifest.json")
        _sync(self.folder)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the manifest. The kernel frees the lock of a killed process."""
        with (self._data.parent / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
