"""How a running pipeline is steered: durable requests beside head, each answered with a result.

The command line, the page and the API ask; the driver that runs the pipeline answers. Both sides need nothing but the
place where head is. A request is asked once and answered once, whatever process dies in between: it stays until it is
answered, withdrawn or out of date.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, TypeVar

from eos.errors import ConnectorError, HeadFormatError
from twophase.codec import check_readable, own_fields
from twophase.head import BlobStore

T = TypeVar("T", "Request", "Answer", "Paused")

FORMAT: Final = 1
SHELF: Final = "requests"
ALIVE: Final = "alive"
"""Kind of the request of a standby. Any answer shows that a driver runs the pipeline."""

_STOPPED: Final = "stopped-"

_OTHER_VERSION: Final = "ask with the version that runs the pipeline"
_KEPT_S: Final = 7 * 24 * 3600.0
"""So long a request can still be read, with its answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asks of whoever runs the pipeline."""

    id: str  # sorts by time
    kind: str  # `stop`, `restart`, `pause`, `resume`, `checkpoint`, `savepoint`
    arguments: Mapping[str, str]
    asked_at: float  # seconds since 1970, UTC
    expires_at: float  # after that nobody waits for the answer, and nobody acts on it
    asked_by: str

    def __post_init__(self) -> None:
        """Raise TypeError for values of other types, which a damaged file may hold."""
        texts, numbers = (self.id, self.kind, self.asked_by), (self.asked_at, self.expires_at)
        if not all(isinstance(each, str) for each in texts) or not isinstance(self.arguments, Mapping):
            raise TypeError(texts, self.arguments)
        if not all(isinstance(each, int | float) for each in numbers):
            raise TypeError(numbers)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request."""

    ok: bool
    message: str
    facts: Mapping[str, Any] = field(default_factory=dict)  # plain data
    at: float = field(default_factory=time.time)

    @classmethod
    def refused(cls, error: ConnectorError) -> Answer:
        """It was not done, because of this."""
        return cls(ok=False, message=error.message, facts={"remedy": error.remedy})

    @property
    def remedy(self) -> str:
        """What to do about it; empty where nothing was said."""
        return str(self.facts.get("remedy", ""))


@dataclass(frozen=True, slots=True)
class Paused:
    """The wish that a pipeline takes no checkpoint. It is stored until it is deleted, so a restart finds it."""

    by: str
    at: float = field(default_factory=time.time)  # seconds since 1970, UTC


