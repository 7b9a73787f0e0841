"""What an object store's client raises, in this package's errors: who may try again, and with which words for people.

obstore's own text goes on with the request and the client's settings; of it only the store's status, code and message
are kept, and no URL with its query, which may be signed.
"""

from __future__ import annotations

import re
from typing import Final

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from wal.errors import StorageError, StorageRefusedError

Failure = (BaseError, OSError, ValueError)
"""All that a call of obstore's raises on purpose."""

_STATUS: Final = re.compile(r"status code: (\d{3})|\(code: (\d{3})\)")
"""The second form is of one deletion of a batch, which Azure accepts before it checks its parts."""
_DELETION: Final = re.compile(r"delete request failed for key [^\n]*?: ([^\n]{1,200}) \(code: \d{3}\)")
_CODE: Final = re.compile(r"<Code>([^<]{1,80})</Code>|\"(?:code|error)\": ?\"([^\"]{1,80})\"")
_MESSAGE: Final = re.compile(r"<Message>([^<]{1,300})", re.DOTALL)
_CAUSE: Final = re.compile(r"\b(?:message|error): \"([^\"]{1,200})\"|\bkind: (Timeout|BadScheme|Decode)")
_QUERY: Final = re.compile(r"\?[^\s,\"')]*")
_METADATA: Final = re.compile(r"://(169\.254\.169\.254|metadata\.google\.internal)/")

_AGAIN: Final = frozenset({408, 409, 425, 429})
"""Of the answers below 500, those that are about the moment. 409: another request for this object was under way."""

_NOT_BUILT: Final = 501  # a store's way to say that it has no conditional put

_CREDENTIALS: Final = "no credentials were given, and this machine has none of its own: give them to every machine"


def status_of(error: Exception) -> int | None:
    """What the store answered; None where it did not, or where obstore does not say."""
    status = _first(_STATUS, str(error))
    return int(status) if status else None


def failed(doing: str, error: Exception) -> StorageError:
    """The error to raise for one of Failure, but for "not found" and "exists", which only the caller can judge.

    `doing`: what was asked, and of which place.
    """
    text = str(error)
    status, code = status_of(error), _first(_CODE, text)
    message = f"cannot {doing}: {_reason(text, status, code)}"
    if status is None:
        ours = isinstance(error, ValueError | PermissionDeniedError | UnauthenticatedError)
        refused = ours or "redirect" in text or "BadScheme" in text
    else:
        refused = status not in _AGAIN and (status < 500 or status == _NOT_BUILT)
    if refused:
        return StorageRefusedError(message, remedy=_remedy(text, status, code))
    remedy = _CREDENTIALS if _METADATA.search(text) else "see that the store can be reached: it is asked again"
    return StorageError(message, remedy=remedy)


def _remedy(text: str, status: int | None, code: str) -> str:
    """What to do about a refusal."""
    if _METADATA.search(text):
        return _CREDENTIALS
    if code == "RequestTimeTooSkewed":
        return "set this machine's clock right: signatures carry the time"
    if status in (401, 403):
        return "give credentials that allow put, get, list and delete below that prefix"
    if status == 404:
        return "create the bucket, or correct its name or the endpoint"
    if status in (301, 307) or "redirect" in text:
        return "the bucket is in another region: give its region"
    return "see the store's own words, and correct the options, the endpoint or the store's settings"


def _reason(text: str, status: int | None, code: str) -> str:
    """Short, for people."""
    if status is not None:
        said = _first(_MESSAGE, text).partition("\n")[0]  # Azure adds lines
        words = (f"the store answered {status}", code, said or _first(_DELETION, text))
        return ", ".join(word for word in words if word)
    head = _QUERY.sub("", text.partition("\n")[0]).partition(" - ")
    return ": ".join(word for word in ((head[2] or head[0]).strip(), *_causes(text)) if word)


def _causes(text: str) -> list[str]:
    """Why a request came to nothing: obstore has it in its details only."""
    found = [next(group for group in match.groups() if group) for match in _CAUSE.finditer(text)]
    return [_QUERY.sub("", cause) for cause in dict.fromkeys(found)][:2]


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return next((group for group in match.groups() if group), "").strip() if match else ""
