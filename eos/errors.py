"""Errors that the framework raises on purpose. Every module may import this one, and it imports no other room.

EosError
├── ConnectorError
│   ├── SpecError                     the YAML is wrong; nothing was started                     exit code 2
│   ├── SourceError                   a read failed
│   │   ├── OffsetOutOfRangeError     the records of a planned range no longer exist
│   │   ├── UnknownTopicError         a topic does not exist
│   │   ├── SourceAccessError         the service refuses the credentials, or rights are missing
│   │   └── BadRecordError            a record does not decode (`on_bad_record: fail`)
│   ├── ExpectationError              rows of a checkpoint fail a rule of a step (`expect`)
│   ├── SinkError                     a sink cannot take the rows
│   │   ├── TargetError               the table is missing, or does not fit the rows
│   │   ├── BadRowError               the sink refused a row because of its values (type, constraint, length)
│   │   ├── IncomparableRowsError     no column orders several rows of one key
│   │   ├── TooManyBadRowsError       the sink refused more rows than may become dead letters
│   │   └── PrepareError              a writer could not prepare; the checkpoint is aborted
│   ├── SinkUnavailableError          the service does not answer now; a restart may cure it
│   │   └── RowLockedError            another transaction held a row, or its key, for too long
│   ├── SparkUnavailableError         Spark did not start, or its JVM ended
│   ├── LostCommittableError          a committable of a completed checkpoint is gone (R7)
│   ├── FencedError                   a newer epoch owns the pipeline (R1)
│   ├── AlreadyRunningError           another process on this machine runs the pipeline
│   ├── PermitRevokedError            a writer came too late: its attempt was aborted or its epoch ended (R5)
│   ├── IdentityError                 head, Spark's checkpoint and the sinks contradict each other (R2)
│   ├── SetBackError                  a sink lacks checkpoints that it had counted: it went back in time (H26)
│   ├── PlanOverwrittenError          another driver has written its plan over Spark's of the same batch (H25)
│   ├── ReplayMismatchError           a replayed batch differs from the decided one (R4)
│   ├── SavepointError                a savepoint cannot be taken, or is missing, damaged or of another format
│   ├── HeadError                     the head register cannot be used
│   │   ├── HeadAccessError           the head's database refuses credentials, certificates or rights
│   │   ├── HeadUnknownError          a swap was not answered: it may or may not have landed
│   │   └── HeadFormatError           a newer version wrote head, a record or a table, or it is damaged
│   └── HistoryError                  the history of a pipeline cannot be read or written; it decides nothing
└── WalError                          segments and their storage, see `wal.errors`

Each class has a stable `code`, such as `EOS-UNKNOWN-TOPIC`, and docs/reference/errors.md a section for each code.
`retriable` says whether a restart of the pipeline may cure the error. The restart strategy reads nothing else. A
connector may raise a subclass of its own: handlers match by class, and an error that crosses to the driver arrives as
its nearest class of this module.
"""

from __future__ import annotations

from typing import ClassVar, Final

from eos.bounded import shorten

__all__ = [
    "AlreadyRunningError",
    "BadRecordError",
    "BadRowError",
    "ConnectorError",
    "EosError",
    "ExpectationError",
    "FencedError",
    "HeadAccessError",
    "HeadError",
    "HeadFormatError",
    "HeadUnknownError",
    "HistoryError",
    "IdentityError",
    "IncomparableRowsError",
    "LostCommittableError",
    "OffsetOutOfRangeError",
    "PermitRevokedError",
    "PlanOverwrittenError",
    "PrepareError",
    "ReplayMismatchError",
    "RowLockedError",
    "SavepointError",
    "SetBackError",
    "SinkError",
    "SinkUnavailableError",
    "SourceAccessError",
    "SourceError",
    "SparkUnavailableError",
    "SpecError",
    "TargetError",
    "TooManyBadRowsError",
    "UnknownTopicError",
]


ERRORS_PAGE: Final = "https://github.com/eos-spark/eos/blob/main/docs/reference/errors.md"
"""The page with a section for each code."""


def link_of(code: str) -> str:
    """Return the URL of the section about a code."""
    return f"{ERRORS_PAGE}#{code.lower()}"


class EosError(Exception):
    """Root of all errors of the framework: a message, and a remedy in one sentence.

    Raised by: nothing directly. Catch it around `run` or a query to handle every failure that the framework reports.
    Attributes: `message` says what happened and where; `remedy` says what to do, or is empty; `retriable` says whether
    a retry may help (each subtree says what is retried); `code` names the kind of error, and `link` the section about
    it. `str` returns the message, and the remedy on a second line. A traceback shows code and link as a note.

    Invariant: message and remedy are bounded. An error may quote a record, and logs, the history and the page read it.
    Invariant: a code keeps its meaning in all later versions. A subclass without a code has its parent's.
    """

    code: ClassVar[str] = "EOS-ERROR"
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, *, remedy: str = "") -> None:
        self.message = shorten(message)
        self.remedy = shorten(remedy)
        super().__init__(self.message)
        self.add_note(f"{self.code}: {self.link}")

    @property
    def link(self) -> str:
        """The URL of the section about this code: causes and remedies."""
        return link_of(self.code)

    def __str__(self) -> str:
        return f"{self.message}\n  remedy: {self.remedy}" if self.remedy else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.remedy)


