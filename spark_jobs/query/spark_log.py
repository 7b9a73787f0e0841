"""What Spark has written to its checkpoint folder, read without Spark (R2, R4)."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from eos.errors import IdentityError, PlanOverwrittenError, SpecError
from spark_jobs.query.source_offset import SourceOffset
from spark_jobs.query.truncated_files import drop, newest_whole, numbers
from twophase.head_value import HeadValue
from twophase.status import Status
from twophase.values import SparkState
from wal.durable import sync_all, sync_ancestors

STATE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
"""The setting of Spark's that says into how many partitions state is divided. A query keeps that of its first run."""

_LIMIT = '"operatorName":"globalLimit"'
_QUOTED = re.compile(
    r"""[\x00-\x20"#%<>?[\\\]^`{|}\x7f]"""
)  # by Java in URIs: Spark's rewriter of state quotes a path twice
_NEWEST = 4  # files: an entry and its checksum, and those before
_MOVE = "begin from a savepoint (`eos run --from-savepoint`) at another `checkpoint.location`, and divide it there"
_REMEDY = "restore Spark's checkpoint folder from a backup, or use `eos reset`"


@dataclass(frozen=True, slots=True)
class LocalSparkLog:
    """Spark's checkpoint folders of one pipeline: one for each incarnation, so that a reset begins empty."""

    location: Path  # checkpoint.location of the spec
    elsewhere: ClassVar[str] = _MOVE
    """How to give the folder another path."""

    def folder(self, incarnation: str) -> Path:
        """What Spark gets as `checkpointLocation`."""
        return self.location / "spark" / incarnation

    def state(self, incarnation: str) -> SparkState:
        folder = self.folder(incarnation)
        planned = numbers(folder / "offsets")
        query_id = query_id_or_damage(lambda: self.query_id(incarnation))
        return spark_state(
            query_id,
            planned,
            newest_committed=newest_whole(folder / "commits"),
            offsets_log=lambda number: self.offsets_log(incarnation, number),
        )

    @contextmanager
    def reading(self, status: Status, *, has_state: bool) -> Iterator[Path]:
        """Spark's folder, held for a savepoint beside a query that may run.

        `has_state`: steps of the query keep some, or have a watermark. Raises FileNotFoundError where a driver has
        completed another checkpoint meanwhile, OSError, and as `restore_state`.
        """
        yield self.folder(status.head.incarnation)

    def is_done(self, incarnation: str, checkpoint_id: int) -> bool:
        """Whether Spark has marked this batch as done, or there is none: Spark renames `commits/N` into place."""
        return checkpoint_id < 0 or (self.folder(incarnation) / "commits" / str(checkpoint_id)).exists()

    def query_id(self, incarnation: str) -> str | None:
        """The id that Spark gave the query when it first started; None before that."""
        path = self.folder(incarnation) / "metadata"
        try:
            return query_id_in(path.read_text(errors="replace"), str(path))
        except FileNotFoundError:
            return None

    def offsets_log(self, incarnation: str, checkpoint_id: int) -> str:
        """Spark's `offsets/N` to the letter; what is no text is told as such, and equal to nothing that was decided."""
        return self._plan(incarnation, checkpoint_id).read_text(errors="replace")

    def plan_after(self, incarnation: str, checkpoint_id: int, sources: Sequence[str]) -> dict[str, SourceOffset]:
        """What Spark has planned after this checkpoint; empty if nothing. Raises IdentityError like `planned`."""
        path = self._plan(incarnation, checkpoint_id + 1)
        try:
            return planned(self.offsets_log(incarnation, checkpoint_id + 1), sources, f"Spark's {path}")
        except FileNotFoundError:
            return {}

    def check_divisible(self, incarnation: str) -> None:
        """Whether the query keeps state that Spark can divide anew. Only after its first batch. Raises SpecError.

        Looked at before Spark is asked: it would plan first, and then find out.
        """
        if quoted := quoted_in(self.location):
            message = f"Spark cannot divide state at {self.location}: it does not find a path with {quoted!r}"
            raise SpecError(message, remedy=self.elsewhere)
        described = [path for path in self.folder(incarnation).glob("state/*/_metadata/**/[!.]*") if path.is_file()]
        if not described:
            message = "the pipeline keeps no state: there is nothing to divide"
            raise SpecError(message, remedy="its tasks are as many as Spark has cores at the start")
        if any(_LIMIT in path.read_text() for path in described):
            message = "a step has a LIMIT, which counts in one partition: Spark cannot divide that state"
            raise SpecError(message, remedy="leave it as it is; or remove the LIMIT and restart with `eos reset`")

    def state_bytes(self, incarnation: str) -> int:
        """What the state takes on disk, with the older versions of it that Spark keeps."""
        sizes = 0
        for path in self.folder(incarnation).glob("state/**/*"):
            with suppress(FileNotFoundError):  # Spark deletes old versions meanwhile
                sizes += path.stat().st_size if path.is_file() else 0
        return sizes

    def drop_plan(self, incarnation: str, checkpoint_id: int) -> None:
        """Take back what a rescale has planned and Spark has not committed."""
        state = self.state(incarnation)
        if (
            state.newest_planned != checkpoint_id
            or state.rescaled_to is None
            or state.newest_committed >= checkpoint_id
        ):
            return
        self.forget_plan(incarnation, checkpoint_id)

    def forget_plan(self, incarnation: str, checkpoint_id: int) -> None:
        """Delete a plan that is not decided: only a rescale's, and what a power cut has left (`spark_log_repair`)."""
        folder = self.folder(incarnation)
        described = folder.glob("state/*/_metadata/v2")  # of what may have other partitions in this plan
        for place in (*described, folder / "offsets"):  # the plan last: while it is there, this has not ended
            drop(place, str(checkpoint_id))

    def forget(self, incarnation: str) -> bool:
        """Delete Spark's checkpoint of an incarnation that a reset has ended. False: not all of it could be deleted.

        Named, and never "all others": a driver that does not know that it was reset would delete its successor's.
        """
        shutil.rmtree(self.folder(incarnation), ignore_errors=True)
        return not self.folder(incarnation).exists()

    def note_end(self, head: HeadValue) -> None:
        """Called when a query has ended without a failure. Nothing to note: the folder stays."""

    def restore_state(self, head: HeadValue) -> None:
        """Called before a query with state, or with a watermark, starts. Nothing to do: its folder stays."""

    def finds_state(self, head: HeadValue) -> bool:
        """Whether `restore_state` finds the state that head's checkpoints rest on. Raises HeadError."""
        return True

    @contextmanager
    def state_after(self, head: HeadValue, checkpoint_id: int) -> Iterator[Path]:
        """Spark's folder with the state after this checkpoint, held during a repair. It may lack this state.

        Raises as `restore_state`.
        """
        yield self.folder(head.incarnation)

    def fetch_state(self, head: HeadValue) -> None:
        """Called before a command inspects the state of a pipeline that is stopped. Raises as `restore_state`."""

    def keep_undecided_state(self, checkpoint_id: int) -> None:
        """Called by a rescale, before head decides this checkpoint: Spark cannot repeat it. Here nothing to do."""

    def announce(self, incarnation: str) -> Sequence[str]:
        """Called by a start from a savepoint, once it has read head. Return incarnations that earlier ones have left.

        Here none: their folders are swept by their locks.
        """
        return ()

    def keep_first_state(self, incarnation: str, epoch: int, checkpoint_id: int) -> None:
        """Called by a start from a savepoint with state, before head has the incarnation. Its folder is filled.

        Nothing to do: the folder stays.
        """

    def settle(self, incarnation: str, noted: Sequence[str]) -> None:
        """Delete leftovers of earlier starts (`announce`), once head has this incarnation. Here nothing."""

    def keep_state(self, head: HeadValue) -> None:
        """Called often while a query runs, and returns at once: its newest checkpoint may be done."""

    def await_state(self, checkpoint_id: int) -> None:
        """Block until a start can have the state after this checkpoint (R6). Here it can at once."""

    def sync_offsets(self, incarnation: str, checkpoint_id: int) -> None:
        """Make what Spark planned survive a power cut, which Spark does not: head must not decide a batch that is gone.

        Called before each decision, on the driver; some milliseconds of disk. With it goes that the batch before is
        done, so that a power cut takes that of the newest decided batch at the most, which Spark can run again.
        """
        folder = self.folder(incarnation)
        logs = ("commits", checkpoint_id - 1), ("offsets", checkpoint_id)
        entries = [folder / log / each for log, n in logs for each in (f"{n}", f".{n}.crc", "")]
        rests_on = (*self._of_sources(folder), *entries, folder / "metadata", folder)
        sync_all([path for path in rests_on if path.exists()])

    def source_lists(self, offsets_log: str) -> Mapping[str, str]:
        """Return nothing: only lists in a store are compared."""
        return {}

    def sync_query(self, incarnation: str) -> None:
        """Make the query's id and the path of Spark's folder survive a power cut, before head has the id.

        Called once per incarnation: nothing else syncs the folder's name.
        """
        folder = self.folder(incarnation)
        sync_all([folder / "metadata", folder])
        sync_ancestors(folder)

    def _plan(self, incarnation: str, checkpoint_id: int) -> Path:
        return self.folder(incarnation) / "offsets" / str(checkpoint_id)

    def _of_sources(self, folder: Path) -> list[Path]:
        """What else the plan rests on: nothing, where the sources are ours."""
        return []


