"""Producers. Of a transactional one: whoever opens it next ends its transaction, and fences it (KIP-98)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from connectors.kafka.client import AWAY, explained
from connectors.kafka.handles import ClientErrors, is_login, new_handle
from connectors.kafka.handshake import diagnose_tls
from connectors.kafka.refusals import is_refusal
from connectors.kafka.sink.markers import encode
from connectors.kafka.sink.place import Place
from eos.errors import SinkUnavailableError, TargetError

_FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_FOR_GOOD: Final = frozenset(
    {
        KafkaError._INVALID_ARG,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.POLICY_VIOLATION,
    }
)
_QUEUE: Final = 200_000  # messages on the way at once
_QUEUE_BYTES: Final = 8 * 1024 * 1024  # of them, so that a commit need not wait long for what is on the way
_GIVING_UP_S: Final = 2.0  # for the brokers to hear of it

_log: Final = logging.getLogger("eos.sink")


class FencedProducerError(Exception):
    """Somebody has opened a producer of the same transactional id since. Who it was, the claim tells."""


class _AnyProducer:
    """For one thread at a time."""

    def __init__(self, place: Place, who: str, settings: Mapping[str, str | int | bool]) -> None:
        """`who`: for messages. Asks nobody yet. Raises TargetError for a wrong setting."""
        self._place = place
        self._who = who
        self._complaints = ClientErrors()
        self._refusal: KafkaError | None = None  # of a message that was not delivered, the newest one
        self._handle: Any = None
        self._handle = self._made(settings)

    def produce(self, send: Callable[[Producer], None], count: int, count_bytes: int) -> None:
        """Have `send` hand over so many messages, and wait until there is room for as many more.

        Without a limit of its own: what brokers do not take within the transaction's timeout fails.
        """
        self._call("writing", lambda: send(self._handle))
        most = min(_QUEUE, _QUEUE_BYTES * count // max(count_bytes, 1))
        while len(self._handle) > most:
            self._call("writing", lambda: self._handle.poll(0.01))

    def _refuse(self, error: KafkaError, message: Message) -> None:
        """Why a message was not taken; the transaction's own error does not say it. Of others nothing is told."""
        del message
        self._refusal = error
        self._complaints.add(error)

    def _made(self, settings: Mapping[str, str | int | bool]) -> Any:
        try:
            return new_handle(Producer, self._place.connection, settings, self._complaints, on_delivery=self._refuse)
        except KafkaException as error:
            if is_login(error.args[0]):
                raise self._failure(error.args[0], "login") from None
            message, remedy = self._place.connection.refused(error.args[0].str())
            raise TargetError(f"security or properties: {message}", remedy=remedy) from None

    def _call(self, doing: str, call: Callable[[], object]) -> None:
        try:
            call()
        except BufferError as error:
            raise SinkUnavailableError(f"Kafka does not take the messages in time, {doing}") from error
        except KafkaException as error:
            raise self._failure(error.args[0], doing) from None

    def _failure(self, error: KafkaError, doing: str) -> Exception:
        connection = self._place.connection
        with suppress(KafkaException):  # a fatal one, which `error` is already
            if self._handle is not None:
                self._handle.poll(0)  # serves the callback that gathers the complaints
        lately_s = max(connection.connect_timeout_s, self._place.transaction_timeout_s)
        reasons = [error, *self._complaints.since(lately_s)]
        worst = next((each for each in reasons if _is_final(each)), error)
        place = f"{doing}, {self._who} at {connection.bootstrap_servers}"
        message = f"{place}: {connection.hide(worst.str())}"
        seen = explained(connection, worst) if is_refusal(worst) else None
        if seen is None and worst.code() in AWAY:
            seen = diagnose_tls(connection)
        if seen is not None:
            return TargetError(f"{place}: {seen.problem}", remedy=seen.remedy)
        if _is_final(worst):
            return TargetError(message, remedy="correct the setting that Kafka names: the topic or its limits")
        return SinkUnavailableError(message, remedy="see that the brokers run and can be reached; it is tried again")


def _is_final(error: KafkaError) -> bool:
    """Whether to try it again would end alike."""
    return error.code() in _FOR_GOOD or is_refusal(error)


class PlainProducer(_AnyProducer):
    """Idempotent, without a transaction: what is delivered is visible, and once for each time that it is produced."""

    def __init__(self, place: Place, sink: str, batch_bytes: int) -> None:
        """Raises TargetError for a wrong setting."""
        super().__init__(place, f"sink {sink}", place.producer(batch_bytes))

    def flush(self) -> None:
        """Wait until the brokers have confirmed each message, or have not within its `delivery.timeout.ms`.

        Raises ConnectorError if one of them is not delivered.
        """
        self._call("waiting for delivery", self._handle.flush)
        self._check()

    def produce(self, send: Callable[[Producer], None], count: int, count_bytes: int) -> None:
        """See above. Raises ConnectorError as soon as a message is known to be refused."""
        super().produce(send, count, count_bytes)
        self._check()

    def close(self) -> None:
        """Forget what is not delivered yet, and disconnect."""
        self._handle.purge()
        del self._handle

    def _check(self) -> None:
        if self._refusal is not None:
            raise self._failure(self._refusal, "a message was not delivered")


class TransactionalProducer(_AnyProducer):
    """After any error it is closed, and the next one tells from the marker what happened."""

    def __init__(self, place: Place, transactional_id: str, batch_bytes: int) -> None:
        """Connect, wait until the last transaction of this id is over, and fence whoever made it.

        Raises ConnectorError, FencedProducerError.
        """
        self._id = transactional_id
        self._is_broken = False
        super().__init__(
            place, f"a transaction of {transactional_id}", place.transactional(transactional_id, batch_bytes)
        )
        self._call("opening", lambda: self._handle.init_transactions(place.connection.connect_timeout_s))

    def begin(self) -> None:
        """Begin a transaction. Asks nobody."""
        self._complaints.clear()
        self._call("beginning a transaction", self._handle.begin_transaction)

    def commit(self, key: str, partition: int, value: Mapping[str, object]) -> None:
        """End the transaction, with this record in the topic of the markers. All of it is visible then, or nothing.

        Raises ConnectorError for an unknown outcome as well: the marker tells.
        """
        topic, record = self._place.markers, encode(value)
        self._call("marking", lambda: self._handle.produce(topic, record, key.encode(), partition))
        self._call("committing", lambda: self._handle.commit_transaction(self._place.transaction_timeout_s))

    def close(self) -> None:
        """Give up what is open, and disconnect. Never raises: what stays open is ended by the next one of this id.

        Not by the client's own `close`: it gives a transaction up without a limit, so that it would wait for brokers
        that are away. A handle that nobody holds disconnects at once. After a fatal error a client gives nothing up.
        librdkafka 2.16.0 damages its memory where it is asked to while the commit that failed is still under way.
        """
        try:
            if not self._is_broken:
                self._handle.abort_transaction(_GIVING_UP_S)
        except KafkaException as error:  # mostly that there is none
            _log.debug("closing %s: %s", self._id, error)
        del self._handle

    def _failure(self, error: KafkaError, doing: str) -> Exception:
        self._is_broken = self._is_broken or error.fatal()
        return FencedProducerError(self._id) if error.code() in _FENCED else super()._failure(error, doing)
