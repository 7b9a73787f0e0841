"""What head says of the pipeline of a spec, for those who only look: whether it runs or not, and if it never has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from connectors.registry import open_head, open_requests
from connectors.spec import Spec
from twophase import status
from twophase.head import HeadStore
from twophase.head_value import HeadValue
from twophase.messages import HeadSnapshot
from twophase.requests import SHELF, Paused
from twophase.status import Status


def read_seen(spec: Spec) -> HeadSnapshot | None:
    """Head as it is now, with its version; None: the pipeline never ran here. Raises HeadError."""
    with _opened(spec) as store:
        return status.read_seen(store) if store is not None else None


def read_head(spec: Spec) -> HeadValue | None:
    """Head as it is now; None: the pipeline never ran here. Raises HeadError."""
    seen = read_seen(spec)
    return seen.head if seen is not None else None


def read_history(spec: Spec) -> Status | None:
    """Head and the records that it retains; None: the pipeline never ran here. Raises HeadError."""
    with _opened(spec) as store:
        return status.read_status(store) if store is not None else None


def read_newest(spec: Spec) -> Status | None:
    """Head and the records of its two newest completed checkpoints; None: the pipeline never ran. Raises HeadError."""
    with _opened(spec) as store:
        return status.read_status(store, newest=2) if store is not None else None


def read_pause(spec: Spec) -> Paused | None:
    """The stored wish that the pipeline is paused; None: it may take checkpoints. Raises HeadError."""
    if not spec.checkpoint.is_shared and not (spec.checkpoint.folder / SHELF).is_dir():
        return None
    with open_requests(spec) as channel:
        return channel.paused()


@contextmanager
def _opened(spec: Spec) -> Iterator[HeadStore | None]:
    """A pipeline that never ran has no folder for head, and looking must not make one."""
    if not spec.checkpoint.is_shared and not (spec.checkpoint.folder / "head").is_dir():
        yield None
        return
    with closing(open_head(spec)) as store:
        yield store