@dataclass(frozen=True, slots=True)
class JobSparkLog(LocalSparkLog):
    """The checkpoint folder of a query that somebody else has started, which is `location` itself."""

    def folder(self, incarnation: str) -> Path:
        return self.location

    def _of_sources(self, folder: Path) -> list[Path]:
        """The newest entries of the logs that Spark's own sources keep: a file source's offset is a number of such."""
        paths: list[Path] = []
        for log in sorted((folder / "sources").glob("*/")):
            newest = sorted(log.iterdir(), key=lambda path: path.stat().st_mtime)[-_NEWEST:]
            paths += [*newest, log]
        return [*paths, folder / "sources"] if paths else []


def quoted_in(path: Path) -> str:
    """Return a character of a path for which Spark cannot rewrite state there; empty: none."""
    found = _QUOTED.search(str(path))
    return found[0] if found else ""


def spark_state(
    query_id: str | None, planned: Sequence[int], newest_committed: int, offsets_log: Callable[[int], str]
) -> SparkState:
    """Return the state of a checkpoint of Spark's.

    Args:
        query_id: as of `query_id_or_damage`.
        planned: the numbers in `offsets`, in their order.
        newest_committed: the newest whole file in `commits`; -1: none.
        offsets_log: returns the content of `offsets/N`.
    """
    logs = {number: offsets_log(number) for number in planned[-2:]}
    partitions = {number: _state_partitions(content) for number, content in logs.items()}
    return SparkState(
        query_id=query_id,
        newest_planned=planned[-1] if planned else -1,
        newest_committed=newest_committed,
        offsets_log=logs,
        state_partitions={number: count for number, count in partitions.items() if count is not None},
    )


