"""Requests to HDFS, each with a time limit, and its errors in this package's words.

The client is hdfs-native: it speaks the RPC of the namenode and the protocol of the datanodes itself, without Java, and
reads the cluster's settings in `$HADOOP_CONF_DIR` (Kerberos, nameservices, protection of the transfer). It waits for an
answer without a limit. So each request runs in its own thread; one that does not end in time is given up and may still
be executed: its outcome is unknown, as with a put to an object store.

Reads are answered by the active namenode, never by an observer.
"""

from __future__ import annotations

import atexit
import io
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final, TypeVar
from weakref import WeakSet

from wal.address import ObjectAddress
from wal.errors import StorageError, StorageRefusedError
from wal.private import PRIVATE

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus

_T = TypeVar("_T")

_REQUEST_S: Final = 20.0
_END_S: Final = 1.0
_SLOWEST: Final = 1024 * 1024  # bytes that a request moves in a second, or it is given up
CHUNK_BYTES: Final = 4 * 1024 * 1024
_PROVIDER: Final = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"

_RPC_ERROR: Final = re.compile(r'(?:Fatal)?RPCError\("([\w.$]+)", "(.*?)(?:\\n|"\)$)', re.DOTALL)
_KIND: Final = re.compile(r"(\w+)\(")

_CREDENTIALS: Final = frozenset({"SASLError", "GSSAPIError", "NoSASLMechanism"})
_NO_RIGHT: Final = frozenset({"AccessControlException", "AuthorizationException", "SaslException", "InvalidToken"})
_FULL: Final = frozenset(
    {"NSQuotaExceededException", "DSQuotaExceededException", "QuotaByStorageTypeExceededException",
     "MaxDirectoryItemsExceededException", "PathComponentTooLongException"}
)  # fmt: skip

_clients: Final[dict[tuple[int, ObjectAddress], Client]] = {}
"""By process and address: a process that was forked has no threads of its parent's clients."""

_running: Final[WeakSet[threading.Thread]] = WeakSet()

_distrusted: Final[set[str]] = set()
"""Namenodes and nameservices that have left a request without an answer."""


