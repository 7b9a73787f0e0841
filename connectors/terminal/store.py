"""The terminal as a store: rows are printed, and the tokens are files beside the pipeline's decisions."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.control_characters import escapes
from eos.errors import SinkUnavailableError, TargetError
from wal.private import make_private

_ESCAPES: Final = escapes()
"""A record may hold characters that would control the terminal."""


@dataclass(frozen=True)
class TerminalStore:
    """See TokenStore. A terminal takes nothing back, so a kill between the rows and the token prints the rows twice."""

    folder: Path  # of the tokens; created when it is first needed
    rows: int  # of a checkpoint that are printed
    stream: Literal["stdout", "stderr"]

    def applied(self, slot: str) -> str:
        with self._disk():
            try:
                return (self.folder / slot).read_text()
            except FileNotFoundError:
                return ""

    def apply(self, slot: str, expected: str, token: str, batches: Iterator[pa.RecordBatch]) -> bool:
        """Print the rows behind the comparison of the token, and then store the token."""
        with self._locked():
            if self.applied(slot) != expected:
                return False
            lines, left = self._lines(batches)
            if lines:
                self._print("".join(f"{line}\n" for line in lines), left)
            with self._disk():
                self._replace(slot, token)
            return True

    def check(self, schema: pa.Schema | None) -> Sequence[Finding]:
        return [Finding("terminal", True, f"rows are printed on {self.stream}")]

    def _lines(self, batches: Iterator[pa.RecordBatch]) -> tuple[list[str], int]:
        """Return the first rows as lines, and the number of the others."""
        lines: list[str] = []
        left = 0
        for batch in batches:
            first = batch.slice(0, self.rows - len(lines))
            lines += map(line_of, _rows(first))
            left += batch.num_rows - first.num_rows
        return lines, left

    def _print(self, text: str, left: int) -> None:
        try:
            stream = sys.stdout if self.stream == "stdout" else sys.stderr
            encoding = stream.encoding or "utf-8"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()
            if left:
                print(f"… and {left:,} more rows of this checkpoint", file=sys.stderr, flush=True)
        except (OSError, ValueError) as error:
            message = f"rows cannot be printed on {self.stream}: {error}"
            raise TargetError(message, remedy="keep the terminal, or the reader of the pipe, open") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock that makes comparison, rows and token one step for other processes."""
        with self._disk():
            make_private(self.folder)
            lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _replace(self, slot: str, token: str) -> None:
        new = self.folder / f"{slot}.new"
        with new.open("w") as file:
            file.write(token)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.folder / slot)
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"the tokens of a sink `print` in {self.folder}: {error.strerror}"
            raise SinkUnavailableError(message, remedy="make the disk of checkpoint.location writable") from error


def line_of(row: dict[str, object]) -> str:
    """Return a row as one line of JSON that a terminal can show."""
    return json.dumps(row, ensure_ascii=False, default=_plain).translate(_ESCAPES)


def _plain(value: object) -> str:
    """Return a value that JSON does not have as text: bytes in hex, decimals, moments."""
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, object]]:
    """Yield the rows with values that JSON, or `_plain`, can write. No value raises: its checkpoint is decided."""
    for index in range(batch.num_rows):
        yield {name: _readable(column[index]) for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def _readable(value: pa.Scalar) -> object:
    """Return a value at any depth, with moments as Arrow writes them: Python has no year beyond 9999."""
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {kind.field(index).name: _readable(value[index]) for index in range(kind.num_fields)}
    if pa.types.is_map(kind):
        return [[_readable(entry[0]), _readable(entry[1])] for entry in value.values]
    if pa.types.is_nested(kind):
        return [_readable(each) for each in value.values]
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        try:
            return value.cast(pa.string()).as_py()
        except pa.ArrowInvalid:  # a time zone that this machine does not know
            return str(value.value)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return value.as_buffer().to_pybytes().decode(errors="backslashreplace")  # Spark checks no bytes of a text
    return value.as_py()
