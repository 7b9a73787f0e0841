"""Every error of the framework that is raised on purpose.

ConnectorError
├── SpecError                     the YAML is wrong; nothing was started                     exit code 2
├── SourceError                   reading failed
│   ├── OffsetOutOfRangeError     the records of a planned range no longer exist
│   ├── UnknownTopicError         a topic does not exist
│   ├── SourceAccessError         the service refuses us: credentials or rights
│   └── BadRecordError            a record does not decode (`on_bad_record: fail`)
├── SinkError                     a sink cannot take what it is given
│   ├── TargetError               the table is missing, or does not fit the rows
│   ├── BadRowError               the sink refused a row for its own sake (type, constraint, length)
│   ├── IncomparableRowsError     nothing tells which of several rows of one key is the newest
│   ├── TooManyBadRowsError       more rows were refused than may become dead letters
│   ├── PrepareError              a writer could not prepare; the checkpoint is aborted
│   └── CommitOutcomeUnknownError a commit may have landed: looked up again before anything else
├── SinkUnavailableError          the service does not answer now; a restart may cure it
│   └── RowLockedError            another transaction held a row, or its key, for too long
├── SparkUnavailableError         Spark did not start, or its JVM ended
├── LostCommittableError          a committable of a completed checkpoint is gone (R7)
├── FencedError                   a newer epoch owns the pipeline (R1)
├── PermitRevokedError            a writer came too late: its try was aborted or its epoch ended (R5)
├── IdentityError                 the three stores do not tell one story (R2)
├── SetBackError                  a sink lacks what it had counted: it went back in time (H26)
├── PlanOverwrittenError          another driver has written its plan over Spark's of the same batch (H25)
├── ReplayMismatchError           a replayed batch is not the one that was decided (R4)
├── SavepointError                a savepoint cannot be taken, or is missing, damaged or of another format
├── HeadError                     the head register cannot be used
│   ├── HeadAccessError           the database of head refuses us: credentials, certificates or rights
│   ├── HeadUnknownError          a swap was not answered: it may or may not have landed
│   └── HeadFormatError           a newer version wrote head, a record or a table, or it is damaged
└── HistoryError                  what the pipeline has done cannot be read or written; it decides nothing

`retriable` says whether a restart of the pipeline may cure the error; the restart strategy asks nothing else.
"""

from __future__ import annotations

from wal.errors import RemediedError

__all__ = [
    "BadRecordError",
    "BadRowError",
    "CommitOutcomeUnknownError",
    "ConnectorError",
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


class ConnectorError(RemediedError):
    """Root of the tree."""


class SpecError(ConnectorError):
    """The spec is wrong. Nothing was started and nothing was touched."""


class SourceError(ConnectorError):
    """Reading from a source failed; nothing of the checkpoint is lost, it is read again."""

    retriable = True


class OffsetOutOfRangeError(SourceError):
    """Records of a planned offset range no longer exist (retention, or the topic was made again)."""

    retriable = False


class UnknownTopicError(SourceError):
    """A topic does not exist. Waiting does not create it."""

    retriable = False


class SourceAccessError(SourceError):
    """The service refuses us: wrong credentials, or rights that are missing."""

    retriable = False


class BadRecordError(SourceError):
    """A record does not decode. The message names topic, partition, offset and the reason."""

    retriable = False


class SinkError(ConnectorError):
    """A sink cannot take what it is given."""


class TargetError(SinkError):
    """The target is missing, or its columns do not fit the rows. Found before anything is read."""


class BadRowError(SinkError):
    """The sink refused a row for the row's own sake. Never raised for an outage."""


class IncomparableRowsError(SinkError):
    """Nothing tells which of several rows of one key is the newest: a fault of none of them alone."""


class TooManyBadRowsError(SinkError):
    """A sink refused more rows than may become dead letters in a checkpoint."""


class PrepareError(SinkError):
    """A writer could not prepare. Nothing of its checkpoint becomes visible: it is aborted and run again."""

    retriable = True


class CommitOutcomeUnknownError(SinkError):
    """A commit was sent and not answered. It is looked up, never assumed (R7)."""

    retriable = True


class SinkUnavailableError(ConnectorError):
    """The service behind a sink does not answer."""

    retriable = True


class RowLockedError(SinkUnavailableError):
    """A writer has waited for a row or a key that another transaction holds: somebody else's, or another task's."""


class SparkUnavailableError(ConnectorError):
    """Spark did not start, its JVM ended, or a worker lacks what tasks need. Only a new run cures it: a process cannot
    have a second JVM."""


class LostCommittableError(ConnectorError):
    """A committable of a completed checkpoint can never become visible (R7). The pipeline stops and says which."""


class FencedError(ConnectorError):
    """Another driver of this pipeline has started since. This one touches nothing more (R1)."""


class PermitRevokedError(ConnectorError):
    """This attempt's permit is gone, so nobody waits for what it would prepare (R5)."""

    retriable = True


class IdentityError(ConnectorError):
    """Head, Spark's checkpoint and the sinks do not tell one story (R2)."""


class SetBackError(ConnectorError):
    """A sink went back in time while the pipeline ran: a backup was restored, or a replica that lagged took over (H26).

    Or the driver did, with its memory: its machine was restored from a snapshot (H33). A restart compares the sink with
    head: it commits what is still prepared there, or says what is gone.
    """

    retriable = True

    @classmethod
    def of(cls, sink: str, found: int | None, known: int) -> SetBackError:
        """Return the error of a sink that counts `found` committed checkpoints, and had counted up to `known`."""
        counts = "counts no checkpoint" if found is None else f"counts checkpoints up to {found}"
        message = f"sink {sink} went back in time: it {counts}, and had counted up to {known}"
        remedy = (
            "was a backup restored, or did a replica take over that lagged? The next start compares the sink with "
            "head, and names what is missing (docs/backup.md)"
        )
        return cls(message, remedy=remedy)

    @classmethod
    def of_driver(cls, sink: str, checkpoint_id: int) -> SetBackError:
        """Return the error of a driver that is to write a checkpoint which the sink already has (H33)."""
        message = f"sink {sink} already has checkpoint {checkpoint_id}, which this driver is only about to write"
        remedy = (
            "was the driver's machine restored from a snapshot with its memory? Nothing was written. The next start "
            "compares the sink with head, and goes on where both are of one moment (docs/backup.md)"
        )
        return cls(message, remedy=remedy)


class PlanOverwrittenError(ConnectorError):
    """Two drivers have planned one batch at once, and Spark's file has the other one's plan (H25)."""

    retriable = True


class ReplayMismatchError(ConnectorError):
    """Spark re-runs a decided batch with other offsets or other rows (R4)."""


class SavepointError(ConnectorError):
    """A savepoint is missing, unfinished, damaged or of another format, or cannot be taken now. Nothing was changed."""


class HeadError(ConnectorError):
    """The head register cannot be read or written."""

    retriable = True


class HeadAccessError(HeadError):
    """The database that keeps head refuses us: wrong credentials, a certificate, or rights that are missing."""

    retriable = False


class HeadUnknownError(HeadError):
    """A swap was sent and not answered. It may have landed, or may land later (H2)."""


class HeadFormatError(HeadError):
    """A stored document or a table of the protocol has a format that this version does not read, or is damaged."""

    retriable = False


class HistoryError(ConnectorError):
    """The history of a pipeline cannot be read or written. Nothing is decided by it, and no pipeline stops for it."""