@dataclass(slots=True)
class Channel:
    """Requests and answers of one pipeline. May be used from several threads and processes; every call may block."""

    blobs: BlobStore
    clock: Callable[[], float] = time.time
    _last_ms: int = 0  # of an id given here: what one channel asks is heard in the order in which it was asked

    def ask(self, kind: str, arguments: Mapping[str, str], *, asked_by: str, patience_s: float) -> Request:
        """Store a request durably. Raises HeadError."""
        now = self.clock()
        self._last_ms = max(round(now * 1000), self._last_ms + 1)
        name = f"{self._last_ms:013d}-{secrets.token_hex(4)}"
        request = Request(name, kind, dict(arguments), now, now + patience_s, asked_by)
        self.blobs.put(_asked(request.id), _dump(request))
        return request

    def pending(self) -> tuple[Request, ...]:
        """Those that wait for an answer, oldest first. Refuses those of another version, and damaged ones.

        Raises HeadError.
        """
        names = set(self.blobs.names())
        ids = (found[1] for name in sorted(names) if (found := _ASKED_NAME.fullmatch(name)))
        requests = [self._read(each) for each in ids if _answered(each) not in names]
        return tuple(request for request in requests if request is not None and request.expires_at > self.clock())

    def _read(self, request_id: str) -> Request | None:
        content = self.blobs.get(_asked(request_id))
        if content is None:  # just withdrawn
            return None
        try:
            return _load(content, Request)
        except HeadFormatError as error:
            self.blobs.put(_answered(request_id), _dump(Answer(ok=False, message=error.message)))
            return None

    def find(self, request_id: str) -> Request | None:
        """One that was asked, by its id (of the form ID); None if it is withdrawn or forgotten. Raises HeadError."""
        content = self.blobs.get(_asked(request_id))
        return _load(content, Request) if content is not None else None

    def answer(self, request: Request, answer: Answer) -> None:
        """Store the answer durably. The first one stands. Raises HeadError."""
        self.blobs.put(_answered(request.id), _dump(answer))

    def answer_of(self, request: Request) -> Answer | None:
        """None while there is none. Raises HeadError."""
        content = self.blobs.get(_answered(request.id))
        return _load(content, Answer) if content is not None else None

    def withdraw(self, request: Request) -> Answer | None:
        """Take it back; the answer, if it was given meanwhile. Who has begun on it may go on. Raises HeadError."""
        self.blobs.delete(_asked(request.id))
        return self.answer_of(request)

    def forget(self, request: Request) -> None:
        """Delete a request and its answer. Raises HeadError."""
        self.blobs.delete(_asked(request.id))
        self.blobs.delete(_answered(request.id))

    def note_stopped(self, request: Request) -> None:
        """Store durably that this request has stopped the pipeline: its standbys end. Raises HeadError."""
        older = [name for name in self.blobs.names() if name.startswith(_STOPPED)]
        self.blobs.put(_STOPPED + request.id, b"")
        for name in older:
            self.blobs.delete(name)

    def stopped(self) -> str:
        """Return a name of the newest request that has stopped the pipeline; empty if none has. Raises HeadError."""
        return max((name for name in self.blobs.names() if name.startswith(_STOPPED)), default="")

    def pause(self, by: str) -> None:
        """Store durably that the pipeline is paused; a first wish stays. Raises HeadError."""
        self.blobs.put(PAUSED, _dump(Paused(by, self.clock())))

    def resume(self) -> None:
        """Delete the wish. Idempotent. Raises HeadError."""
        self.blobs.delete(PAUSED)

    def paused(self) -> Paused | None:
        """Return the wish; None if the pipeline may take checkpoints. Raises HeadError."""
        content = self.blobs.get(PAUSED)
        if content is None:
            return None
        try:
            return _load(content, Paused)
        except HeadFormatError:  # damaged, or of a later version: it is a wish all the same
            return Paused("a wish that this version cannot read", 0.0)

    def sweep(self) -> None:
        """Forget what was asked long ago. Called by the driver, at its start. Raises HeadError."""
        for name in self.blobs.names():
            found = _NAME.fullmatch(name)
            if found and int(found[1]) / 1000 + _KEPT_S < self.clock():
                self.blobs.delete(name)


ID: Final = "^[0-9]{13}-[0-9a-f]{8}$"
"""What an id looks like, as a regular expression."""

PAUSED: Final = "paused.json"
"""Name of the wish that the pipeline is paused, among the requests."""

_NAME: Final = re.compile(r"([0-9]{13})-[0-9a-f]{8}\.(?:request|answer)\.json")
_ASKED_NAME: Final = re.compile(r"([0-9]{13}-[0-9a-f]{8})\.request\.json")


def _asked(request_id: str) -> str:
    return f"{request_id}.request.json"


def _answered(request_id: str) -> str:
    return f"{request_id}.answer.json"


def _dump(value: Request | Answer | Paused) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(value)}, sort_keys=True, ensure_ascii=False).encode()


def _load(content: bytes, kind: type[T]) -> T:
    try:
        document: dict[str, Any] = json.loads(content)
        check_readable(document, "a request beside head", FORMAT, _OTHER_VERSION)
        return kind(**own_fields(document, {each.name for each in fields(kind)}, FORMAT))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"a request beside head, or its answer, is damaged: {error!r}"
        raise HeadFormatError(message, remedy="ask again") from error