def _rebuild(kind: type[EosError], message: str, remedy: str) -> EosError:
    """Build an error that was pickled: by default, pickle would lose the keyword."""
    return kind(message, remedy=remedy)


class ConnectorError(EosError):
    """Root of the errors that end a checkpoint, a run or a command."""


class SpecError(ConnectorError):
    """The spec, an option or an argument is wrong.

    Raised by: `load_spec`, `run`, `ExactlyOnce` and every command, before a service is touched. A connector raises it
    for options of its entry that contradict each other. The command exits with code 2. A restart does not help.
    """

    code = "EOS-SPEC"


class SourceError(ConnectorError):
    """A read from a source failed.

    Raised by: each method of a `Source` whose service does not answer. The checkpoint is aborted, the restart strategy
    restarts the pipeline, and the same offsets are read once more: no record is lost. Subclasses that a restart does
    not cure set `retriable = False`.
    """

    code = "EOS-SOURCE"
    retriable = True


class OffsetOutOfRangeError(SourceError):
    """Records of a planned offset range no longer exist: retention removed them, or the topic was recreated.

    Raised by: `Source.starting_point`, `horizon`, `check_witnesses` and `read`. The pipeline stops, since its next rows
    would not follow its last ones (R6). A restart does not help.
    """

    code = "EOS-OFFSET-OUT-OF-RANGE"
    retriable = False


class UnknownTopicError(SourceError):
    """A topic does not exist. Waiting does not create it."""

    code = "EOS-UNKNOWN-TOPIC"
    retriable = False


class SourceAccessError(SourceError):
    """The service refuses the credentials, or rights are missing."""

    code = "EOS-SOURCE-ACCESS"
    retriable = False


class BadRecordError(SourceError):
    """A record does not decode. The message names topic, partition, offset and the reason."""

    code = "EOS-BAD-RECORD"
    retriable = False


class ExpectationError(ConnectorError):
    """Rows of a checkpoint fail a rule of a step. The message names the step, the rule and the number of rows.

    Raised before the checkpoint is decided: a rule with `action: fail`, or more rows than `max_failed` allows.
    """

    code = "EOS-EXPECTATION"
    retriable = False


class SinkError(ConnectorError):
    """A sink cannot take the rows, and a restart does not help.

    Raised by: `Sink`, `Writer` and `Committer`, where no subclass fits. The pipeline stops with this error.
    """

    code = "EOS-SINK"


class TargetError(SinkError):
    """The target is missing, or its columns do not fit the rows.

    Raised by: `Sink.open` and `Committer.inspect`, on the driver, before a record is read. The message lists every
    column that does not fit. A restart does not help.
    """

    code = "EOS-TARGET"


class BadRowError(SinkError):
    """The sink refused a row because of its values (type, constraint, length).

    Raised by: `Writer.write`, `write_atomic` and `prepare`, in a task. Never raise it for an outage: with `dead_letter`
    in the spec, the refused row is searched, written there, and left out. Without `dead_letter` the pipeline stops.
    """

    code = "EOS-BAD-ROW"


class IncomparableRowsError(SinkError):
    """No column orders several rows of one key, so none of them is the newest. No single row is at fault."""

    code = "EOS-INCOMPARABLE-ROWS"


class TooManyBadRowsError(SinkError):
    """A sink refused more rows than may become dead letters in a checkpoint."""

    code = "EOS-TOO-MANY-BAD-ROWS"


class PrepareError(SinkError):
    """A writer could not prepare its rows.

    Raised by: `Writer.write` and `prepare`, in a task, for a failure that concerns this attempt and not the rows. Spark
    may retry the task with a new writer. Otherwise the checkpoint is aborted, no row of it becomes visible, and the
    restart strategy decides (R8).
    """

    code = "EOS-PREPARE"
    retriable = True


class SinkUnavailableError(ConnectorError):
    """The service behind a sink does not answer now, or a call was sent and not answered.

    Raised by: every method of `Sink`, `Writer` and `Committer`, for a lost connection, a timeout or a deadlock. The
    driver retries a whole call of a committer by this class, so each call is idempotent: a commit that may
    have landed is looked up, never assumed (R7). In a task it ends the attempt; the restart strategy decides.
    """

    code = "EOS-SINK-UNAVAILABLE"
    retriable = True


class RowLockedError(SinkUnavailableError):
    """A writer has waited too long for a row or a key that another transaction holds."""

    code = "EOS-ROW-LOCKED"


