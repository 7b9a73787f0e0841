"""Small files in any file system that a session of Spark's can read, such as `s3a://`, `hdfs://` or `dbfs:/`.

They are read by the session's own Hadoop client in the JVM. So they have the settings and credentials with which Spark
wrote the files, and no package of Python is needed.
"""

from __future__ import annotations

from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from eos.errors import SparkUnavailableError

_MISSING: Final = ("java.io.FileNotFoundException", "java.nio.file.NoSuchFileException")


class HadoopFolder:
    """A folder in the file system that its URL names. Each call blocks as long as Spark's own would."""

    def __init__(self, session: SparkSession, url: str) -> None:
        """Connect to the file system, or use the connection that Spark has. Raises SparkUnavailableError.

        `url`: as Spark has resolved it. The session's settings apply, as for Spark's own log.
        """
        self.url = url
        jvm: Any = session.sparkContext._jvm
        self._jvm = jvm
        self._root = jvm.org.apache.hadoop.fs.Path(url)
        try:
            self._files = self._root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        except Py4JJavaError as error:
            raise _unreadable(url, error) from error

    def read(self, path: str) -> bytes:
        """Return the content of a small file. Raises FileNotFoundError, SparkUnavailableError."""
        try:
            stream = self._files.open(self._below(path))
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise self._failure(path, error) from error

    def names(self, path: str) -> list[str]:
        """Return the names in a folder; empty if it does not exist. Raises SparkUnavailableError."""
        try:
            return [str(each.getPath().getName()) for each in self._files.listStatus(self._below(path))]
        except Py4JJavaError as error:
            failure = self._failure(path, error)
            if isinstance(failure, FileNotFoundError):
                return []
            raise failure from error

    def _below(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, path)

    def _failure(self, path: str, error: Py4JJavaError) -> FileNotFoundError | SparkUnavailableError:
        place = f"{self.url}/{path}"
        if error.java_exception.getClass().getName() in _MISSING:
            return FileNotFoundError(place)
        return _unreadable(place, error)


def _unreadable(place: str, error: Py4JJavaError) -> SparkUnavailableError:
    message = f"Spark's checkpoint cannot be read at {place}: {error.java_exception.toString()}"
    remedy = "see that its file system answers; the next start of the query runs the batch again"
    return SparkUnavailableError(message, remedy=remedy)
