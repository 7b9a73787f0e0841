"""obstore's clients of the three kinds of stores. Only this module knows how obstore wants to be told things."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from obstore.store import AzureStore, GCSStore, S3Store

from wal.address import ObjectAddress

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, ObjectStore, RetryConfig, S3Config

_RETRIES: Final[RetryConfig] = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
"""Of obstore's own: for a connection that cannot be made or is cut, and for the answers 408, 429 and from 500 on.
Nobody tries again beside it: a longer outage is an error, and who asked decides."""

_OF_CLIENT: Final = ("allow_http", "root_certificate")


def connect(address: ObjectAddress, timeout_s: float) -> ObjectStore:
    """A client of the store below the prefix. Sends nothing. Raises what `refusals.Failure` names.

    Everything that says where the store is, is given, so that nothing of it is taken from the environment.

    Args:
        timeout_s: of one request, from connecting to its last byte.
    """
    options = {name: value for name, value in address.options if name not in (*_OF_CLIENT, "endpoint")}
    given = {name: value for name, value in address.options if name in _OF_CLIENT}
    client = cast("ClientConfig", {"timeout": timedelta(seconds=timeout_s), "allow_http": "false", **given})
    at = address.endpoint
    if address.scheme == "s3":
        options |= {"region": address.region, "endpoint": at, "aws_endpoint_url_s3": at, "conditional_put": "etag"}
        options["disable_bulk_delete"] = "true"  # not every store knows it
        s3 = cast("S3Config", options)
        return S3Store(address.bucket, prefix=address.prefix, config=s3, client_options=client, retry_config=_RETRIES)
    if address.scheme == "gs":
        gs = cast("GCSConfig", options | {"base_url": at})
        return GCSStore(address.bucket, prefix=address.prefix, config=gs, client_options=client, retry_config=_RETRIES)
    az = cast("AzureConfig", options | {"endpoint": at, "use_emulator": "false"})
    return AzureStore(address.bucket, prefix=address.prefix, config=az, client_options=client, retry_config=_RETRIES)