class HdfsClient:
    """Requests below the path of an address. May be used by several threads; each call blocks.

    Paths are relative to the address. FileNotFoundError and FileExistsError are answers, which the caller judges. Any
    other failure is a StorageError, or a StorageRefusedError where no repetition helps.
    """

    def __init__(self, address: ObjectAddress) -> None:
        """Send nothing. Raises StorageRefusedError without the package hdfs-native, and for settings it refuses."""
        self.address = address
        _client(address)

    def status(self, path: str) -> FileStatus | None:
        """Return the status of a file or folder; None: it does not exist."""
        try:
            return self._send("look for", path, lambda hdfs, at: hdfs.get_file_info(at))
        except FileNotFoundError:
            return None

    def list(self, path: str) -> Sequence[FileStatus]:
        """Return the entries of a folder, sorted by name, or the file itself. Raises FileNotFoundError.

        One answer holds at least the first thousand entries, as they were at one moment.
        """
        return self._send("list", path, lambda hdfs, at: list(hdfs.list_status(at)))

    def read(self, path: str) -> bytes:
        """Return the content of a small file. Raises FileNotFoundError."""

        def whole(hdfs: Client, at: str) -> bytes:
            file = hdfs.read(at)
            content = file.read()
            if len(content) != len(file):
                message = f"{len(content)} of {len(file)} bytes were read"
                raise OSError(message)
            return content

        return self._send("read", path, whole)

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return these bytes of a file. Raises FileNotFoundError."""
        return self._send("read", path, lambda hdfs, at: hdfs.read(at).read_range(start, end - start), size=end - start)

    def write(self, path: str, content: BinaryIO | bytes, *, creates_folders: bool = True) -> None:
        """Write a new file, and return when all bytes are on the disks of its datanodes and its length is settled.

        Others see the file before it is complete: give it a name that nothing reads. Raises FileExistsError, and
        FileNotFoundError if its folder is missing and `creates_folders` is false.
        """
        try:
            self._write(path, content)
        except FileNotFoundError:
            if not creates_folders:
                raise
            self.make_folder(path.rpartition("/")[0])
            self._write(path, content)

    def _write(self, path: str, content: BinaryIO | bytes) -> None:
        from hdfs_native import WriteOptions

        size = len(content) if isinstance(content, bytes) else content.seek(0, os.SEEK_END)

        def whole(hdfs: Client, at: str) -> None:
            writer = hdfs.create(at, WriteOptions(create_parent=False))
            try:
                for chunk in _chunks(content):
                    writer.write(chunk)
                if size:
                    writer.hsync()
                writer.close()
            finally:  # otherwise its finalizer sends a request, in any thread and without a limit
                io.RawIOBase.close(writer)

        self._send("write", path, whole, size=size)

    def rename(self, path: str, target: str, *, overwrite: bool = False) -> None:
        """Rename a file or folder, in one step of the namenode, which is durable when it is answered.

        Raises FileExistsError if the target exists, and FileNotFoundError if the source does not. Sent once: after a
        StorageError that is retriable it may have happened, or may happen later.
        """
        to = self._path(target)
        self._send("rename", path, lambda hdfs, at: hdfs.rename(at, to, overwrite))

    def make_folder(self, path: str) -> None:
        """Create a folder, and the missing ones between the address and it, with mode 0700. Idempotent.

        An existing folder keeps its mode.
        """
        root = self._path("")

        def make(hdfs: Client, at: str) -> None:
            for each in dict.fromkeys((root, at)):  # what is missing between them gets the mode of the first
                hdfs.mkdirs(each, PRIVATE, create_parent=True)

        self._send("create", path, make)

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it. Idempotent."""
        self._send("delete", path, lambda hdfs, at: hdfs.delete(at, recursive=True))

    def delete_empty(self, path: str) -> None:
        """Delete a folder in which nothing is. Idempotent. Raises StorageError if something is in it."""
        self._send("delete", path, lambda hdfs, at: hdfs.delete(at, recursive=False))

    def place(self, path: str) -> str:
        """Return where it is, for messages."""
        return f"{self.address}/{path}".rstrip("/")

    def _path(self, path: str) -> str:
        return f"/{self.address.prefix}/{path}".rstrip("/")

    def _send(self, doing: str, path: str, request: Callable[[Client, str], _T], size: int = 0) -> _T:
        """Run one request within its time limit."""
        client, at = _client(self.address), self._path(path)
        limit_s = _REQUEST_S + size / _SLOWEST
        with _naming(f"{doing} {self.place(path)}"):
            try:
                return _within(limit_s, lambda: request(client, at))
            except TimeoutError:
                _forget(self.address)
                message = f"cannot {doing} {self.place(path)}: no answer within {limit_s:.0f} s"
                raise StorageError(message, remedy=_REACHED) from None


_REACHED: Final = "see that the namenode and the datanodes can be reached: the request is repeated"


def _within(limit_s: float, request: Callable[[], _T]) -> _T:
    """Return the result of a request. Raises TimeoutError: its thread continues, and nothing awaits it."""
    outcome: Future[_T] = Future()

    def run() -> None:
        try:
            outcome.set_result(request())
        except BaseException as error:  # noqa: BLE001  also a panic of the client
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name="hdfs request", daemon=True)
    _running.add(thread)
    thread.start()
    return outcome.result(limit_s)


@atexit.register
def _await_requests() -> None:
    """Wait a moment for requests that were given up: Python aborts where one returns while the process ends."""
    deadline = time.monotonic() + _END_S
    for thread in list(_running):
        thread.join(max(0.0, deadline - time.monotonic()))


def _chunks(content: BinaryIO | bytes) -> Iterator[bytes]:
    if isinstance(content, bytes):
        if content:
            yield content
        return
    content.seek(0)
    while chunk := content.read(CHUNK_BYTES):
        yield chunk


