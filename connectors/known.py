"""What a sink has learned from its server, as text that another process can go on with while the server is away."""

from __future__ import annotations

import json
from typing import TypeVar

from eos.errors import SinkUnavailableError

T = TypeVar("T")


def encode_known(place: str, kind: type[T], learned: T) -> str:
    """Return `learned`, a dataclass of plain values, as text. `place`: which target that is, without secrets."""
    from pydantic import TypeAdapter  # not above: tasks import this module, and have no use for it

    return json.dumps({"place": place, "learned": TypeAdapter(kind).dump_python(learned, mode="json")})


def decode_known(sink: str, place: str, kind: type[T], text: str) -> T:
    """Return what `encode_known` was given. Raises SinkUnavailableError for another place, or for another content."""
    from pydantic import TypeAdapter

    try:
        document = json.loads(text)
        if document["place"] != place:
            raise must_wait(sink, f"what is known is of {document['place']}, the spec names {place}")
        return TypeAdapter(kind).validate_python(document["learned"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise must_wait(sink, "its cached description cannot be read") from error


def must_wait(sink: str, why: str) -> SinkUnavailableError:
    """The error of a start that cannot go on without its sink, though rows could wait for it."""
    message = f"sink {sink} does not answer, and the start cannot go on without it: {why}"
    remedy = "the start waits for the sink (docs/reference/sinks.md, Sinks that are slow, or away)"
    return SinkUnavailableError(message, remedy=remedy)
