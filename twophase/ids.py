"""Transaction ids (R5): fixed-width ASCII that names who prepared what, for every store that must tell them apart."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from functools import cache, lru_cache

INCARNATION_LENGTH = 20
_SINK_LENGTH = 12
_RANDOM_BITS = 31

_GLOBAL = re.compile(r"([0-9a-z]{20})-([0-9a-f]{8})-([0-9a-f]{12})-([0-9a-f]{4})")
_BRANCH = re.compile(r"([0-9a-f]{12})-([0-9a-f]{6})-([0-9a-f]{16})")


@cache
def sink_key(name: str) -> str:
    """Twelve hex digits that stand for a sink's name, which may be long and of any alphabet."""
    return hashlib.sha256(name.encode()).hexdigest()[:_SINK_LENGTH]


def fresh_attempt(spark_attempt: int) -> int:
    """Return the number of one attempt to run a task: Spark's, and random bits behind it. Fits into a BIGINT.

    `spark_attempt`: TaskContext.taskAttemptId(): unique in a Spark application; attemptNumber() is not (H1). A machine
    that is restored from a snapshot with its memory gives the same ones out again, but never the same bits (H33).
    """
    return spark_attempt << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)


@dataclass(frozen=True, order=True, slots=True)
class Scope:
    """One attempt of one checkpoint: the unit of a permit, and the common part of its transaction ids.

    Created by: the driver. Read by: `Committer.permit` and `revoke`, and by sinks that store it. `str` writes it at a
    fixed width, and `parse` reads it. No two attempts of a checkpoint share a scope (R5).
    """

    incarnation: str  # one life of a pipeline; INCARNATION_LENGTH lower-case ASCII letters and digits
    epoch: int  # generation of the coordinator; fencing only
    checkpoint_id: int  # Spark's batch id
    attempt: int = 1  # "try k" of R8: grows when the same epoch runs the checkpoint again after an abort

    def __str__(self) -> str:
        """47 characters, the `gtrid` of an XA id."""
        return f"{self.incarnation}-{self.epoch:08x}-{self.checkpoint_id:012x}-{self.attempt:04x}"

    @staticmethod
    @lru_cache(maxsize=64)
    def parse(text: str) -> Scope | None:
        """The scope that `str` wrote, or None for anything else (a foreign id).

        The ids of one checkpoint, thousands, are of one scope.
        """
        match = _GLOBAL.fullmatch(text)
        if match is None:
            return None
        incarnation, epoch, checkpoint_id, attempt = match.groups()
        return Scope(incarnation, int(epoch, 16), int(checkpoint_id, 16), int(attempt, 16))


@dataclass(frozen=True, order=True, slots=True)
class TransactionId:
    """The id of one attempt of one task to write its rows of one checkpoint into one sink.

    Created by: the task, which passes it to `Sink.writer`. Read by: the sink, which prepares under it, and the driver,
    which finds by it who prepared a transaction. `str` writes it at a fixed width, and `parse` returns None for a
    foreign id. No two attempts share an id (R5).
    """

    scope: Scope
    sink: str  # sink_key(name), so that the id has a fixed width
    task: int  # Spark's partition id
    task_attempt: int  # what `fresh_attempt` gives to an attempt: no other one ever has it

    @property
    def spark_attempt(self) -> int:
        """Spark's number of the attempt, for people to find it in Spark's log."""
        return self.task_attempt >> _RANDOM_BITS or self.task_attempt  # of a version that added no random bits

    @property
    def branch(self) -> str:
        """36 characters, the `bqual` of an XA id."""
        return f"{self.sink}-{self.task:06x}-{self.task_attempt:016x}"

    def __str__(self) -> str:
        return f"{self.scope}/{self.branch}"

    @classmethod
    def parse(cls, text: str) -> TransactionId | None:
        """The id that `str` wrote, or None for anything else."""
        head, _, tail = text.partition("/")
        scope, match = Scope.parse(head), _BRANCH.fullmatch(tail)
        if scope is None or match is None:
            return None
        return cls(scope, match[1], int(match[2], 16), int(match[3], 16))
