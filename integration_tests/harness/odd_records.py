"""Records that other producers may write and Kafka takes, though Python's own client would not send them."""

from __future__ import annotations

import ctypes
from pathlib import Path

import confluent_kafka


def produce_with_client_library(brokers: str, topic: str, header: bytes, value: bytes = b"v") -> None:
    """One record with one header, whose name Python's own binding would not send; in partition 0."""
    (path,) = Path(confluent_kafka.__path__[0]).parent.glob("confluent_kafka.libs/librdkafka-*")
    library = ctypes.CDLL(str(path))
    library.rd_kafka_conf_new.restype = library.rd_kafka_new.restype = ctypes.c_void_p
    conf, text, number = ctypes.c_void_p(library.rd_kafka_conf_new()), ctypes.c_char_p, ctypes.c_int
    assert library.rd_kafka_conf_set(conf, b"bootstrap.servers", brokers.encode(), None, 0) == 0
    handle = ctypes.c_void_p(library.rd_kafka_new(0, conf, None, 0))
    record = (number(1), text(topic.encode()), number(3), ctypes.c_int32(0), number(7), number(2))
    with_value = (number(4), text(value), ctypes.c_size_t(len(value)))
    with_header = (number(9), text(header), text(b"x"), ctypes.c_ssize_t(1), number(0))
    assert library.rd_kafka_producev(handle, *record, *with_value, *with_header) == 0
    assert library.rd_kafka_flush(handle, 30_000) == 0
    library.rd_kafka_destroy(handle)
