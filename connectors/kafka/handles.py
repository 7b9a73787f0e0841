"""Handles of librdkafka: every consumer, producer and admin client is made here, with its login."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from time import monotonic
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from connectors.aws import AwsIdentity, AwsLoginError, msk_token
from connectors.kafka.refusals import NO_AWS_TOKEN, NO_TOKEN
from connectors.kafka.settings import Connection

_CONFIG: Final = "sasl.oauthbearer.config"


class QuietLogger:
    """librdkafka's own lines go to DEBUG: it repeats them many times a second, and what matters comes as an error."""

    def log(self, level: int, message: str, *arguments: object) -> None:
        """What confluent_kafka calls."""
        logging.getLogger("connectors.kafka.librdkafka").debug(message, *arguments)


class ClientErrors:
    """What a client has told in the background. For its thread and any other one."""

    def __init__(self) -> None:
        self._told: deque[tuple[float, KafkaError]] = deque(maxlen=8)

    def add(self, error: KafkaError) -> None:
        """Called by the client."""
        self._told.append((monotonic(), error))

    def clear(self) -> None:
        """Forget what was."""
        self._told.clear()

    def since(self, seconds: float) -> Iterator[KafkaError]:
        """Of the last so many seconds: what came before was overcome, and explains nothing."""
        begin = monotonic() - seconds
        return (error for at, error in list(self._told) if at >= begin)


_callback_threads: Final[set[int]] = set()
"""Threads of librdkafka in which a callback of ours runs now."""
_undestroyed: Final[deque[Any]] = deque()
"""Handles that Python's garbage collector found in such a thread. The next `new_handle` destroys them."""


class _DestroyedElsewhere:
    """Part of every handle: it is not destroyed in a thread of librdkafka, which would abort the process.

    A callback allocates memory, so the garbage collector may run in it. It may find the handle of that very thread in a
    cycle, such as that of an error and its frames. The handle then remains until another thread drops it.
    """

    def __del__(self) -> None:
        if threading.get_ident() in _callback_threads:
            _undestroyed.append(self)


@lru_cache
def _derive(kind: type) -> type:
    """Return the class of confluent_kafka with that part."""
    return type(kind.__name__, (_DestroyedElsewhere, kind), {"__module__": kind.__module__})


class AwsTokens:
    """Signs a token whenever a client wants one: `sign` is the `oauth_cb` of confluent_kafka.

    A thread of the client's own calls it, whether or not the client is polled: when the client is made, and before the
    last token has used up its time. So it goes on in a long transaction, and while nothing is read.
    """

    def __init__(self, identity: AwsIdentity, complaints: ClientErrors) -> None:
        self._identity = identity
        self._complaints = complaints
        self._lock = threading.Lock()
        self._first: tuple[str, float] | None = None

    def sign_first(self) -> None:
        """Sign the first one in the caller's thread, which learns at once why there is none. Raises AwsLoginError."""
        first = msk_token(self._identity)
        with self._lock:
            self._first = first

    def sign(self, config: str) -> tuple[str, float, str, dict[str, str]]:
        """Return a token, its end in seconds since 1970, and neither principal nor extensions: the token names it."""
        _callback_threads.add(threading.get_ident())  # first: nothing before it runs the garbage collector
        del config
        try:
            with self._lock:
                first, self._first = self._first, None
            token, end = first or msk_token(self._identity)
            return token, end, "", {}
        except AwsLoginError as error:
            self._complaints.add(as_kafka_error(error))
            raise
        finally:
            _callback_threads.discard(threading.get_ident())


def as_kafka_error(error: AwsLoginError) -> KafkaError:
    """As the client would tell it: of its own, it says only that the callback raised something."""
    kind = NO_TOKEN if error.is_outage else NO_AWS_TOKEN
    return KafkaError(KafkaError._AUTHENTICATION, f"{kind}: {error.message}")


def new_handle(
    kind: type,
    connection: Connection,
    settings: Mapping[str, str | int | bool],
    complaints: ClientErrors,
    **callbacks: Callable[..., None],
) -> Any:
    """Return a handle of `kind`: Consumer, Producer or AdminClient.

    Connects in the background. With a login by AWS IAM it signs a token first, and takes a second longer:
    confluent_kafka waits for as long before it asks whether there is a token.

    Raises KafkaException: without AWS IAM for a wrong setting alone; with it, an error that `is_login` finds says that
    there is no token. Raises SpecError where the packages are missing.
    """
    _undestroyed.clear()
    given: dict[str, Any] = {**settings, **callbacks, "error_cb": complaints.add}
    if connection.aws is not None:
        tokens = AwsTokens(connection.aws, complaints)
        try:
            tokens.sign_first()
        except AwsLoginError as error:
            raise KafkaException(as_kafka_error(error)) from None
        given["oauth_cb"] = tokens.sign
    return _derive(kind)(given, logger=QuietLogger())


def is_login(error: KafkaError) -> bool:
    """Whether `new_handle` failed for want of a token, and not for a wrong setting."""
    return error.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED)