def query_id_in(content: str, place: str) -> str:
    """Return the query's id from the content of `metadata`. Raises IdentityError for damage at this place."""
    try:
        return str(json.loads(content)["id"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IdentityError(f"{place} is damaged: {error!r}", remedy=_REMEDY) from error


def query_id_or_damage(read: Callable[[], str | None]) -> str | None:
    """Damage as an id that no query has: a start refuses it by that name, and a reset does not stumble over it."""
    try:
        return read()
    except IdentityError as error:
        return f"unknown, since {error.message}"


def path_of(location: str) -> Path | None:
    """Return the path of a location as Spark takes it; None where it has a scheme other than `file`."""
    scheme, colon, path = location.partition(":")
    if not colon or "/" in scheme:
        return Path(location)
    return Path("/" + path.lstrip("/")) if scheme == "file" else None


def local_folder(location: str, why: str, remedy: str) -> Path:
    """Return the path of a location as Spark takes it. Raises SpecError with this reason if it is not a local disk."""
    path = path_of(location)
    if path is None:
        raise SpecError(f"{location} is not on a local disk: {why}", remedy=remedy)
    return path


def planned(offsets_log: str, sources: Sequence[str], place: str = "Spark's offsets log") -> dict[str, SourceOffset]:
    """What the batch covers of each source, from the content of `offsets/N`: a version, metadata, a line a source.

    Raises IdentityError for what does not cover these sources, or cannot be read.

    Args:
        offsets_log: the content.
        sources: those that it must name, each once. A line is `-` until a source has its first records.
        place: where it stands, for messages.
    """
    version, *lines = offsets_log.splitlines() or [""]
    if len(lines) < 2:  # metadata, and no source
        raise IdentityError(f"{place} is empty or cut off", remedy=_REMEDY)
    lines = lines[1:]
    try:
        offsets = [SourceOffset.from_json(json.loads(line)) for line in lines if line != "-"]
        found = {offset.source: offset for offset in offsets}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"{place} does not hold offsets of ours: {error!r}"
        raise IdentityError(message, remedy=_REMEDY) from error
    if version != "v1" or len(lines) != len(sources) or len(found) < len(offsets) or not found.keys() <= set(sources):
        names = ", ".join(str(offset.source) for offset in offsets)
        message = f"{place} has version {version} and {len(lines)} sources ({names}); expected v1 and "
        raise IdentityError(message + ", ".join(sources), remedy="the sources of a pipeline cannot change; `eos reset`")
    return found


def check_ends(offsets_log: str, held: Sequence[int]) -> None:
    """Raise PlanOverwrittenError unless the batch that Spark runs ends where its file says (H25).

    Raises SpecError if the session has Spark write plans in format 2, from PySpark 4.2 on: they name sources by id.

    Args:
        offsets_log: the content of `offsets/N`.
        held: Java's `hashCode` of each source's offset, as Spark has it in memory.
    """
    if offsets_log.startswith("v2\n"):
        message = "Spark writes the plans of the query in format 2, and only format 1 can be read"
        remedy = "set spark.sql.streaming.offsetLog.formatVersion to 1, and begin with an empty checkpointLocation"
        raise SpecError(message, remedy=remedy)
    if sorted(held) != sorted(ends_of(offsets_log)):
        message = "another driver has written its own plan of this batch over Spark's"
        raise PlanOverwrittenError(message, remedy="see that only one is started; the batch is read as it stands there")


def ends_of(offsets_log: str) -> list[int]:
    """Return Java's `hashCode` of the offset at which each source ends, by the content of `offsets/N`."""
    lines = offsets_log.split("\n")[2:]  # a source may have any other end of a line within its JSON
    return [_java_hash(line) for line in lines if line != "-"]


def _java_hash(text: str) -> int:
    """Return Java's `String.hashCode` of a text."""
    found = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le")):
        found = (31 * found + unit) & 0xFFFFFFFF
    return found - (1 << 32) if found >> 31 else found


def _state_partitions(offsets_log: str) -> int | None:
    try:
        return int(json.loads(offsets_log.splitlines()[1])["conf"][STATE_PARTITIONS])
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, RecursionError):
        return None
