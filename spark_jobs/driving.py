"""Opens what a driver of the protocol needs, and lets go of it: head, and a committer for each sink."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from connectors.contracts import Sink
from connectors.registry import open_head
from connectors.spec import Spec
from twophase.driver import Driver
from twophase.effects import SparkLog
from twophase.gather import at_once
from twophase.head_value import HeadValue
from twophase.ids import INCARNATION_LENGTH
from twophase.values import Positions

_LETTERS: Final = string.ascii_lowercase + string.digits  # of an incarnation: about 100 bits


@contextmanager
def driver_of(
    spec: Spec,
    sinks: Sequence[Sink],
    log: SparkLog,
    *,
    session: str,
    follows: HeadValue | None = None,
    commit_back: Callable[[Mapping[str, Positions]], None] = lambda _positions: None,
) -> Iterator[Driver]:
    """A driver for one epoch, or for a reset; not yet started. Its connections are closed at the end.

    For the arguments see Driver. Raises HeadError where head cannot be opened.
    """
    with ExitStack() as stack:
        head = open_head(spec)
        stack.callback(head.close)
        committers = {sink.name: sink.committer(spec.pipeline) for sink in sinks}
        for committer in committers.values():
            stack.callback(committer.close)
        yield Driver(
            pipeline=spec.pipeline,
            head=head,
            committers=committers,
            spark=log,
            session=session,
            incarnation="".join(secrets.choice(_LETTERS) for _ in range(INCARNATION_LENGTH)),
            retained=spec.checkpoint.retained,
            commit_back=commit_back,
            follows=follows,
            gather=at_once,
        )