def _client(address: ObjectAddress) -> Client:
    """Return this process's client for the namenode, or nameservice, and the options of an address."""
    store = address.root
    key = (os.getpid(), store)
    found = _clients.get(key)
    if found is None:
        found = _clients[key] = _connect(store)
    return found


def _forget(address: ObjectAddress) -> None:
    """Give up the connections: a namenode whose machine is lost would leave each further request without an answer."""
    _distrusted.add(address.bucket)
    _clients.pop((os.getpid(), address.root), None)


def _connect(address: ObjectAddress) -> Client:
    try:
        from hdfs_native import Client
    except ImportError as error:
        message = f"{address} needs the Python package hdfs-native"
        raise StorageRefusedError(
            message, remedy="pip install 'eos-spark[hdfs]', here and wherever tasks run"
        ) from error
    options = dict(address.options)
    with _naming(f"use {address}"):
        return Client(
            f"hdfs://{address.bucket}",
            _settings(address.bucket, options.get("namenodes")),
            options.get("config_dir"),
            kerberos_principal=options.get("principal"),
            kerberos_keytab=options.get("keytab"),
        )


def _settings(authority: str, namenodes: str | None) -> dict[str, str]:
    """Return settings for the client, which override the files of `$HADOOP_CONF_DIR`."""
    settings = {
        "dfs.client.failover.max.attempts": "1" if ":" in authority else "4",
        "dfs.client.failover.sleep.base.millis": "100",
        "dfs.client.failover.sleep.max.millis": "1000",
        "dfs.client.socket-timeout": "20000",  # of a datanode
        f"dfs.client.failover.proxy.provider.{authority}": _PROVIDER,  # an observer may be behind
    }
    if authority in _distrusted:  # perhaps the first of its namenodes does not answer
        settings[f"dfs.client.failover.random.order.{authority}"] = "true"
    if namenodes is not None:
        hosts = dict(enumerate(each.strip() for each in namenodes.split(",")))
        settings[f"dfs.ha.namenodes.{authority}"] = ",".join(f"n{number}" for number in hosts)
        settings |= {f"dfs.namenode.rpc-address.{authority}.n{number}": host for number, host in hosts.items()}
    return settings


@contextmanager
def _naming(doing: str) -> Iterator[None]:
    """Around a request. "Exists" and "not found" pass through."""
    try:
        yield
    except (FileNotFoundError, FileExistsError, StorageError):
        raise
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the client is not an Exception
        raise _failed(doing, error) from error


def _failed(doing: str, error: BaseException) -> StorageError:
    text = str(error)
    match = _RPC_ERROR.search(text)
    name = match[1].rpartition(".")[2].rpartition("$")[2] if match else ""
    reason = f"{name}: {match[2]}" if match else text.partition("\n")[0] or type(error).__name__
    message = f"cannot {doing}: {reason[:300]}"
    if remedy := _refusal(error, name, text):
        return StorageRefusedError(message, remedy=remedy)
    return StorageError(message, remedy=_REACHED)


def _refusal(error: BaseException, name: str, text: str) -> str:
    """Return the remedy where no repetition helps; empty: it may help."""
    kind = match[1] if (match := _KIND.match(text)) else text
    if name in _NO_RIGHT:
        return "give the user of this process (its ticket, or HADOOP_USER_NAME) rights on that path"
    if kind in _CREDENTIALS:
        return "get a ticket with `kinit`, or give the options principal and keytab"
    if name in _FULL:
        return "raise the quota of that folder, or the limit that the message names"
    if isinstance(error, NotImplementedError):
        return "use a folder outside an encryption zone, and with a replicated policy (`hdfs ec`)"
    if kind in {"InvalidArgument", "UrlParseError", "XmlParseError"}:
        return "write hdfs://host:port/path, or describe the nameservice: option namenodes, or HADOOP_CONF_DIR"
    return ""