class SparkUnavailableError(ConnectorError):
    """Spark did not start, its JVM ended, or a worker lacks a package that tasks need. Only a new process cures it: a
    process cannot have a second JVM."""

    code = "EOS-SPARK-UNAVAILABLE"


class LostCommittableError(ConnectorError):
    """A committable of a completed checkpoint can never become visible (R7). The pipeline stops and names it."""

    code = "EOS-LOST-COMMITTABLE"


class FencedError(ConnectorError):
    """A newer epoch owns the pipeline: another driver has started it since.

    Raised by: `Committer.claim` and `permit`, where the claim row holds a higher epoch, and by the head register. The
    driver stops at once and changes nothing more, since the newer one decides now (R1). A restart does not help.
    """

    code = "EOS-FENCED"


class AlreadyRunningError(ConnectorError):
    """Another process on this machine runs the pipeline, and this command does not work beside it.

    Raised by: `eos run` without `--take-over`, and commands that need a stopped pipeline. Nothing was changed. A driver
    on another machine is not seen; fencing keeps two drivers apart (R1).
    """

    code = "EOS-ALREADY-RUNNING"


class PermitRevokedError(ConnectorError):
    """The permit of this attempt is gone: its checkpoint was aborted, or its epoch ended.

    Raised by: `Writer.write` and `prepare`, in a task, which then leaves nothing prepared (R5). The driver does not
    wait for this attempt, so the error concerns only the task.
    """

    code = "EOS-PERMIT-REVOKED"
    retriable = True


class IdentityError(ConnectorError):
    """Head, Spark's checkpoint and the sinks contradict each other.

    Raised by: a start, before it changes anything (R2), and `Committer.claim`, where the claim row holds another
    incarnation. The message says which one differs, and the remedy which command resolves it. A restart does not help.
    """

    code = "EOS-IDENTITY"


class SetBackError(ConnectorError):
    """A sink went back in time while the pipeline ran: a backup was restored, or a replica that lagged took over (H26).

    Or the driver did, with its memory: its machine was restored from a snapshot (H33).

    Raised by: `Committer.claim`, `permit`, `commit`, `count`, `revoke` and `fast_forward`, where the sink has counted
    fewer checkpoints than `counted` or `known`. A restart compares the sink with head: it commits what is
    still prepared, or says what is gone.
    """

    code = "EOS-SET-BACK"
    retriable = True

    @classmethod
    def of(cls, sink: str, found: int | None, known: int) -> SetBackError:
        """Return the error of a sink that counts `found` committed checkpoints, and had counted up to `known`."""
        counts = "counts no checkpoint" if found is None else f"counts checkpoints up to {found}"
        message = f"sink {sink} went back in time: it {counts}, and had counted up to {known}"
        remedy = (
            "was a backup restored, or did a replica take over that lagged? The next start compares the sink with "
            "head, and names what is missing (docs/how-to/backup.md)"
        )
        return cls(message, remedy=remedy)

    @classmethod
    def of_driver(cls, sink: str, checkpoint_id: int) -> SetBackError:
        """Return the error of a driver that is to write a checkpoint which the sink already has (H33)."""
        message = f"sink {sink} already has checkpoint {checkpoint_id}, which this driver is only about to write"
        remedy = (
            "was the driver's machine restored from a snapshot with its memory? Nothing was written. The next start "
            "compares the sink with head, and goes on where both are of one moment (docs/how-to/backup.md)"
        )
        return cls(message, remedy=remedy)


class PlanOverwrittenError(ConnectorError):
    """Two drivers have planned one batch at once, and Spark's file holds the plan of the other driver (H25)."""

    code = "EOS-PLAN-OVERWRITTEN"
    retriable = True


class ReplayMismatchError(ConnectorError):
    """Spark re-runs a decided batch with other offsets or other rows (R4)."""

    code = "EOS-REPLAY-MISMATCH"


class SavepointError(ConnectorError):
    """A savepoint is missing, unfinished, damaged or of another format, or cannot be taken now. Nothing was changed."""

    code = "EOS-SAVEPOINT"


class HeadError(ConnectorError):
    """The head register cannot be read or written."""

    code = "EOS-HEAD"
    retriable = True


class HeadAccessError(HeadError):
    """The head's database or store refuses the credentials or a certificate, or rights are missing."""

    code = "EOS-HEAD-ACCESS"
    retriable = False


class HeadUnknownError(HeadError):
    """A swap was sent and not answered. It may have landed, or may land later (H2)."""

    code = "EOS-HEAD-UNKNOWN"


class HeadFormatError(HeadError):
    """A stored document or a table of the protocol is damaged, or has a format that this version does not read."""

    code = "EOS-HEAD-FORMAT"
    retriable = False


class HistoryError(ConnectorError):
    """The history of a pipeline cannot be read or written. It decides nothing, and no pipeline stops for it."""

    code = "EOS-HISTORY"
