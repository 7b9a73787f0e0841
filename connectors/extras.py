"""Python packages that only some specs need, by the extra of `eos-spark` that brings them."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Final

from eos.errors import SpecError

EXTRAS: Final[Mapping[str, Sequence[str]]] = {
    "aws": ("botocore", "aws_msk_iam_sasl_signer"),
    "avro": ("fastavro",),
    "hdfs": ("hdfs_native",),
    "protobuf": ("grpc_tools",),
    "registry": ("authlib", "cachetools", "httpx2"),
}
"""Modules by extra."""

_FOR: Final = {
    "aws": "a login by AWS IAM",
    "avro": "the format avro",
    "hdfs": "a location or a log in HDFS",
    "protobuf": "the format protobuf",
    "registry": "a schema registry",
}


def require(extra: str) -> None:
    """Raise SpecError, which names the remedy, if this Python lacks packages of the extra. Imports none of them."""
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        message = f"{_FOR[extra]} needs Python packages that {socket.gethostname()} lacks: {', '.join(missing)}"
        raise SpecError(message, remedy=f"pip install 'eos-spark[{extra}]', here and wherever tasks run")
