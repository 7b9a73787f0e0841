"""Clients of librdkafka: made here, and their errors told in our words here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from connectors.extras import require
from connectors.kafka import handshake
from connectors.kafka.handles import ClientErrors, QuietLogger, is_login, new_handle
from connectors.kafka.refusals import NO_AWS_TOKEN, is_refusal, remedy_of
from connectors.kafka.settings import Connection
from eos.errors import (
    ConnectorError,
    OffsetOutOfRangeError,
    SourceAccessError,
    SourceError,
    SpecError,
    UnknownTopicError,
)

_MARGIN_S: Final = 5.0  # the client ends a question by itself; this is for the case that it does not
AWAY: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._RESOLVE,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
"""Of a cluster that does not answer."""
_UNKNOWN: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)
_OUT_OF_RANGE: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})

_REMEDY_OF_COMPRESSION: Final = (
    "if the batch is in zstd, raise receive.message.max.bytes in `properties` above its decompressed size (by default "
    "100,000,000); if it is damaged, see the broker's log"
)


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """A handle of librdkafka with the last of what it complained about in the background."""

    connection: Connection
    handle: Any  # Consumer or AdminClient
    complaints: ClientErrors = field(default_factory=ClientErrors)
    seen: set[str] = field(default_factory=set)  # what was once found to be so and is not asked again
    led_at_s: dict[str, float] = field(default_factory=dict)  # by topic, when a consumer has queried its leaders

    def failure(self, error: KafkaError, doing: str) -> ConnectorError:
        """The error to raise for an error of the client. `doing` says what was tried, with topic or split."""
        code = error.code()
        text = self.connection.hide(error.str())
        if code in AWAY:
            return self.no_answer(doing, self.connection.connect_timeout_s)
        if is_refusal(error):
            return _access_error(doing, explained(self.connection, error))
        if code in _UNKNOWN:
            return UnknownTopicError(
                f"{doing}: the topic or the partition does not exist (any more)",
                remedy="create it, or correct `topics`; if it was deleted on purpose, reset the pipeline",
            )
        if code in _OUT_OF_RANGE:
            return OffsetOutOfRangeError(
                f"{doing}: {text}", remedy="see the topic's retention; then reset the pipeline"
            )
        if code == KafkaError._BAD_COMPRESSION:
            return SourceError(f"{doing}: {text}", remedy=_REMEDY_OF_COMPRESSION)
        return SourceError(f"{doing}: {text}")

    def no_answer(self, doing: str, waited_s: float) -> ConnectorError:
        """The error for a cluster that did not answer in time, with the reason if the client told one meanwhile."""
        self.handle.poll(0)  # serves the callback that gathers the complaints
        told = [c for c in self.complaints.since(waited_s + _MARGIN_S) if c.code() != KafkaError._ALL_BROKERS_DOWN]
        if refused := next(filter(is_refusal, told), None):
            return _access_error(doing, explained(self.connection, refused))
        if seen := handshake.diagnose_tls(self.connection):
            return _access_error(doing, seen)
        reason = f" ({self.connection.hide(told[-1].str())})" if told else ""
        return SourceError(
            f"{doing}: no answer from Kafka at {self.connection.bootstrap_servers} within {waited_s:g} s{reason}",
            remedy="see that the broker runs and that its advertised address can be reached from here",
        )

    def result_of(self, future: Any, doing: str) -> Any:
        """The answer to a question, or its failure in our words. Blocks for `connect_timeout_s` and some seconds."""
        timeout_s = self.connection.connect_timeout_s + _MARGIN_S
        try:
            return future.result(timeout_s)
        except KafkaException as error:
            raise self.failure(error.args[0], doing) from None
        except TimeoutError:
            raise self.no_answer(doing, timeout_s) from None


def explained(connection: Connection, refused: KafkaError) -> handshake.Seen:
    """A refusal in words. Blocks for some seconds at most, where it is about a certificate."""
    text = connection.hide(refused.str())
    if refused.code() == KafkaError._SSL and (seen := handshake.diagnose_tls(connection, text)):
        return seen
    return handshake.Seen(
        f"{'' if NO_AWS_TOKEN in text else 'Kafka refused: '}{text}", remedy_of(refused, connection.aws)
    )


def _access_error(doing: str, seen: handshake.Seen) -> SourceAccessError:
    return SourceAccessError(f"{doing}: {seen.problem}", remedy=seen.remedy)


def open_consumer(connection: Connection) -> Client:
    """A consumer that reads what it is told to. Connects in the background; raises SpecError for a wrong setting."""
    return _open(Consumer, connection, connection.consumer())


def open_admin(connection: Connection) -> Client:
    """A client for questions. Connects in the background; raises SpecError for a wrong setting."""
    return _open(AdminClient, connection, connection.admin())


def check_settings(connection: Connection) -> None:
    """Have librdkafka judge every setting, connecting to nothing. Raises SpecError that names the setting."""
    if connection.aws is not None:
        require("aws")
    settings = connection.consumer()
    del settings["bootstrap.servers"]
    try:
        Consumer(settings, logger=QuietLogger()).close()  # without a login, which may ask for credentials
    except KafkaException as error:
        raise _wrong_setting(connection, error.args[0]) from None


def _open(kind: Any, connection: Connection, settings: dict[str, str | int | bool]) -> Client:
    complaints = ClientErrors()
    try:
        handle = new_handle(kind, connection, settings, complaints)
    except KafkaException as error:
        if is_login(error.args[0]):
            raise Client(connection, None).failure(error.args[0], f"login at {connection.bootstrap_servers}") from None
        raise _wrong_setting(connection, error.args[0]) from None
    return Client(connection, handle, complaints)


def _wrong_setting(connection: Connection, error: KafkaError) -> SpecError:
    message, remedy = connection.refused(error.str())
    return SpecError(f"security or properties: {message}", remedy=remedy)
