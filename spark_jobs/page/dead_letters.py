"""The part of the API with dead letters. They hold whole records, so they need the token that steers.

Neither the history nor head has them: each reading connects to the service of `dead_letter`, in the page's process. A
reading is bounded in number and bytes, its answer is kept for some seconds, and one request reads at a time.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, HTTPException, Path, Query

from connectors.control_characters import escapes
from connectors.dead_letters import DeadLetter
from spark_jobs.observe.history.model import Event
from spark_jobs.observe.history.recorder import tell
from spark_jobs.operations import dead_letters
from spark_jobs.page import schemas
from spark_jobs.page.auth import needs_steering
from spark_jobs.page.letter_box import MOST
from spark_jobs.page.pipeline_view import PipelineView
from spark_jobs.page.selection import ERRORS, OF_ONE, Chosen

_TEXT_BYTES: Final = 64 * 1024
_HEX_BYTES: Final = 4 * 1024
_REJECTING: Final = "the sink that refused the row; step:NAME: a rule of this step rejected the row"
_ID: Final = "^[0-9a-f]{20}$"
_ESCAPES: Final = escapes()
_ESCAPES_OF_TEXT: Final = escapes(keep="\t\n")


_BUSY: Final[dict[int | str, dict[str, Any]]] = {429: {"model": schemas.Refused, "description": "Retry later."}}
router: Final = APIRouter(responses={**ERRORS, **_BUSY}, dependencies=[Depends(needs_steering)])


@router.get(f"{OF_ONE}/dead-letters")
def letters(
    chosen: Chosen,
    source: Annotated[str | None, Query(max_length=200)] = None,
    sink: Annotated[str | None, Query(max_length=205, description=_REJECTING)] = None,
    text: Annotated[str, Query(max_length=200, description="in the error or the place, in any case")] = "",
) -> schemas.DeadLetters:
    """Return the newest dead letters without their contents. Connects to the service of `dead_letter`."""
    entry = chosen.spec.dead_letter
    if entry is None:
        return schemas.DeadLetters(where=None, read_at=time.time(), read=0, most=MOST, letters=[])
    found = chosen.letters.newest(chosen.spec)
    wanted = [
        each
        for each in found
        if source in (None, each.source)
        and sink in (None, each.sink)
        and text.casefold() in f"{each.error}\n{each.place or ''}".casefold()
    ]
    shown = [_summary(each) for each in wanted]
    where = f"{entry.connector}: {entry.where}"
    return schemas.DeadLetters(where=where, read_at=chosen.letters.read_at, read=len(found), most=MOST, letters=shown)


@router.get(f"{OF_ONE}/dead-letters/{{letter_id}}")
def payload(chosen: Chosen, letter_id: Annotated[str, Path(pattern=_ID)]) -> schemas.Payload:
    """Return key, value and headers of one dead letter."""
    letter = _find(chosen, [letter_id])
    if not letter:
        raise HTTPException(404, "this dead letter is not among the newest (any more)")
    headers = [schemas.Header(name=_plain(name), value=_content(value)) for name, value in letter[0].headers]
    return schemas.Payload(id=letter_id, key=_content(letter[0].key), value=_content(letter[0].value), headers=headers)


@router.post(f"{OF_ONE}/dead-letters/replay")
def replay(chosen: Chosen, wish: schemas.ReplayWish) -> schemas.Replayed:
    """Resend the records of dead letters to their topics, each once, as `eos dead-letters replay` does."""
    found = _find(chosen, wish.ids, fresh=True)
    records = dead_letters.distinct(found)
    with chosen.letters.alone():
        sent = sum(len(part) for part in dead_letters.resend(chosen.spec, records))
    known = sum(each.record is not None for each in found)
    by = f"the page at {socket.gethostname()}"
    message = f"replay of dead letters, asked by {by}: {sent} of {len(records)} records were resent"
    tell(chosen.spec, Event(time.time(), "request", message, facts={"request": "replay", "sent": sent, "ok": True}))
    return schemas.Replayed(
        chosen=len(records), sent=sent, before=len(records) - sent, missing=len(set(wish.ids)) - known
    )


def _find(chosen: PipelineView, ids: Sequence[str], *, fresh: bool = False) -> list[DeadLetter]:
    """Return the dead letters with these ids, each once."""
    if chosen.spec.dead_letter is None:
        return []
    by_id: dict[str, DeadLetter] = {}
    for each in chosen.letters.letters if not fresh else ():
        by_id[dead_letters.id_of(each)] = each
    if not by_id.keys() >= set(ids):
        by_id = {dead_letters.id_of(each): each for each in chosen.letters.newest(chosen.spec, fresh=fresh)}
    return [by_id[each] for each in dict.fromkeys(ids) if each in by_id]


def _summary(letter: DeadLetter) -> schemas.DeadLetter:
    return schemas.DeadLetter(
        id=dead_letters.id_of(letter),
        source=_plain(letter.source),
        sink=_plain(letter.sink),
        topic=_plain(letter.topic),
        partition=letter.partition,
        offset=letter.offset,
        timestamp=_plain(letter.timestamp),
        error=_plain(letter.error),
        checkpoint_id=letter.checkpoint_id,
        key_bytes=None if letter.key is None else len(letter.key),
        value_bytes=None if letter.value is None else len(letter.value),
        can_replay=letter.record is not None,
    )


def _plain(text: Any) -> Any:
    """Return a text with an escape for each control character and direction mark."""
    return text.translate(_ESCAPES) if isinstance(text, str) else text


def _content(value: bytes | None) -> schemas.Content | None:
    if value is None:
        return None
    try:
        text: str | None = value[: _TEXT_BYTES + 3].decode()[:_TEXT_BYTES]
    except UnicodeDecodeError as error:
        is_end = len(value) > _TEXT_BYTES + 3 and error.start >= _TEXT_BYTES  # a character that the cut has divided
        text = value[: error.start].decode() if is_end else None
    if text is not None:
        return schemas.Content(
            bytes=len(value), text=text.translate(_ESCAPES_OF_TEXT), hex=None, is_cut=len(text.encode()) < len(value)
        )
    shown = value[:_HEX_BYTES]
    return schemas.Content(bytes=len(value), text=None, hex=shown.hex(" ", 4), is_cut=len(shown) < len(value))
