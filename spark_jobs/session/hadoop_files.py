"""Small files in any file system that a session of Spark's can read, such as `s3a://`, `hdfs://` or `dbfs:/`.

They are read by the session's own Hadoop client in the JVM. So they have the settings and credentials with which Spark
wrote the files, and no package of Python is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from eos.errors import SparkUnavailableError

_MISSING: Final = ("java.io.FileNotFoundException", "java.nio.file.NoSuchFileException")
_INTERRUPTED: Final = ("java.io.InterruptedIOException", "java.nio.channels.ClosedByInterruptException")
_Value = TypeVar("_Value")


class HadoopFolder:
    """A folder in the file system that its URL names. Each call blocks as long as Spark's own would."""

    def __init__(self, session: SparkSession, url: str) -> None:
        """Connect to the file system, or use the connection that this JVM has. Raises SparkUnavailableError.

        `url`: as Spark has resolved it. The settings of the session that has connected first apply, as Hadoop caches
        its connections.
        """
        self.url = url
        jvm: Any = session.sparkContext._jvm
        self._jvm = jvm
        try:
            self._root = jvm.org.apache.hadoop.fs.Path(url)
            self._files = self._root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        except (Py4JJavaError, PySparkException) as error:
            raise _unreadable(url, error) from error

    def read(self, path: str) -> bytes:
        """Return the content of a small file. Raises FileNotFoundError, SparkUnavailableError."""
        return self._call(path, lambda: self._content(path))

    def names(self, path: str) -> list[str]:
        """Return the names in a folder; empty if it does not exist. Raises SparkUnavailableError."""
        try:
            return self._call(path, lambda: self._names(path))
        except FileNotFoundError:
            return []

    def _content(self, path: str) -> bytes:
        stream = self._files.open(self._below(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def _names(self, path: str) -> list[str]:
        return [str(each.getPath().getName()) for each in self._files.listStatus(self._below(path))]

    def _below(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, path)

    def _call(self, path: str, call: Callable[[], _Value]) -> _Value:
        """Call, and once more if Spark's thread was interrupted: `query.stop` does so, which is not an outage."""
        place = f"{self.url}/{path}"
        try:
            return self._uninterrupted(call)
        except (Py4JJavaError, PySparkException) as error:
            if _class_of(error) in _MISSING:
                raise FileNotFoundError(place) from error
            raise _unreadable(place, error) from error

    def _uninterrupted(self, call: Callable[[], _Value]) -> _Value:
        try:
            return call()
        except Py4JJavaError as error:
            if _class_of(error) not in _INTERRUPTED:
                raise
        thread = self._jvm.java.lang.Thread
        thread.interrupted()
        try:
            return call()
        finally:
            thread.currentThread().interrupt()  # Spark itself has to see it


def _class_of(error: Exception) -> str:
    return str(error.java_exception.getClass().getName()) if isinstance(error, Py4JJavaError) else ""


def _unreadable(place: str, error: Exception) -> SparkUnavailableError:
    reason = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error).partition("\n")[0]
    message = f"Spark's checkpoint cannot be read at {place}: {reason}"
    remedy = "see that its file system answers; the next start of the query runs the batch again"
    return SparkUnavailableError(message, remedy=remedy)
