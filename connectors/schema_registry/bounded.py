"""Requests to a registry whose answers are bounded in size and time: an answer could fill the memory of a task, or
hold it up for ever."""

from __future__ import annotations

from time import monotonic
from typing import Any, Final

from httpx2 import Client, Request, Response

MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of an answer. A registry keeps each schema in one record of Kafka, mostly of 1 MB at most. A list of all
subjects is longer."""
LONGEST_S: Final = 60.0
"""From a request to the end of the answer's body. The timeout of the client is for each part of an answer."""
_PLAIN: Final = "identity"


class AnswerTooLargeError(ValueError):
    """An answer of more than MOST_BYTES."""


class BoundedClient(Client):
    """A client that reads no more of an answer. Raises AnswerTooLargeError, and TimeoutError after LONGEST_S."""

    def send(self, request: Request, **options: Any) -> Response:
        """Send a request, and return the answer with its body and its type. It has no other header."""
        request.headers["Accept-Encoding"] = _PLAIN  # bytes that expand have no bound
        ends_s = monotonic() + LONGEST_S
        response = super().send(request, **{**options, "stream": True})
        try:
            content = _content_of(response, ends_s)
        finally:
            response.close()
        kind = response.headers.get("content-type")
        headers = {} if kind is None else {"content-type": kind}
        return Response(response.status_code, headers=headers, content=content, request=request)


def _content_of(response: Response, ends_s: float) -> bytes:
    if (encoding := response.headers.get("content-encoding", _PLAIN)) != _PLAIN:
        raise ValueError(f"its answer is compressed ({encoding!r:.40}), which was not allowed")
    content = bytearray()
    for part in response.iter_raw():
        content += part
        if len(content) > MOST_BYTES:
            raise AnswerTooLargeError(f"its answer has more than {MOST_BYTES:,} bytes")
        if monotonic() > ends_s:
            message = f"its answer takes more than {LONGEST_S:.0f} seconds"
            raise TimeoutError(message)  # no error of the client's own, after which it would send the request once more
    return bytes(content)
