"""Clients of librdkafka: made here, and their errors told in our words here."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from connectors.kafka.settings import Connection
from twophase.errors import (
    ConnectorError,
    OffsetOutOfRangeError,
    SourceAccessError,
    SourceError,
    SpecError,
    UnknownTopicError,
)

_MARGIN_S: Final = 5.0  # the client ends a question by itself; this is for the case that it does not
_AWAY: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._RESOLVE,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
_DENIED: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_UNKNOWN: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)
_OUT_OF_RANGE: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})


class QuietLogger:
    """librdkafka's own lines go to DEBUG: it repeats them many times a second, and what matters comes as an error."""

    def log(self, level: int, message: str, *arguments: object) -> None:
        """What confluent_kafka calls."""
        logging.getLogger("connectors.kafka.librdkafka").debug(message, *arguments)


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """A handle of librdkafka with the last of what it complained about in the background."""

    connection: Connection
    handle: Any  # Consumer or AdminClient
    complaints: deque[KafkaError] = field(default_factory=lambda: deque(maxlen=8))
    seen: set[str] = field(default_factory=set)  # what was once found to be so and is not asked again

    def failure(self, error: KafkaError, doing: str) -> ConnectorError:
        """The error to raise for an error of the client. `doing` says what was tried, with topic or split."""
        code = error.code()
        text = self.connection.hide(error.str())
        if code in _AWAY:
            return self.no_answer(doing, self.connection.connect_timeout_s)
        if code in _DENIED:
            return _denied(doing, text)
        if code in _UNKNOWN:
            return UnknownTopicError(
                f"{doing}: the topic or the partition does not exist (any more)",
                remedy="create it, or correct `topics`; if it was deleted on purpose, reset the pipeline",
            )
        if code in _OUT_OF_RANGE:
            return OffsetOutOfRangeError(
                f"{doing}: {text}", remedy="see the topic's retention; then reset the pipeline"
            )
        return SourceError(f"{doing}: {text}")

    def no_answer(self, doing: str, waited_s: float) -> ConnectorError:
        """The error for a cluster that did not answer in time, with the reason if the client told one meanwhile."""
        self.handle.poll(0)  # serves the callback that gathers the complaints
        denied = next((c for c in self.complaints if c.code() in _DENIED), None)
        if denied is not None:
            return _denied(doing, self.connection.hide(denied.str()))
        told = [c for c in self.complaints if c.code() != KafkaError._ALL_BROKERS_DOWN]
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


def _denied(doing: str, text: str) -> SourceAccessError:
    return SourceAccessError(
        f"{doing}: Kafka refused: {text}",
        remedy="correct security.protocol, sasl.* or ssl.* under properties, or grant the rights (topic, and group_id)",
    )


def open_consumer(connection: Connection) -> Client:
    """A consumer that reads what it is told to. Connects in the background; raises SpecError for a wrong setting."""
    return _open(Consumer, connection, connection.consumer())


def open_admin(connection: Connection) -> Client:
    """A client for questions. Connects in the background; raises SpecError for a wrong setting."""
    return _open(AdminClient, connection, connection.admin())


def check_settings(connection: Connection) -> None:
    """Have librdkafka judge every setting, connecting to nothing. Raises SpecError that names the setting."""
    settings = connection.consumer()
    del settings["bootstrap.servers"]
    client = _open(Consumer, connection, settings)
    client.handle.close()


def _open(kind: Any, connection: Connection, settings: dict[str, str | int | bool]) -> Client:
    complaints: deque[KafkaError] = deque(maxlen=8)
    try:
        handle = kind({**settings, "error_cb": complaints.append}, logger=QuietLogger())
    except KafkaException as error:
        text = connection.hide(error.args[0].str().strip())
        raise SpecError(
            f"properties: librdkafka refuses a setting: {text}",
            remedy="see librdkafka's CONFIGURATION.md for names and values",
        ) from None
    return Client(connection, handle, complaints)
